// SPDX-License-Identifier: Apache-2.0
#include "compare/job_steps.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/failure.hpp"
#include "stats/quantiles.hpp"

namespace cep::compare {
namespace {

using namespace tool;

struct TimeInStep {
    std::int64_t step = 0;
    double duration_ms = 0;
};

bool is_before(const TimeInStep& a, const TimeInStep& b) {
    return a.step < b.step;
}

/// One phase of all ranks: for each rank and step, the time of all its spans.
class PhaseTimes {
  public:
    void add(std::int64_t step, double duration_ms) { of_rank_.push_back({step, duration_ms}); }

    void end_rank() {
        std::stable_sort(of_rank_.begin(), of_rank_.end(), is_before);
        const std::size_t first = all_.size();
        for (const TimeInStep& one : of_rank_) {
            if (all_.size() > first && all_.back().step == one.step) {
                all_.back().duration_ms += one.duration_ms;
            } else {
                all_.push_back(one);
            }
        }
        of_rank_.clear();
    }

    [[nodiscard]] PhaseSteps medians(std::string name, schema::Kind kind) {
        PhaseSteps phase{std::move(name), kind, {}, {}};
        std::stable_sort(all_.begin(), all_.end(), is_before);
        std::size_t most = 0;
        for_steps([&most](std::span<const TimeInStep> ranks) { most = std::max(most, ranks.size()); });
        std::vector<double> values;
        for_steps([&](std::span<const TimeInStep> ranks) {
            if (2 * ranks.size() < most) return;
            values.clear();
            for (const TimeInStep& rank : ranks) values.push_back(rank.duration_ms);
            phase.steps.push_back(ranks.front().step);
            phase.durations_ms.push_back(exact_quantile(values, 0.5));
        });
        return phase;
    }

  private:
    template <typename Use>
    void for_steps(Use use) const {
        for (std::size_t first = 0, last = 0; first < all_.size(); first = last) {
            while (last < all_.size() && all_[last].step == all_[first].step) ++last;
            use(std::span(all_).subspan(first, last - first));
        }
    }

    std::vector<TimeInStep> of_rank_;
    std::vector<TimeInStep> all_;
};

/// A phase over all ranks.
struct PhaseOfJob {
    std::vector<SeriesOfPhase> parts;  // rank by rank
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
            of_job.parts.push_back({of.rank, of.series, &phase});
            of_job.kinds[static_cast<std::size_t>(phase.kind)] += phase.samples.size();
            of_job.total_ms += totals_of(phase).sum_ms;
        }
    return phases;
}

PhaseSteps collect_phase(std::string_view name, const PhaseOfJob& of_job) {
    PhaseTimes times;
    for_each_rank(std::span(of_job.parts), [&times](std::span<const SeriesOfPhase> of_rank) {
        for (const SeriesOfPhase& part : of_rank)
            for (const Sample sample : part.phase->samples)
                times.add(part.series->steps[sample.step_index], sample.duration_ms);
        times.end_rank();
    });
    return times.medians(std::string(name), of_job.kind());
}

/// Takes the phases with the least time out of `phases`, beyond max_phases of them, and joins them.
PhaseOfJob fold_phases(Phases& phases) {
    std::vector<Phases::iterator> by_time;
    for (auto phase = phases.begin(); phase != phases.end(); ++phase) by_time.push_back(phase);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](auto a, auto b) { return a->second.total_ms > b->second.total_ms; });
    PhaseOfJob folded;
    for (std::size_t i = max_phases; i < by_time.size(); ++i) {
        const std::vector<SeriesOfPhase>& parts = by_time[i]->second.parts;
        folded.parts.insert(folded.parts.end(), parts.begin(), parts.end());
        phases.erase(by_time[i]);
    }
    std::stable_sort(folded.parts.begin(), folded.parts.end(),
                     [](const SeriesOfPhase& a, const SeriesOfPhase& b) { return a.rank < b.rank; });
    folded.kinds[static_cast<std::size_t>(schema::Kind::other)] = 1;
    return folded;
}

/// Of spans inside each other, a step is the sum of the outermost that were recorded.
PhaseSteps sum_outermost(const Job& job) {
    const std::vector<SeriesOfRank> all_series = tool::all_series(job.ranks);
    std::uint32_t outermost = Sample::max_depth;
    for (const SeriesOfRank& of : all_series)
        for (const PhaseSeries& phase : of.series->phases)
            for (const Sample sample : phase.samples) outermost = std::min(outermost, sample.depth());
    PhaseTimes times;
    for_each_rank(std::span(all_series), [&](std::span<const SeriesOfRank> of_rank) {
        for (const SeriesOfRank& of : of_rank)
            for (const PhaseSeries& phase : of.series->phases)
                for (const Sample sample : phase.samples)
                    if (sample.depth() == outermost) times.add(of.series->steps[sample.step_index], sample.duration_ms);
        times.end_rank();
    });
    return times.medians("step", schema::Kind::step);
}

std::vector<std::int64_t> all_steps(const JobSteps& job) {
    std::set<std::int64_t> steps(job.step.steps.begin(), job.step.steps.end());
    for (const PhaseSteps& phase : job.phases) steps.insert(phase.steps.begin(), phase.steps.end());
    return {steps.begin(), steps.end()};
}

}  // namespace

JobSteps collect_steps(const tool::Job& job) {
    if (!job.choice.keeps_all())
        throw UsageError(
            "more durations than are kept, and a comparison needs every one: choose some with --steps, --ranks or "
            "--phases, or keep more with --max-samples");
    const std::vector<SeriesOfRank> all_series = tool::all_series(job.ranks);
    Phases phases = find_phases(all_series);
    const StepPhase step = find_step_phase(all_series);
    auto step_phase = step.found ? phases.find(step.name) : phases.end();
    JobSteps steps;
    if (step_phase != phases.end()) {
        steps.step = collect_phase(step.name, step_phase->second);
        steps.step.kind = schema::Kind::step;
    } else if (!job.filter.has_phases()) {
        steps.step_is_a_sum = true;
        steps.step = sum_outermost(job);
    }
    if (step_phase != phases.end()) phases.erase(step_phase);
    if (phases.size() > max_phases) {
        steps.folded_phases = phases.size() - max_phases;
        const PhaseOfJob folded = fold_phases(phases);
        steps.phases.push_back(collect_phase("other phases", folded));
    }
    for (const auto& [name, of_job] : phases) steps.phases.push_back(collect_phase(name, of_job));
    steps.recorded = all_steps(steps);
    return steps;
}

}  // namespace cep::compare
