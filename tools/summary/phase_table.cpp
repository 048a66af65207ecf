// SPDX-License-Identifier: Apache-2.0
#include "summary/phase_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "base/parallel.hpp"
#include "stats/quantiles.hpp"

namespace cep::tool {
namespace {

struct PhaseOfJob {
    std::string_view name;
    std::size_t samples = 0;
    std::vector<SpansOfPhase> spans;  // rank by rank
};

/// One phase over all ranks.
class PhaseCollector {
  public:
    explicit PhaseCollector(const PhaseOfJob& phase) {
        summary_.name = phase.name;
        durations_ms_.reserve(phase.samples);
    }

    /// The spans of one rank.
    void add_rank(std::span<const SpansOfPhase> of_rank) {
        std::uint64_t count = 0;
        double sum_ms = 0;
        for (const SpansOfPhase& of : of_rank) {
            const Totals totals = add_durations(of);
            if (totals.count == 0) continue;
            count += totals.count;
            sum_ms += totals.sum_ms;
            add_labels(*of.phase, totals.count);
            totals_.merge(totals);
        }
        if (count == 0) return;
        ranks_.push_back(of_rank.front().rank);
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
    Totals add_durations(const SpansOfPhase& of) {
        Totals totals;
        auto sample = of.phase->samples.begin();
        sample.seek(of.first);
        for (std::size_t i = of.first; i < of.last; ++i, ++sample) {
            durations_ms_.push_back((*sample).duration_ms);
            totals.add(durations_ms_.back());
        }
        return of.phase->has_all_steps() ? totals : of.phase->of_all_steps;
    }

    void add_labels(const PhaseSeries& phase, std::uint64_t count) {
        kinds_[static_cast<std::size_t>(phase.kind)] += count;
        clock_ = totals_.count == 0 ? phase.clock : combine(clock_, phase.clock);
    }

    void find_quantiles() {
        const auto& [p50, p90, p99] = phase_quantiles;
        double squares = 0;
        for (const double ms : durations_ms_) squares += (ms - summary_.mean_ms) * (ms - summary_.mean_ms);
        const std::size_t kept = durations_ms_.size();
        if (kept > 1) summary_.sd_ms = std::sqrt(squares / static_cast<double>(kept - 1));
        std::array<double, 3> found{};
        take_quantiles(durations_ms_, std::array{p50.q, p90.q, p99.q}, found);
        for (std::size_t i = 0; i < found.size(); ++i) summary_.*phase_quantiles[i].member = found[i];
    }

    void find_slowest() {
        const auto slowest = std::max_element(means_ms_.begin(), means_ms_.end());
        summary_.slowest_rank = ranks_[static_cast<std::size_t>(slowest - means_ms_.begin())];
        const double typical_ms = quantile_of(means_ms_, 0.5);
        if (typical_ms > 0) summary_.skew = *slowest / typical_ms;
    }

    PhaseSummary summary_;
    std::vector<double> durations_ms_;  // of the steps that are kept
    Totals totals_;
    Clock clock_ = Clock::none;
    std::array<std::uint64_t, schema::kind_names.size()> kinds_{};
    std::vector<std::int64_t> ranks_;
    std::vector<double> means_ms_;  // by index into ranks_
};

/// By name.
std::vector<PhaseOfJob> find_phases(const std::vector<SpansOfPhase>& spans) {
    std::map<std::string_view, PhaseOfJob> found;
    for (const SpansOfPhase& of : spans) {
        PhaseOfJob& of_job = found[of.phase->name];
        of_job.samples += of.last - of.first;
        of_job.spans.push_back(of);
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
    for_each_rank(std::span(phase.spans), [&](std::span<const SpansOfPhase> of_rank) { collector.add_rank(of_rank); });
    return collector.finish();
}

bool shown_before(const PhaseSummary& a, const PhaseSummary& b) {
    const bool a_is_step = a.kind == schema::Kind::step;
    const bool b_is_step = b.kind == schema::Kind::step;
    if (a_is_step != b_is_step) return a_is_step;
    return a.total_ms != b.total_ms ? a.total_ms > b.total_ms : a.name < b.name;
}

}  // namespace

void add_spans(SeriesOfRank of, std::vector<SpansOfPhase>& spans) {
    for (const PhaseSeries& phase : of.series->phases)
        spans.push_back({{of.rank, of.series, &phase}, 0, phase.samples.size()});
}

// One phase after the other, as each takes memory for its durations; on several threads, the largest first.
std::vector<PhaseSummary> summarize_phases(const std::vector<SpansOfPhase>& spans, std::size_t threads) {
    std::vector<PhaseOfJob> phases = find_phases(spans);
    std::stable_sort(phases.begin(), phases.end(),
                     [](const PhaseOfJob& a, const PhaseOfJob& b) { return a.samples > b.samples; });
    std::vector<PhaseSummary> summaries(phases.size());
    for_all(phases.size(), threads, [&](std::size_t i) { summaries[i] = summarize_phase(phases[i]); });
    std::erase_if(summaries, [](const PhaseSummary& summary) { return summary.count == 0; });
    std::sort(summaries.begin(), summaries.end(), shown_before);
    return summaries;
}

}  // namespace cep::tool
