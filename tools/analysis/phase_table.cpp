// SPDX-License-Identifier: Apache-2.0
#include "phase_table.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cep::analysis {
namespace {

using Ranks = std::map<std::int64_t, std::vector<RunSeries>>;

Totals totals_of(const PhaseSeries& phase) {
    Totals totals = phase.in_histogram;
    for (const Sample& sample : phase.samples) totals.add(sample.duration_ms, sample.is_top_level());
    return totals;
}

/// What a share is a share of: for each rank the steps that have a step span, and the time of these spans.
class StepTime {
  public:
    explicit StepTime(const Ranks& ranks) {
        for (const auto& [rank, all_series] : ranks) add_rank(rank, all_series);
        if (total_ms_ > 0) return;
        for (const auto& [rank, all_series] : ranks) add_top_level(all_series);
    }
    [[nodiscard]] double total_ms() const { return total_ms_; }

    /// The part of a phase's time that counts towards its share.
    [[nodiscard]] double part_ms(std::int64_t rank, const RunSeries& series, const PhaseSeries& phase,
                                 const Totals& totals) const {
        if (steps_.empty()) return totals.sum_ms;
        const auto found = steps_.find(rank);
        if (found == steps_.end()) return 0;
        if (phase.in_histogram.count > 0) return totals.sum_ms;
        const std::vector<bool> counts = which_are_in(found->second, series.steps);
        if (std::find(counts.begin(), counts.end(), false) == counts.end()) return totals.sum_ms;
        double part_ms = 0;
        for (const Sample& sample : phase.samples)
            if (counts[sample.step_index]) part_ms += sample.duration_ms;
        return part_ms;
    }

  private:
    using Steps = std::vector<std::int64_t>;  // ascending

    // Both usually ascend, so that the next one is where the last one was found.
    static std::vector<bool> which_are_in(const Steps& steps, const std::vector<std::int64_t>& of_series) {
        std::vector<bool> are_in;
        are_in.reserve(of_series.size());
        auto at = steps.begin();
        for (const std::int64_t step : of_series) {
            if (at == steps.end() || *at != step) at = std::lower_bound(steps.begin(), steps.end(), step);
            are_in.push_back(at != steps.end() && *at == step);
            if (are_in.back()) ++at;
        }
        return are_in;
    }

    // With step spans inside step spans, the outermost ones are the longest in all.
    void add_rank(std::int64_t rank, const std::vector<RunSeries>& all_series) {
        std::map<std::string, double> totals_ms;
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases)
                if (phase.kind == schema::Kind::step) totals_ms[phase.name] += totals_of(phase).sum_ms;
        if (totals_ms.empty()) return;
        const auto longest = std::max_element(totals_ms.begin(), totals_ms.end(),
                                              [](const auto& a, const auto& b) { return a.second < b.second; });
        total_ms_ += longest->second;
        Steps& steps = steps_[rank];
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases)
                if (phase.name == longest->first)
                    for (const Sample& sample : phase.samples) steps.push_back(series.steps[sample.step_index]);
        if (!std::is_sorted(steps.begin(), steps.end())) std::sort(steps.begin(), steps.end());
    }

    void add_top_level(const std::vector<RunSeries>& all_series) {
        steps_.clear();
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases)
                if (phase.kind != schema::Kind::step) total_ms_ += totals_of(phase).top_level_ms;
    }

    std::map<std::int64_t, Steps> steps_;
    double total_ms_ = 0;
};

/// Exact values or a histogram, whichever is in use.
class Distribution {
  public:
    void reserve(std::size_t values) { values_.reserve(values); }
    void add(const PhaseSeries& phase) {
        for (const Sample& sample : phase.samples) values_.push_back(sample.duration_ms);
        histogram_.merge(phase.histogram);
    }
    [[nodiscard]] std::size_t values() const { return values_.size(); }
    [[nodiscard]] double quantile(double q) const {
        return histogram_.count() > 0 ? histogram_.quantile(q) : exact_quantile(values_, q);
    }
    /// Of the exact values without the first ones.
    [[nodiscard]] double median_behind(std::size_t first) const {
        return exact_quantile(std::span(values_).subspan(first), 0.5);
    }

  private:
    std::vector<double> values_;
    LogHistogram histogram_;
};

/// One phase of one rank: in each run of it that has the phase.
using SeriesOfPhase = std::vector<std::pair<const RunSeries*, const PhaseSeries*>>;

