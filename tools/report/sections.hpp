// SPDX-License-Identifier: Apache-2.0
//
// Sections: what each part of the page shows, without a script.
#pragma once

#include "comm/comm_report.hpp"
#include "compare/comparison.hpp"
#include "report/breakdown.hpp"
#include "report/heat.hpp"
#include "report/section.hpp"
#include "report/timeline.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::report {

[[nodiscard]] Section heat_section(const JobView& view, const HeatMap& heat);
[[nodiscard]] Section bands_section(const JobView& view, const HeatMap& heat, const tool::Job& job,
                                    const tool::Verdict& verdict);
[[nodiscard]] Section breakdown_section(const JobView& view, const Breakdown& breakdown);
[[nodiscard]] Section waits_section(const JobView& view, const HeatMap& heat);
[[nodiscard]] Section timeline_section(const JobView& view, const Timeline& timeline);
[[nodiscard]] Section what_if_section(const tool::Verdict& verdict);
/// `report`: nullptr where the job was not read for it; `why` then says why.
[[nodiscard]] Section comm_section(const comm::CommReport* report, const std::string& why);
[[nodiscard]] Section memory_section(const JobView& view, const tool::Job& job, const tool::Summary& summary);
[[nodiscard]] Section compare_section(const compare::Comparison& comparison);

}  // namespace cep::report
