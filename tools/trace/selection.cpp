// SPDX-License-Identifier: Apache-2.0
#include "trace/selection.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cep::tool {
namespace {

double median_of(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

void Survey::StepCost::add(const StepCost& other) {
    step_ms += other.step_ms;
    comm_ms += other.comm_ms;
    begin_ns = std::min(begin_ns, other.begin_ns);
    end_ns = std::max(end_ns, other.end_ns);
}

// Without a span of the whole step, the step lasts from its first start to its last end.
double Survey::StepCost::own_work_ms() const {
    const double extent_ms = begin_ns < end_ns ? static_cast<double>(end_ns - begin_ns) * 1e-6 : 0;
    return (step_ms > 0 ? step_ms : extent_ms) - comm_ms;
}

void Survey::add(LastSteps& steps, const StepCost& cost) {
    if (!steps.empty() && steps.back().step == cost.step) return steps.back().add(cost);
    const auto found = std::lower_bound(steps.begin(), steps.end(), cost.step,
                                        [](const StepCost& kept, std::int64_t step) { return kept.step < step; });
    if (found != steps.end() && found->step == cost.step) return found->add(cost);
    if (steps.size() < kept_steps) {
        steps.insert(found, cost);
    } else if (found != steps.begin()) {
        std::rotate(steps.begin(), steps.begin() + 1, found);
        *(found - 1) = cost;
    }
}

void Survey::take(const Row& row) {
    if (row.type == RowType::run) hosts_.insert(row.run->host);
    if (row.type == RowType::run || row.type == RowType::stats || !row.rank || !row.step) return;
    StepCost cost;
    cost.step = *row.step;
    if (row.type == RowType::span) {
        if (row.kind == schema::Kind::step) cost.step_ms = row.duration_ms;
        if (row.kind == schema::Kind::comm) cost.comm_ms = row.duration_ms;
        if (row.start_ns) {
            cost.begin_ns = *row.start_ns;
            cost.end_ns = *row.start_ns + std::llround(row.duration_ms * 1e6);
        }
    }
    first_step_ = std::min(first_step_, cost.step);
    add(ranks_[*row.rank], cost);
}

void Survey::merge(Survey&& other) {
    first_step_ = std::min(first_step_, other.first_step_);
    hosts_.merge(other.hosts_);
    for (auto& [rank, steps] : other.ranks_) {
        const auto [known, is_new] = ranks_.try_emplace(rank, std::move(steps));
        if (is_new) continue;
        for (const StepCost& cost : steps) add(known->second, cost);
    }
}

/// The first of the last steps that any rank recorded.
std::int64_t Survey::first_kept_step() const {
    std::set<std::int64_t> last;
    for (const auto& [rank, steps] : ranks_)
        for (const StepCost& cost : steps) {
            if (last.size() == kept_steps && cost.step <= *last.begin()) continue;
            last.insert(cost.step);
            if (last.size() > kept_steps) last.erase(last.begin());
        }
    return *last.begin();
}

Selection Survey::select() const {
    Selection selection;
    selection.ranks_of_job = ranks_.size();
    selection.first_step_of_job = first_step_;
    selection.first_step = first_kept_step();
    selection.last_step = selection.first_step;
    std::vector<std::pair<double, std::int64_t>> by_cost;
    for (const auto& [rank, steps] : ranks_) {
        std::vector<double> costs_ms;
        for (const StepCost& cost : steps)
            if (cost.step >= selection.first_step) costs_ms.push_back(cost.own_work_ms());
        selection.last_step = std::max(selection.last_step, steps.back().step);
        if (!costs_ms.empty() || ranks_.size() <= 3) by_cost.emplace_back(median_of(std::move(costs_ms)), rank);
    }
    std::sort(by_cost.begin(), by_cost.end());
    const std::size_t count = by_cost.size();
    if (count <= 3) {
        for (const auto& [cost_ms, rank] : by_cost) selection.ranks.push_back(rank);
    } else {
        selection.ranks = {by_cost.front().second, by_cost[(count - 1) / 2].second, by_cost.back().second};
    }
    return selection;
}

void FileSurvey::take(const Row& row, std::uint64_t) {
    if (!row.rank) return;
    const std::int64_t attempt = tracker_.attempt_of(*row.rank, tracker_.observe(row).run);
    if (filter_.accepts_attempt(attempt) && filter_.surveyed.accepts(row)) survey_.take(row);
}

}  // namespace cep::tool
