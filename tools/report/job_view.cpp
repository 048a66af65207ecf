// SPDX-License-Identifier: Apache-2.0
#include "report/job_view.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/units.hpp"
#include "verdict/causes.hpp"

namespace cep::report {
namespace {

using tool::Job;

/// Their names say in what the ranks differ: a coordinate that all have is left out.
void find_roles(JobView& view) {
    const auto differ = [&](auto coordinate) {
        return std::any_of(view.who.begin(), view.who.end(),
                           [&](const auto& rank) { return rank.*coordinate != view.who.front().*coordinate; });
    };
    const bool has_stages = differ(&tool::RankRole::pp);
    const bool has_positions = differ(&tool::RankRole::tp);
    std::map<std::string, std::size_t> known;
    for (const tool::RankRole& rank : view.who) {
        std::string name;
        if (has_stages && rank.pp) name = fmt::format("stage {}", *rank.pp);
        if (has_positions && rank.tp) name += fmt::format("{}tp {}", name.empty() ? "" : ", ", *rank.tp);
        const auto [role, is_new] = known.try_emplace(name.empty() ? "all ranks" : name, view.roles.size());
        if (is_new) view.roles.push_back(role->first);
        view.role.push_back(role->second);
    }
}

/// The longest step phase comes first, where there is one.
void find_phases(const std::vector<tool::PhaseSummary>& by_time, JobView& view) {
    for (const tool::PhaseSummary& phase : by_time)
        if (phase.total_ms > 0) view.phases.push_back({phase.name, phase.kind});
    view.has_step = !view.phases.empty() && view.phases.front().kind == schema::Kind::step;
    view.left_out_phases = view.phases.size() - std::min(view.phases.size(), max_phases);
    view.phases.resize(view.phases.size() - view.left_out_phases);
}

void find_blamed(const tool::Verdict& verdict, JobView& view) {
    std::set<std::size_t> known = {view.ranks.size()};  // that of a rank that the view does not have
    const auto add = [&](const tool::Finding& one, std::int64_t first_step, std::int64_t last_step) {
        for (const std::int64_t rank : one.ranks) {
            const std::size_t index = view.index_of(rank);
            if (!known.insert(index).second) continue;
            if (view.blamed.empty()) view.first_blame = {one.phase, first_step, last_step};
            view.blamed.push_back(index);
        }
    };
    for (const tool::Finding* const one : verdict.stragglers()) add(*one, one->first_step, one->last_step);
    for (const tool::Finding* const one : verdict.groups()) add(*one, one->first_step, one->last_step);
    const tool::Finding* const cause = tool::headline_cause(verdict);
    if (!view.blamed.empty() || cause == nullptr || view.steps.first.empty()) return;
    view.blames_stage = cause->kind == tool::FindingKind::stage;
    add(*cause, view.steps.first.front(), view.steps.last.back());
}

void use_table(const tool::JobTable& table, JobView& view) {
    if (table.steps.size() < table.all_steps) view.steps = merge_bins({table.steps, table.steps}, max_columns);
    if (table.has_step_spans) return;
    if (view.has_step)
        view.phases.front().kind = schema::Kind::compute;  // spans beside the others are a phase like them
    view.has_step =
        std::any_of(table.median_step_ms.begin(), table.median_step_ms.end(), [](double ms) { return ms > 0; });
    if (view.has_step) view.phases.insert(view.phases.begin(), {"whole step", schema::Kind::step});
}

}  // namespace

std::string color_of(schema::Kind kind, std::string_view name, std::uint32_t shift) {
    constexpr std::uint32_t variants = 8;
    std::uint32_t hash = 2166136261;  // FNV-1a
    for (const char one : name) hash = (hash ^ static_cast<unsigned char>(one)) * 16777619;
    return fmt::format("k-{} v{}", schema::kind_name(kind), ((hash >> 16 ^ hash) + shift) % variants);
}

std::size_t JobView::index_of(std::int64_t rank) const {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return found != ranks.end() && *found == rank ? static_cast<std::size_t>(found - ranks.begin()) : ranks.size();
}

std::size_t JobView::phase_of(std::string_view name) const {
    const auto found = std::find_if(phases.begin(), phases.end(), [name](const auto& one) { return one.name == name; });
    return static_cast<std::size_t>(found - phases.begin());
}

std::string JobView::name_rank(std::size_t index) const {
    const std::string& host = who[index].host;
    return fmt::format("rank {}{}", ranks[index], host.empty() ? "" : " (" + host + ")");
}

std::string JobView::label_of(const std::vector<std::size_t>& row) const {
    return row.size() == 1 ? fmt::format("{}", ranks[row.front()])
                           : fmt::format("{}–{}", ranks[row.front()], ranks[row.back()]);
}

std::vector<std::vector<std::size_t>> JobView::peers() const {
    std::vector<std::vector<std::size_t>> by_role(blames_stage ? 1 : roles.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) by_role[blames_stage ? 0 : role[i]].push_back(i);
    return by_role;
}

JobView view_job(const tool::Job& job, const tool::Summary& summary, const tool::Verdict& verdict,
                 const tool::JobTable* table) {
    JobView view;
    view.missing_ranks = job.coverage.missing_ranks;
    for (const auto& [rank, all_series] : job.ranks) {
        if (all_series.empty()) continue;
        view.ranks.push_back(rank);
        view.who.push_back(tool::role_of(rank, all_series));
    }
    find_roles(view);
    find_phases(summary.phases, view);
    const std::vector<std::int64_t> steps = tool::kept_steps(job);
    view.steps = merge_bins({steps, steps}, max_columns);
    view.recorded_steps = job.steps.count;
    find_blamed(verdict, view);
    view.slowness_ms.assign(view.ranks.size(), std::numeric_limits<double>::quiet_NaN());
    if (table != nullptr) use_table(*table, view);
    return view;
}

std::string name_steps(std::int64_t first, std::int64_t last) {
    return first == last ? "step " + tool::format_integer(first) : "steps " + tool::format_from_to(first, last);
}

}  // namespace cep::report
