// SPDX-License-Identifier: Apache-2.0
#include "compare/job_steps.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/failure.hpp"
#include "stats/robust.hpp"

namespace cep::compare {
namespace {

using namespace tool;

/// A phase over all ranks.
struct PhaseOfJob {
    std::vector<SeriesOfPhase> series;  // rank by rank
    std::array<std::uint64_t, schema::kind_names.size()> kinds{};
    double total_ms = 0;

    [[nodiscard]] schema::Kind kind() const {
        return static_cast<schema::Kind>(std::max_element(kinds.begin(), kinds.end()) - kinds.begin());
    }
};

using Phases = std::map<std::string_view, PhaseOfJob>;

Phases find_phases(const std::vector<SeriesOfRank>& all_series) {
    Phases phases;
    for (const SeriesOfRank& of : all_series)
        for (const PhaseSeries& phase : of.series->phases) {
            if (phase.samples.empty()) continue;
            PhaseOfJob& of_job = phases[phase.name];
            of_job.series.push_back({of.rank, of.series, &phase});
            of_job.kinds[static_cast<std::size_t>(phase.kind)] += phase.samples.size();
            of_job.total_ms += totals_of(phase).sum_ms;
        }
    return phases;
}

/// Takes the phases with the least time out of `phases`, beyond `kept` of them, and joins them.
PhaseOfJob fold_phases(Phases& phases, std::size_t kept) {
    std::vector<Phases::iterator> by_time;
    for (auto phase = phases.begin(); phase != phases.end(); ++phase) by_time.push_back(phase);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](auto a, auto b) { return a->second.total_ms > b->second.total_ms; });
    PhaseOfJob folded;
    for (std::size_t i = kept; i < by_time.size(); ++i) {
        const std::vector<SeriesOfPhase>& series = by_time[i]->second.series;
        folded.series.insert(folded.series.end(), series.begin(), series.end());
        phases.erase(by_time[i]);
    }
    std::stable_sort(folded.series.begin(), folded.series.end(),
                     [](const SeriesOfPhase& a, const SeriesOfPhase& b) { return a.rank < b.rank; });
    folded.kinds[static_cast<std::size_t>(schema::Kind::other)] = 1;
    return folded;
}

/// Makes the times of phases in the steps of a job, one phase after the other.
class StepCollector {
  public:
    explicit StepCollector(const Job& job)
        : all_series_(tool::all_series(job.ranks)), steps_(tool::all_steps(job.ranks)), is_used_(steps_.size()) {
        for (const SeriesOfRank& of : all_series_) {
            const auto [found, is_new] = step_indices_.try_emplace(&of.series->steps.all());
            if (!is_new) continue;
            for (const std::int64_t step : *found->first)
                found->second.push_back(
                    static_cast<std::uint32_t>(std::lower_bound(steps_.begin(), steps_.end(), step) - steps_.begin()));
        }
    }

    [[nodiscard]] const std::vector<SeriesOfRank>& all_series() const { return all_series_; }
    /// At least 1.
    [[nodiscard]] std::size_t all_steps() const { return std::max<std::size_t>(1, steps_.size()); }

    [[nodiscard]] PhaseSteps collect(std::string name, const PhaseOfJob& of_job) {
        sums_ms_.assign(steps_.size(), 0);
        has_it_.assign(steps_.size(), false);
        std::vector<std::int64_t> ranks;
        for (const SeriesOfPhase& of : of_job.series) {
            add(*of.series, *of.phase);
            if (ranks.empty() || ranks.back() != of.rank) ranks.push_back(of.rank);
        }
        return finish(std::move(name), of_job.kind(), count_recorded(ranks));
    }

    [[nodiscard]] std::vector<std::int64_t> used_steps() const {
        std::vector<std::int64_t> used;
        for (std::size_t i = 0; i < steps_.size(); ++i)
            if (is_used_[i]) used.push_back(steps_[i]);
        return used;
    }

  private:
    void add(const RunSeries& series, const PhaseSeries& phase) {
        const std::vector<std::uint32_t>& indices = step_indices_.at(&series.steps.all());
        for (const Sample& sample : phase.samples) {
            sums_ms_[indices[sample.step_index]] += sample.duration_ms;
            has_it_[indices[sample.step_index]] = true;
        }
    }

    /// By step: how many of these ranks recorded it. Phases of the same ranks share it.
    const std::vector<std::uint32_t>& count_recorded(const std::vector<std::int64_t>& ranks) {
        const auto [found, is_new] = recorded_.try_emplace(ranks);
        std::vector<std::uint32_t>& counts = found->second;
        if (!is_new) return counts;
        counts.assign(steps_.size(), 0);
        std::vector<std::int64_t> last_rank(steps_.size(), -1);
        for (const SeriesOfRank& of : all_series_) {
            if (!std::binary_search(ranks.begin(), ranks.end(), of.rank)) continue;
            for (const std::uint32_t index : step_indices_.at(&of.series->steps.all()))
                if (std::exchange(last_rank[index], of.rank) != of.rank) ++counts[index];
        }
        return counts;
    }

