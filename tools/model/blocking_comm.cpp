// SPDX-License-Identifier: Apache-2.0
#include "model/collectives.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "model/job.hpp"
#include "model/rank_spans.hpp"
#include "stats/group_slope.hpp"

namespace cep::tool {
namespace {

constexpr std::int64_t near_ns = 100'000;  // to what comes next: that waited, whatever it is
constexpr double most_held_up = 0.1;       // of the launches
constexpr double least_slope = 0.7;        // between 0, of launches that wait for nothing, and 1
constexpr double least_errors = 5;         // standard errors of the slope
constexpr double fewest = 30;

/// What is seen of one phase of communication.
struct PhaseLaunches {
    /// By rank and index in the step: how long a launch inside of work took, and when the next one followed on its
    /// begin, in ms.
    std::map<std::pair<std::size_t, std::size_t>, std::vector<GroupSlope::Pair>> launches{};
    double held_up = 0;
    double all = 0;

    /// By how much longer the next launch takes to come, where one takes longer than usual.
    [[nodiscard]] bool blocks() const {
        GroupSlope slope;
        for (const auto& [at, of_index] : launches) slope.add(of_index);
        return slope.freedom() >= fewest && held_up <= most_held_up * all && slope.slope() >= least_slope &&
               slope.errors() >= least_errors;
    }
};

class LaunchGaps {
  public:
    /// The spans of one rank in one step.
    void take(std::size_t rank, std::span<const StepSpan> spans, const std::vector<RankPhase>& phases) {
        std::vector<const StepSpan*> comm;
        for (const StepSpan& span : spans)
            if (phases[span.phase].kind == schema::Kind::comm) comm.push_back(&span);
        std::sort(comm.begin(), comm.end(),
                  [](const StepSpan* a, const StepSpan* b) { return a->sample->start_ns < b->sample->start_ns; });
        for (const StepSpan& outer : spans)
            if (phases[outer.phase].kind == schema::Kind::compute)
                take_inside(rank, outer.sample->interval(), comm, phases);
    }

    [[nodiscard]] bool blocks(std::string_view phase) const {
        const auto found = phases_.find(phase);
        return found != phases_.end() && found->second.blocks();
    }

  private:
    void take_inside(std::size_t rank, const Interval& outer, const std::vector<const StepSpan*>& comm,
                     const std::vector<RankPhase>& phases) {
        for (std::size_t i = 0; i < comm.size(); ++i) {
            const Interval own = comm[i]->sample->interval();
            if (own.begin_ns < outer.begin_ns || own.begin_ns >= outer.end_ns) continue;
            // Work may end with the last one, whatever waits.
            if (i + 1 == comm.size() || comm[i + 1]->sample->start_ns >= outer.end_ns) break;
            const std::int64_t next_ns = comm[i + 1]->sample->start_ns;
            PhaseLaunches& of = phases_[phases[comm[i]->phase].name];
            ++of.all;
            if (next_ns < own.end_ns + near_ns) {
                ++of.held_up;
                continue;
            }
            of.launches[{rank, i}].push_back(
                {static_cast<double>(own.length_ns()) * 1e-6, static_cast<double>(next_ns - own.begin_ns) * 1e-6});
        }
    }

    std::map<std::string_view, PhaseLaunches> phases_;
};

bool says_nothing(const PhaseSeries& phase) {
    return phase.clock != Clock::gpu && !phase.samples.empty() && (*phase.samples.begin()).has_start();
}

bool may_block(const PhaseSeries& phase) {
    return phase.kind == schema::Kind::comm && says_nothing(phase);
}

}  // namespace

void find_blocking_comm(RankSeries& ranks, const std::vector<std::int64_t>& steps) {
    if (!any_phase(ranks, may_block)) return;
    std::vector<std::vector<RunSeries>*> silent;
    for (auto& [rank, of_rank] : ranks) {
        if (of_rank.empty() || of_rank.front().phases.empty()) continue;
        if (!says_nothing(of_rank.front().phases.front())) return;
        silent.push_back(&of_rank);
    }
    std::vector<RankSpans> spans;
    for (const std::vector<RunSeries>* const of_rank : silent)
        spans.emplace_back(*of_rank, steps, spans.empty() ? nullptr : &spans.back(), Attempts::last);
    LaunchGaps launches;
    for_some_steps(spans, steps.size(), [&](std::size_t rank, std::span<const StepSpan> of_step, const auto& phases) {
        launches.take(rank, of_step, phases);
    });
    for (std::vector<RunSeries>* const of_rank : silent)
        for (RunSeries& series : *of_rank)
            for (PhaseSeries& phase : series.phases) phase.blocks = may_block(phase) && launches.blocks(phase.name);
}

}  // namespace cep::tool
