// SPDX-License-Identifier: Apache-2.0
#include "summary/phase_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "base/parallel.hpp"

namespace cep::tool {
namespace {

struct PhaseOfJob {
    std::string_view name;
    std::size_t samples = 0;
    std::vector<SeriesOfPhase> series;  // rank by rank
};

/// The durations of a phase: many of them where they are, few of them side by side with others.
class Durations {
  public:
    explicit Durations(const PhaseOfJob& phase) {
        std::size_t in_few = 0;
        for (const SeriesOfPhase& of : phase.series)
            if (of.phase->in_histogram.count == 0 && are_few(of.phase->samples)) in_few += of.phase->samples.size();
        few_.reserve(in_few);
    }

    void add(const SampleList& samples) {
        for (std::size_t i = 0; i < samples.chunks(); ++i) {
            std::span<const double> durations_ms = samples.chunk(i).durations_ms();
            if (are_few(samples)) {
                const std::size_t others = few_.size();
                few_.insert(few_.end(), durations_ms.begin(), durations_ms.end());
                durations_ms = std::span<const double>(few_).subspan(others);
            }
            parts_.push_back(durations_ms);
        }
    }
    [[nodiscard]] double squares_about(double mean_ms) const {
        double sum = 0;
        for (const std::span<const double> part : parts_)
            for (const double ms : part) sum += (ms - mean_ms) * (ms - mean_ms);
        return sum;
    }
    [[nodiscard]] std::vector<double> quantiles(std::initializer_list<double> qs) const {
        return exact_quantiles(ValueParts(parts_), qs);
    }

  private:
    static bool are_few(const SampleList& samples) { return samples.size() < 64; }

    std::vector<double> few_;  // never moves, as there is room for all
    std::vector<std::span<const double>> parts_;
};

/// One phase over all ranks, either from exact durations or from histograms.
class PhaseCollector {
  public:
    explicit PhaseCollector(const PhaseOfJob& phase) : durations_(phase) { summary_.name = phase.name; }

    /// The series of one rank.
    void add_rank(std::span<const SeriesOfPhase> all_series) {
        std::uint64_t count = 0;
        double sum_ms = 0;
        for (const SeriesOfPhase& of : all_series) {
            const Totals totals = totals_of(*of.phase);
            if (totals.count == 0) continue;
            if (of.phase->in_histogram.count == 0) durations_.add(of.phase->samples);
            count += totals.count;
            sum_ms += totals.sum_ms;
            histogram_.merge(of.phase->histogram);
            add_labels(*of.phase, totals.count);
            totals_.merge(totals);
        }
        if (count == 0) return;
        ranks_.push_back(all_series.front().rank);
        means_ms_.push_back(sum_ms / static_cast<double>(count));
    }

    /// Its count is zero for a phase that has nothing in it.
    PhaseSummary finish() {
        PhaseSummary& s = summary_;
        s.count = totals_.count;
        if (s.count == 0) return std::move(s);
        s.kind = static_cast<schema::Kind>(std::max_element(kinds_.begin(), kinds_.end()) - kinds_.begin());
        s.clock = clock_;
        s.ranks = ranks_.size();
        s.total_ms = totals_.sum_ms;
        s.mean_ms = totals_.sum_ms / static_cast<double>(totals_.count);
        s.min_ms = totals_.min_ms;
        s.max_ms = totals_.max_ms;
        find_quantiles();
        find_slowest();
        return std::move(s);
    }

  private:
    void add_labels(const PhaseSeries& phase, std::uint64_t count) {
        kinds_[static_cast<std::size_t>(phase.kind)] += count;
        clock_ = totals_.count == 0 ? phase.clock : combine(clock_, phase.clock);
    }

    void find_quantiles() {
        const auto wanted = {0.5, 0.9, 0.99};
        std::vector<double> found;
        if (histogram_.count() > 0) {
            for (const double q : wanted) found.push_back(histogram_.quantile(q));
        } else {
            found = durations_.quantiles(wanted);
            const double squares = durations_.squares_about(summary_.mean_ms);
            if (summary_.count > 1) summary_.sd_ms = std::sqrt(squares / static_cast<double>(summary_.count - 1));
        }
        summary_.p50_ms = found[0];
        summary_.p90_ms = found[1];
        summary_.p99_ms = found[2];
    }

    void find_slowest() {
        const auto slowest = std::max_element(means_ms_.begin(), means_ms_.end());
        summary_.slowest_rank = ranks_[static_cast<std::size_t>(slowest - means_ms_.begin())];
        const double typical_ms = exact_quantile(means_ms_, 0.5);
        if (typical_ms > 0) summary_.skew = *slowest / typical_ms;
    }

    PhaseSummary summary_;
    Durations durations_;
    LogHistogram histogram_;
    Totals totals_;
    Clock clock_ = Clock::none;
    std::array<std::uint64_t, schema::kind_names.size()> kinds_{};
    std::vector<std::int64_t> ranks_;
    std::vector<double> means_ms_;  // by index into ranks_
};

/// By name.
std::vector<PhaseOfJob> find_phases(const std::vector<SeriesOfRank>& series) {
    std::map<std::string_view, PhaseOfJob> found;
    for (const SeriesOfRank& of : series)
        for (const PhaseSeries& phase : of.series->phases) {
            PhaseOfJob& of_job = found[phase.name];
            of_job.samples += phase.samples.size();
            of_job.series.push_back({of.rank, of.series, &phase});
        }
    std::vector<PhaseOfJob> phases;
    for (auto& [name, phase] : found) {
        phase.name = name;
        phases.push_back(std::move(phase));
    }
    return phases;
}

PhaseSummary summarize_phase(const PhaseOfJob& phase) {
    PhaseCollector collector(phase);
    for_each_rank(std::span(phase.series),
                  [&](std::span<const SeriesOfPhase> of_rank) { collector.add_rank(of_rank); });
    return collector.finish();
}

bool shown_before(const PhaseSummary& a, const PhaseSummary& b) {
    const bool a_is_step = a.kind == schema::Kind::step;
    const bool b_is_step = b.kind == schema::Kind::step;
    if (a_is_step != b_is_step) return a_is_step;
    return a.total_ms != b.total_ms ? a.total_ms > b.total_ms : a.name < b.name;
}

}  // namespace

// One phase after the other, as each takes memory for its durations; on several threads, the largest first.
std::vector<PhaseSummary> summarize_phases(const std::vector<SeriesOfRank>& series, std::size_t threads) {
    std::vector<PhaseOfJob> phases = find_phases(series);
    std::stable_sort(phases.begin(), phases.end(),
                     [](const PhaseOfJob& a, const PhaseOfJob& b) { return a.samples > b.samples; });
    std::vector<PhaseSummary> summaries(phases.size());
    for_all(phases.size(), threads, [&](std::size_t i) { summaries[i] = summarize_phase(phases[i]); });
    std::erase_if(summaries, [](const PhaseSummary& summary) { return summary.count == 0; });
    std::sort(summaries.begin(), summaries.end(), shown_before);
    return summaries;
}

}  // namespace cep::tool