    PhaseSteps finish(std::string name, schema::Kind kind, const std::vector<std::uint32_t>& counts) {
        PhaseSteps phase{std::move(name), kind, {}, {}};
        const std::uint32_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            if (counts[i] == 0 || 2 * counts[i] < most) continue;
            is_used_[i] = true;
            phase.ms.push_back(sums_ms_[i] / counts[i]);
            if (has_it_[i]) phase.with_ms.push_back(phase.ms.back());
        }
        return phase;
    }

    std::vector<SeriesOfRank> all_series_;  // rank by rank
    std::vector<std::int64_t> steps_;
    std::map<const std::vector<std::int64_t>*, std::vector<std::uint32_t>>
        step_indices_;  // in steps_, of those of a series
    std::map<std::vector<std::int64_t>, std::vector<std::uint32_t>> recorded_;
    std::vector<bool> is_used_;
    std::vector<double> sums_ms_;  // by step, over the ranks of a phase
    std::vector<bool> has_it_;
};

Work find_work(const Job& job) {
    Work work;
    work.ranks = job.coverage.ranks_expected.value_or(job.coverage.ranks_seen);
    std::vector<double> tokens;
    std::size_t with_flops = 0;
    for (const auto& [rank, series] : job.ranks) {
        const RankRole role = role_of(rank, series);
        if (role.tokens_per_step) tokens.push_back(*role.tokens_per_step);
        if (!role.flops_per_step) continue;
        work.flops = work.flops.value_or(0) + *role.flops_per_step;
        ++with_flops;
    }
    if (!tokens.empty()) work.tokens = median_of(tokens);
    // The missing ranks do as much as the others.
    if (work.flops) *work.flops *= static_cast<double>(work.ranks) / static_cast<double>(with_flops);
    return work;
}

bool is_training(TimeKind piece) {
    return piece != TimeKind::startup && piece != TimeKind::restart && piece != TimeKind::redone;
}

/// Takes `startup_ms`, the sum of what the ledger counts as start-up in them, off the first steps. Scales all to a mean
/// of `mean_ms`, which the ledger has to the nanosecond.
void settle_startup(double typical_ms, double mean_ms, JobSteps& job) {
    std::vector<double>& ms = job.step.ms;
    const auto steps = static_cast<double>(ms.size());
    double startup_ms = std::accumulate(ms.begin(), ms.end(), 0.0) - mean_ms * steps;
    constexpr std::size_t most = 10;
    for (std::size_t i = 0; i < std::min(most, ms.size()) && startup_ms > 0 && ms[i] > typical_ms; ++i) {
        const double taken_ms = std::min(startup_ms, ms[i] - typical_ms);
        ms[i] -= taken_ms;
        job.step.with_ms[i] = std::max(typical_ms, job.step.with_ms[i] - taken_ms);
        startup_ms -= taken_ms;
    }
    const double sum_ms = std::accumulate(ms.begin(), ms.end(), 0.0);
    if (sum_ms <= 0) return;
    for (double& one : ms) one *= mean_ms * steps / sum_ms;
}

/// The series of the step from the ledger.
void take_steps(const Ledger& ledger, JobSteps& job) {
    std::uint32_t most_ranks = 0;
    for (const LedgerStep& step : ledger.steps) most_ranks = std::max(most_ranks, step.recorded);
    for (const LedgerStep& step : ledger.steps) {
        if (2 * step.recorded < most_ranks) continue;
        job.step.ms.push_back(step.mean_ms());
        job.step.with_ms.push_back(step.own_ms());
        job.numbers.push_back(step.step);
    }
    job.is_timed = ledger.is_timed;
    double mean_ms = 0;
    for (std::size_t i = 0; i < piece_count; ++i) {
        const double ms = ledger.mean_ms(TimeKind(i));
        if (!is_training(TimeKind(i)))
            job.left_out_ms += ms;
        else if (ledger.run.steps > 0)
            mean_ms += job.pieces[i] = ms / ledger.run.steps;
    }
    settle_startup(ledger.step_times.typical_ms, mean_ms, job);
}

}  // namespace

JobSteps collect_steps(const tool::Job& job, const tool::Ledger& ledger) {
    if (!job.choice.keeps_all())
        throw UsageError(
            "more durations than are kept, and a comparison needs every one: choose some with --steps, --ranks or "
            "--phases, or keep more with --max-samples");
    StepCollector collector(job);
    Phases phases = find_phases(collector.all_series());
    const StepPhase step = find_step_phase(collector.all_series());
    const auto step_phase = step.found ? phases.find(step.name) : phases.end();
    JobSteps steps;
    steps.work = find_work(job);
    steps.has_step_spans = step_phase != phases.end();
    steps.step.name = steps.has_step_spans ? step.name : "step";
    steps.step.kind = schema::Kind::step;
    if (steps.has_step_spans || !job.filter.has_phases()) take_steps(ledger, steps);
    if (steps.has_step_spans) phases.erase(step_phase);
    const std::size_t kept = std::clamp(max_values / collector.all_steps(), std::size_t{1}, max_phases);
    if (phases.size() > kept) {
        steps.folded_phases = phases.size() - kept;
        steps.phases.push_back(collector.collect("other phases", fold_phases(phases, kept)));
    }
    for (const auto& [name, of_job] : phases) steps.phases.push_back(collector.collect(std::string(name), of_job));
    steps.recorded = collector.used_steps();
    if (steps.phases.empty()) steps.recorded = steps.numbers;
    return steps;
}

}  // namespace cep::compare
