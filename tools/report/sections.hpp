// SPDX-License-Identifier: Apache-2.0
//
// Sections: what each part of the page shows, without a script.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/comm_report.hpp"
#include "compare/comparison.hpp"
#include "report/heat.hpp"
#include "report/svg.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::report {

struct ReportInputs;

struct Figure {
    std::string picture;  // HTML
    std::string caption;  // plain text
    bool is_svg = false;  // which scrolls rather than being smaller than its text can be read

    explicit Figure(std::string html, std::string below = {}) : picture(std::move(html)), caption(std::move(below)) {}
    explicit Figure(const Svg& svg, std::string below = {})
        : picture(svg.finish()), caption(std::move(below)), is_svg(true) {}
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

[[nodiscard]] Section heat_section(const JobView& view, const HeatMap& heat);
[[nodiscard]] Section bands_section(const JobView& view, const HeatMap& heat, const tool::Job& job,
                                    const tool::Verdict& verdict);
[[nodiscard]] Section breakdown_section(const JobView& view, const tool::Ledger& ledger);
[[nodiscard]] Section waits_section(const JobView& view, const HeatMap& heat);
[[nodiscard]] Section timeline_section(const ReportInputs& inputs, const JobView& view);
[[nodiscard]] Section comm_section(const comm::CommReport* report);
[[nodiscard]] Section compare_section(const compare::Comparison& comparison);

/// The counters whose names begin with "memory." and end with "_bytes".
[[nodiscard]] Section memory_section(const JobView& view, const tool::Job& job);
[[nodiscard]] Section what_if_section(const tool::Verdict& verdict);

}  // namespace cep::report
