// SPDX-License-Identifier: Apache-2.0
//
// Sections: what each part of the page shows, without a script.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/heat.hpp"
#include "report/report.hpp"
#include "report/svg.hpp"

namespace cep::report {

struct Page {
    const ReportInputs& inputs;
    JobView view;
    HeatMap heat;
};

struct Figure {
    std::string picture;    // HTML
    std::string caption{};  // plain text
};

/// What to look for, pictures, and the same as text.
struct Section {
    std::string id;
    std::string heading;
    std::string look{};   // one sentence: what to look for
    std::string empty{};  // why there is nothing to show; else ""
    std::vector<Figure> figures{};
    std::string details{};  // HTML: the same as tables

    [[nodiscard]] Section without(std::string why) {
        empty = std::move(why);
        return std::move(*this);
    }
};

/// The style sheet of a page, and the script that makes its pictures explorable: both are built from tools/report/page.
struct PageText {
    std::string_view text;
    std::string_view sha256;  // in base64, as a content security policy names it
};
[[nodiscard]] PageText page_style();
[[nodiscard]] PageText page_script();

/// Functions that make the sections of a page, in its order.
using MakeSection = Section(const Page& page);
MakeSection compare_section, breakdown_section, heat_section, waits_section, bands_section, what_if_section,
    timeline_section, comm_section, memory_section;

}  // namespace cep::report
