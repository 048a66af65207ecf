// SPDX-License-Identifier: Apache-2.0
#include "model/repeats.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "read/run_tracker.hpp"

namespace cep::tool {
namespace {

using RunKey = std::pair<std::int64_t, std::string>;  // attempt, run id

RunKey key_of(const RunSeries& series) {
    return {series.run.attempt, series.run.run_id};
}

std::partial_ordering compare(const PhaseSeries& a, const PhaseSeries& b) {
    if (const auto order = a.name <=> b.name; order != 0) return order;
    const auto order_of_samples = [](const Sample& x, const Sample& y) {
        return std::tie(x.duration_ms, x.start_ns) <=> std::tie(y.duration_ms, y.start_ns);
    };
    const std::size_t both = std::min(a.samples.size(), b.samples.size());
    for (std::size_t i = 0; i < both; ++i)
        if (const auto order = order_of_samples(a.samples[i], b.samples[i]); order != 0) return order;
    return a.samples.size() <=> b.samples.size();
}

class SeriesOrder {
  public:
    explicit SeriesOrder(const std::vector<RunSeries>& all_series) {
        std::set<std::int64_t> attempts;
        for (const RunSeries& series : all_series) {
            if (!series.has_run) continue;
            const std::int64_t start_ns = series.run.start_unix_ns.value_or(INT64_MIN);
            const auto [known, is_new] = starts_ns_.try_emplace(key_of(series), start_ns);
            known->second = std::min(known->second, start_ns);
            attempts.insert(series.run.attempt);
        }
        numbered_once_ = attempts.size() == starts_ns_.size();
    }

    [[nodiscard]] bool comes_before(const RunSeries& a, const RunSeries& b) const {
        if (const auto order = sort_key(a) <=> sort_key(b); order != 0) return order < 0;
        if (const auto order = a.steps.all() <=> b.steps.all(); order != 0) return order < 0;
        // Only copies of the same rows come this far.
        return std::lexicographical_compare_three_way(a.phases.begin(), a.phases.end(), b.phases.begin(),
                                                      b.phases.end(), compare) < 0;
    }

  private:
    using Key = std::tuple<bool, std::int64_t, RunKey>;

    [[nodiscard]] Key sort_key(const RunSeries& series) const {
        if (!series.has_run) return {false, 0, {}};
        RunKey key = key_of(series);
        const std::int64_t start_ns = numbered_once_ ? 0 : starts_ns_.at(key);
        return {true, start_ns, std::move(key)};
    }

    std::map<RunKey, std::int64_t> starts_ns_;
    bool numbered_once_ = false;
};

}  // namespace

void order_series(std::vector<RunSeries>& all_series) {
    if (all_series.size() < 2) return;
    const SeriesOrder order(all_series);
    const auto comes_before = [&order](const RunSeries& a, const RunSeries& b) { return order.comes_before(a, b); };
    // A file has its runs in order.
    if (!std::is_sorted(all_series.begin(), all_series.end(), comes_before))
        std::sort(all_series.begin(), all_series.end(), comes_before);
}

std::vector<std::size_t> number_runs(const std::vector<RunSeries>& ordered) {
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < ordered.size(); ++i) {
        const bool same = i > 0 && ordered[i].has_run == ordered[i - 1].has_run &&
                          (!ordered[i].has_run || same_run(ordered[i].run, ordered[i - 1].run));
        numbers.push_back(i == 0 ? 0 : numbers.back() + (same ? 0 : 1));
    }
    return numbers;
}

namespace {

struct SampleKey {
    std::int64_t step;
    std::int64_t start_ns;
    std::uint32_t attributes;
    double duration_ms;

    friend bool operator==(const SampleKey&, const SampleKey&) = default;
};

struct SampleKeyHash {
    std::size_t operator()(const SampleKey& key) const {
        constexpr std::size_t odd = 0x9e3779b97f4a7c15U;
        const std::size_t of_step = std::hash<std::int64_t>{}(key.step) * odd ^ key.attributes;
        return (of_step * odd ^ std::hash<std::int64_t>{}(key.start_ns)) * odd ^ std::hash<double>{}(key.duration_ms);
    }
};

using LastRuns = std::unordered_map<std::int64_t, std::size_t>;  // by step

LastRuns find_last_runs(const std::vector<RunSeries>& ordered, const std::vector<std::size_t>& runs) {
    LastRuns last;
    for (std::size_t i = 0; i < ordered.size(); ++i)
        for (const std::int64_t step : ordered[i].steps) last[step] = runs[i];
    return last;
}

/// What is removed from the samples of some steps stays in the totals of all.
template <typename IsGone>
std::uint64_t remove_samples(PhaseSeries& phase, IsGone is_gone) {
    const std::uint64_t removed = phase.erase_samples_if(is_gone);
    return phase.has_all_steps() ? removed : 0;
}

void mark_superseded(RunSeries& series, std::size_t run, const LastRuns& last) {
    std::vector<bool> is_superseded(series.steps.size());
    for (std::size_t i = 0; i < is_superseded.size(); ++i) is_superseded[i] = last.at(series.steps[i]) != run;
    if (std::find(is_superseded.begin(), is_superseded.end(), true) == is_superseded.end()) return;
    for (const PhaseSeries& phase : series.phases)
        for (const Sample sample : phase.samples)
            if (is_superseded[sample.step_index] && sample.has_start()) series.superseded.include(sample.interval());
    series.is_superseded = std::move(is_superseded);
}

void remove_superseded(RunSeries& series, RepeatCounts& counts) {
    for (PhaseSeries& phase : series.phases) {
        counts.superseded_rows +=
            remove_samples(phase, [&](const Sample& sample) { return series.is_superseded[sample.step_index]; });
        counts.unresolved |= !phase.has_all_steps();
    }
}

void remove_duplicates(const std::vector<RunSeries*>& same_run, const std::string& phase_name, RepeatCounts& counts) {
    std::unordered_set<SampleKey, SampleKeyHash> seen;
    for (RunSeries* series : same_run) {
        PhaseSeries* phase = series->find(phase_name);
        if (phase == nullptr) continue;
        counts.duplicate_rows += remove_samples(*phase, [&](const Sample& sample) {
            // Without a start time, rows of one phase and step look alike.
            if (!sample.has_start()) return false;
            const SampleKey key{series->steps[sample.step_index], sample.start_ns, sample.attributes,
                                sample.duration_ms};
            return !seen.insert(key).second;
        });
        counts.unresolved |= same_run.size() > 1 && !phase->has_all_steps();
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
    order_series(all_series);
    const std::vector<std::size_t> runs = number_runs(all_series);
    if (all_series.size() > 1) {
        const LastRuns last = find_last_runs(all_series, runs);
        for (std::size_t i = 0; i < all_series.size(); ++i) {
            mark_superseded(all_series[i], runs[i], last);
            if (last_attempt_only && !all_series[i].is_superseded.empty()) remove_superseded(all_series[i], counts);
        }
    }
    for (std::size_t first = 0; first < all_series.size();) {
        std::vector<RunSeries*> same;
        std::size_t next = first;
        while (next < all_series.size() && runs[next] == runs[first]) same.push_back(&all_series[next++]);
        if (all_series[first].has_run) remove_duplicates(same, counts);
        first = next;
    }
    return counts;
}

}  // namespace cep::tool
