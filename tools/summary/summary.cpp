// SPDX-License-Identifier: Apache-2.0
#include "summary/summary.hpp"

#include "base/failure.hpp"
#include "base/text.hpp"
#include "summary/phase_table.hpp"
#include "summary/summary_groups.hpp"

namespace cep::tool {
namespace {

using By = Grouping::By;

constexpr std::string_view step_prefix = "step:";

// Of a few phases that were asked for, only step spans among them make a whole to be a share of.
void drop_baseless_shares(Summary& summary) {
    for (const PhaseSummary& phase : summary.phases)
        if (phase.kind == schema::Kind::step) return;
    for (PhaseSummary& phase : summary.phases) phase.share.reset();
    for (GroupSummary& group : summary.groups) group.phase.share.reset();
}

}  // namespace

Grouping Grouping::parse(std::string_view text) {
    if (text == "phase") return {By::phase, 1};
    if (text == "rank") return {By::rank, 1};
    if (text == "host") return {By::host, 1};
    if (text.starts_with(step_prefix)) {
        const auto steps = parse_number<std::int64_t>(text.substr(step_prefix.size()));
        if (steps && *steps > 0) return {By::step, *steps};
    }
    throw UsageError("--by: '" + std::string(text) +
                     "' is not one of phase, rank, host and step:N (N steps, at least 1)");
}

std::string Grouping::name() const {
    switch (by) {
        case By::phase:
            return "phase";
        case By::rank:
            return "rank";
        case By::host:
            return "host";
        case By::step:
            break;
    }
    return std::string(step_prefix) + std::to_string(window_steps);
}

Summary summarize(const Job& job, const Grouping& grouping, std::size_t threads) {
    Summary summary;
    summary.phases = summarize_phases(all_series(job.ranks), threads);
    summary.counters = summarize_counters(job.ranks);
    summary.memory = summarize_memory(job.ranks);
    summary.own_cost = find_own_cost(job);
    summary.stride_changes = find_stride_changes(job);
    summary.grouping = grouping;
    summary.groups = summarize_groups(job, grouping, threads);
    if (job.filter.has_phases()) drop_baseless_shares(summary);
    return summary;
}

}  // namespace cep::tool