/// One phase over all ranks.
class PhaseCollector {
  public:
    PhaseCollector(std::string_view name, std::size_t samples, const StepTime& step_time) : step_time_(step_time) {
        summary_.name = name;
        all_.reserve(samples);
    }

    void add_rank(std::int64_t rank, const SeriesOfPhase& all_series) {
        const std::size_t others = all_.values();
        LogHistogram of_rank;
        std::uint64_t count = 0;
        for (const auto& [series, phase] : all_series) {
            const Totals totals = totals_of(*phase);
            if (totals.count == 0) continue;
            count += totals.count;
            of_rank.merge(phase->histogram);
            all_.add(*phase);
            add_labels(*phase, totals.count);
            totals_.merge(totals);
            part_ms_ += step_time_.part_ms(rank, *series, *phase, totals);
        }
        if (count == 0) return;
        medians_.emplace_back(rank, of_rank.count() > 0 ? of_rank.quantile(0.5) : all_.median_behind(others));
    }

    [[nodiscard]] bool empty() const { return totals_.count == 0; }

    PhaseSummary finish() {
        PhaseSummary& s = summary_;
        s.kind = static_cast<schema::Kind>(std::max_element(kinds_.begin(), kinds_.end()) - kinds_.begin());
        s.clock = clock_;
        s.count = totals_.count;
        s.ranks = medians_.size();
        s.total_ms = totals_.sum_ms;
        s.mean_ms = totals_.sum_ms / static_cast<double>(totals_.count);
        s.p50_ms = all_.quantile(0.5);
        s.p90_ms = all_.quantile(0.9);
        s.p99_ms = all_.quantile(0.99);
        s.min_ms = totals_.min_ms;
        s.max_ms = totals_.max_ms;
        if (step_time_.total_ms() > 0) s.share = part_ms_ / step_time_.total_ms();
        find_slowest();
        return std::move(s);
    }

  private:
    void add_labels(const PhaseSeries& phase, std::uint64_t count) {
        kinds_[static_cast<std::size_t>(phase.kind)] += count;
        clock_ = totals_.count == 0 ? phase.clock : combine(clock_, phase.clock);
    }

    void find_slowest() {
        const auto slowest = std::max_element(medians_.begin(), medians_.end(),
                                              [](const auto& a, const auto& b) { return a.second < b.second; });
        summary_.slowest_rank = slowest->first;
        const double slowest_ms = slowest->second;
        std::vector<double> values;
        for (const auto& [rank, median_ms] : medians_) values.push_back(median_ms);
        const double typical_ms = exact_quantile(values, 0.5);
        if (typical_ms > 0) summary_.skew = slowest_ms / typical_ms;
    }

    const StepTime& step_time_;
    PhaseSummary summary_;
    Distribution all_;
    Totals totals_;
    double part_ms_ = 0;
    Clock clock_ = Clock::none;
    std::array<std::uint64_t, schema::kind_names.size()> kinds_{};
    std::vector<std::pair<std::int64_t, double>> medians_;
};

std::map<std::string_view, std::size_t> count_samples(const Ranks& ranks) {
    std::map<std::string_view, std::size_t> samples;
    for (const auto& [rank, all_series] : ranks)
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases) samples[phase.name] += phase.samples.size();
    return samples;
}

bool shown_before(const PhaseSummary& a, const PhaseSummary& b) {
    const bool a_is_step = a.kind == schema::Kind::step;
    const bool b_is_step = b.kind == schema::Kind::step;
    if (a_is_step != b_is_step) return a_is_step;
    return a.total_ms != b.total_ms ? a.total_ms > b.total_ms : a.name < b.name;
}

}  // namespace

std::vector<PhaseSummary> summarize_phases(const Ranks& ranks) {
    const StepTime step_time(ranks);
    std::map<std::string_view, PhaseCollector> collectors;
    for (const auto& [name, samples] : count_samples(ranks)) collectors.try_emplace(name, name, samples, step_time);
    for (const auto& [rank, all_series] : ranks) {
        std::map<std::string_view, SeriesOfPhase> of_rank;
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases) of_rank[phase.name].emplace_back(&series, &phase);
        for (const auto& [name, series_of_phase] : of_rank) collectors.at(name).add_rank(rank, series_of_phase);
    }
    std::vector<PhaseSummary> phases;
    for (auto& [name, collector] : collectors)
        if (!collector.empty()) phases.push_back(collector.finish());
    std::sort(phases.begin(), phases.end(), shown_before);
    return phases;
}

}  // namespace cep::analysis
