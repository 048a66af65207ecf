// SPDX-License-Identifier: Apache-2.0
#include "repeats.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "run_tracker.hpp"

namespace cep::analysis {
namespace {

// Rows before any run row come from before the first attempt that says what it is.
RunOrder order_of_series(const RunSeries& series) {
    return series.has_run ? order_of(series.run) : RunOrder{INT64_MIN, INT64_MIN};
}

struct RowKey {
    std::int64_t step;
    std::uint32_t bits;
    double duration_ms;

    friend bool operator==(const RowKey&, const RowKey&) = default;
};

struct RowKeyHash {
    std::size_t operator()(const RowKey& key) const {
        constexpr std::size_t odd = 0x9e3779b97f4a7c15U;
        return (std::hash<std::int64_t>{}(key.step) * odd ^ key.bits) * odd ^ std::hash<double>{}(key.duration_ms);
    }
};

using LastRuns = std::unordered_map<std::int64_t, RunOrder>;  // by step

LastRuns find_last_runs(const std::vector<RunSeries>& ordered) {
    LastRuns last;
    for (const RunSeries& series : ordered)
        for (const std::int64_t step : series.steps) last[step] = order_of_series(series);
    return last;
}

void remove_superseded(RunSeries& series, const LastRuns& last, RepeatCounts& counts) {
    std::vector<bool> superseded(series.steps.size());
    for (std::size_t i = 0; i < superseded.size(); ++i)
        superseded[i] = last.at(series.steps[i]) != order_of_series(series);
    const bool any = std::find(superseded.begin(), superseded.end(), true) != superseded.end();
    if (!any) return;
    for (PhaseSeries& phase : series.phases) {
        counts.superseded_rows +=
            std::erase_if(phase.samples, [&](const Sample& sample) { return superseded[sample.step_index]; });
        counts.unresolved |= phase.in_histogram.count > 0;
    }
}

void remove_duplicates(const std::vector<RunSeries*>& same_run, const std::string& phase_name, RepeatCounts& counts) {
    std::unordered_set<RowKey, RowKeyHash> seen;
    for (RunSeries* series : same_run) {
        PhaseSeries* phase = series->find(phase_name);
        if (phase == nullptr) continue;
        counts.duplicate_rows += std::erase_if(phase->samples, [&](const Sample& sample) {
            if ((sample.bits & Sample::identified) == 0) return false;
            return !seen.insert({series->steps[sample.step_index], sample.bits, sample.duration_ms}).second;
        });
        counts.unresolved |= same_run.size() > 1 && phase->in_histogram.count > 0;
    }
}

void remove_duplicates(const std::vector<RunSeries*>& same_run, RepeatCounts& counts) {
    std::set<std::string> suspects;
    for (const RunSeries* series : same_run)
        for (const PhaseSeries& phase : series->phases)
            if (same_run.size() > 1 || phase.may_repeat) suspects.insert(phase.name);
    for (const std::string& name : suspects) remove_duplicates(same_run, name, counts);
}

}  // namespace

RepeatCounts remove_repeats(std::vector<RunSeries>& all_series, bool last_attempt_only) {
    RepeatCounts counts;
    std::stable_sort(all_series.begin(), all_series.end(),
                     [](const RunSeries& a, const RunSeries& b) { return order_of_series(a) < order_of_series(b); });
    if (all_series.size() > 1 && last_attempt_only) {
        const LastRuns last = find_last_runs(all_series);
        for (RunSeries& series : all_series) remove_superseded(series, last, counts);
    }
    for (auto first = all_series.begin(); first != all_series.end();) {
        std::vector<RunSeries*> same;
        auto next = first;
        while (next != all_series.end() && next->has_run == first->has_run && same_run(next->run, first->run))
            same.push_back(&*next++);
        if (first->has_run) remove_duplicates(same, counts);
        first = next;
    }
    return counts;
}

}  // namespace cep::analysis
