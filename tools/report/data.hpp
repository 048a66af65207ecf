// SPDX-License-Identifier: Apache-2.0
//
// Data: what the pictures of a page are drawn from in a browser. Its format is in page/DATA.md.
#pragma once

#include <string>
#include <vector>

#include "report/fit.hpp"
#include "report/report.hpp"

namespace cep::report {

/// What the data is made of.
struct DataParts {
    const ReportInputs* inputs = nullptr;
    const JobView* view = nullptr;
    const HeatMap* heat = nullptr;
    const Breakdown* breakdown = nullptr;
    const Timeline* timeline = nullptr;
};

/// As JSON that may stand in a script element.
[[nodiscard]] std::string write_data(const DataParts& parts, const FittedHeat& heat);

}  // namespace cep::report
