// SPDX-License-Identifier: Apache-2.0
#include "model/series_order.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <string>
#include <tuple>
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
    std::sort(all_series.begin(), all_series.end(),
              [&order](const RunSeries& a, const RunSeries& b) { return order.comes_before(a, b); });
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

}  // namespace cep::tool
