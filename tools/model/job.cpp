// SPDX-License-Identifier: Apache-2.0
#include "model/job.hpp"

#include <algorithm>

#include "stats/step_pattern.hpp"
#include "stats/step_set.hpp"

namespace cep::tool {
namespace {

/// Marks the steps that a rank left out between its first change and its last step.
void mark_left_out(const RunSeries& series, const std::vector<std::int64_t>& steps, std::vector<bool>& is_partial) {
    const StrideChange& change = *series.stride;
    const std::vector<std::int64_t>& own = series.steps.all();
    if (own.empty()) return;
    const auto longest = static_cast<std::uint64_t>(change.longest);
    const std::int64_t start = series.run.start_step.value_or(0);
    auto next = std::upper_bound(own.begin(), own.end(), change.first_step);
    for (auto step = std::upper_bound(steps.begin(), steps.end(), change.first_step); step != steps.end(); ++step) {
        if (*step > own.back() && step_difference(own.back(), *step) >= longest) return;
        while (next != own.end() && *next < *step) ++next;
        if (next != own.end() && *next == *step) continue;
        // Each stride has the steps of the longest one: without such a step, something else is the reason.
        if (step_difference(start, *step) % longest != 0)
            is_partial[static_cast<std::size_t>(step - steps.begin())] = true;
    }
}

}  // namespace

double lost_share(const Loss& loss) {
    const auto lost = static_cast<double>(loss.dropped() + loss.abandoned);
    return loss.recorded == 0 ? 0 : lost / static_cast<double>(loss.recorded);
}

NumberRanges marked_steps(const Job& job) {
    NumberRanges steps;
    for (const auto& [name, mark] : job.marks) steps.merge(mark.steps);
    return steps;
}

void number_collectives(Job& job, std::size_t threads) {
    const std::vector<std::int64_t> steps = kept_steps(job);
    find_blocking_comm(job.ranks, steps);
    job.collectives = number_collectives(job.ranks, steps, threads);
    if (separate_groups(job, threads)) job.collectives = number_collectives(job.ranks, steps, threads);
}

std::vector<SeriesOfRank> all_series(const RankSeries& ranks) {
    std::vector<SeriesOfRank> all;
    for (const auto& [rank, of_rank] : ranks)
        for (const RunSeries& series : of_rank) all.push_back({rank, &series});
    return all;
}

bool any_phase(const RankSeries& ranks, bool (*is_one)(const PhaseSeries& phase)) {
    for (const SeriesOfRank& of : all_series(ranks))
        if (std::any_of(of.series->phases.begin(), of.series->phases.end(), is_one)) return true;
    return false;
}

std::vector<std::int64_t> all_steps(const RankSeries& ranks) {
    StepSet all;
    for (const SeriesOfRank& of : all_series(ranks)) all.add(of.series->steps.all());
    all.sort();
    return all.steps();
}

std::vector<std::int64_t> kept_steps(const Job& job) {
    std::vector<std::int64_t> steps = all_steps(job.ranks);
    if (!job.choice.keeps_all()) std::erase_if(steps, [&job](std::int64_t step) { return !job.choice.keeps(step); });
    return steps;
}

// Files of a job that goes on may end a flush apart, and few steps at the end are not worth a word.
std::optional<EarlyEnd> find_early_end(const RankSeries& ranks) {
    constexpr std::size_t least_steps = 8;      // that are missing
    constexpr std::size_t least_part = 10;      // of all steps: one in so many
    constexpr std::int64_t flushed_steps = 10;  // between flushes
    const std::vector<std::int64_t> steps = all_steps(ranks);
    std::int64_t attempt = std::numeric_limits<std::int64_t>::min();
    for (const SeriesOfRank& of : all_series(ranks)) attempt = std::max(attempt, of.series->run.attempt);
    const auto missing_after = [&](std::int64_t step) {
        return static_cast<std::size_t>(steps.end() - std::upper_bound(steps.begin(), steps.end(), step));
    };
    EarlyEnd end;
    end.last_step = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, of_rank] : ranks) {
        const RunSeries& series = of_rank.back();
        if (series.run.attempt != attempt || series.steps.empty()) continue;
        const std::int64_t last = series.steps.back();
        if (missing_after(last) < std::max(least_steps, steps.size() / least_part)) continue;
        if (steps.back() - last <= flushed_steps) continue;
        end.ranks.push_back(rank);
        end.last_step = std::min(end.last_step, last);
    }
    if (end.ranks.empty()) return std::nullopt;
    constexpr std::size_t least_compared = 4;  // of all steps: one in so many
    const std::size_t before = steps.size() - missing_after(end.last_step);
    end.is_compared = before >= std::max(least_steps, steps.size() / least_compared);
    return end;
}

std::vector<bool> find_partial_steps(const RankSeries& ranks, const std::vector<std::int64_t>& steps) {
    std::vector<bool> is_partial;
    const RunSeries* last = nullptr;  // ranks usually have the same steps
    for (const SeriesOfRank& of : all_series(ranks)) {
        const RunSeries& series = *of.series;
        if (!series.stride) continue;
        if (last != nullptr && last->steps == series.steps && *last->stride == *series.stride) continue;
        last = &series;
        is_partial.resize(steps.size());
        mark_left_out(series, steps, is_partial);
    }
    return is_partial;
}

StepPhase find_step_phase(std::span<const SeriesOfRank> all_series) {
    std::map<std::string_view, double> totals_ms;
    for (const SeriesOfRank& of : all_series)
        for (const PhaseSeries& phase : of.series->phases)
            if (phase.kind == schema::Kind::step) totals_ms[phase.name] += totals_of(phase).sum_ms;
    const auto longest = std::max_element(totals_ms.begin(), totals_ms.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    if (longest == totals_ms.end()) return {};
    return {true, longest->first, longest->second};
}

RankRole role_of(std::int64_t rank, const std::vector<RunSeries>& of_rank) {
    RankRole role = of_rank.back().run;
    role.rank = rank;
    return role;
}

}  // namespace cep::tool
