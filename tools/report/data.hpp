// SPDX-License-Identifier: Apache-2.0
//
// Data: what the pictures of a page are drawn from in a browser. Its format is in page/DATA.md.
#pragma once

#include <string>
#include <vector>

#include "report/fit.hpp"
#include "report/report.hpp"
#include "report/sections.hpp"

namespace cep::report {

/// What a page shows, in its sections and in its data.
struct PageParts {
    const ReportInputs& inputs;
    const JobView& view;
    HeatMap heat;
    Breakdown breakdown;
    Timeline timeline;
    std::vector<MemoryCounter> memory;
};

/// As JSON that may stand in a script element.
[[nodiscard]] std::string write_data(const PageParts& parts, const FittedHeat& heat);

}  // namespace cep::report
