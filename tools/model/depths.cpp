// SPDX-License-Identifier: Apache-2.0
#include "model/depths.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "base/parallel.hpp"
#include "model/job.hpp"
#include "model/rank_spans.hpp"

namespace cep::tool {
namespace {

struct TimedSpan {
    TimedSpan(const Sample& of, const RankPhase& in) : interval(of.interval()), sample(&of), phase(&in) {}

    Interval interval;
    const Sample* sample;
    const RankPhase* phase;

    [[nodiscard]] bool is_step() const { return phase->kind == schema::Kind::step; }
    [[nodiscard]] bool is_comm() const { return phase->kind == schema::Kind::comm; }
    /// When the host began it; NaN where nobody knows.
    [[nodiscard]] double launch_ms(std::int64_t origin_ns) const {
        const double lag_ms = phase->clock == Clock::host ? 0 : sample->lag_ms;
        return static_cast<double>(interval.begin_ns - origin_ns) * 1e-6 - lag_ms;
    }
};

/// Of two that are as long, the step is the outer one, and communication the inner one.
bool is_longer(const TimedSpan& outer, const TimedSpan& inner) {
    if (outer.is_step() != inner.is_step()) return outer.is_step();
    return inner.is_comm() || inner.interval.length_ns() < outer.interval.length_ns();
}

/// Nearly at the same time as both ends may be, most of it is inside.
bool is_within(const Interval& inner, const Interval& outer) {
    const std::int64_t shared_ns = std::min(inner.end_ns, outer.end_ns) - std::max(inner.begin_ns, outer.begin_ns);
    return outer.contains(inner, tolerance_ns) && 2 * shared_ns >= inner.length_ns();
}

/// By how much the inner one was launched later; NaN where nobody knows.
double launched_later_ms(const TimedSpan& inner, const TimedSpan& outer) {
    const std::int64_t origin_ns = outer.interval.begin_ns;
    return inner.launch_ms(origin_ns) - outer.launch_ms(origin_ns);
}

bool begins_before(const TimedSpan& a, const TimedSpan& b) {
    return a.interval.begin_ns < b.interval.begin_ns;
}

class DepthFinder {
  public:
    /// The spans of one rank in one step.
    void find(std::span<const StepSpan> spans, const std::vector<RankPhase>& phases) {
        all_.clear();
        for (const StepSpan& span : spans)
            if (span.sample->has_start()) all_.emplace_back(*span.sample, phases[span.phase]);
        has_streams_ =
            std::any_of(all_.begin(), all_.end(), [](const TimedSpan& one) { return one.sample->stream() != 0; });
        if (!std::is_sorted(all_.begin(), all_.end(), begins_before))
            std::sort(all_.begin(), all_.end(), begins_before);
        open_.clear();
        auto next = all_.begin();
        for (const TimedSpan& span : all_) {
            for (; next != all_.end() && next->interval.begin_ns <= span.interval.begin_ns + tolerance_ns; ++next)
                if (!next->is_comm() && open_.size() < most_open) open_.push_back(&*next);
            std::erase_if(open_, [&](const TimedSpan* outer) {
                return outer->interval.end_ns + tolerance_ns < span.interval.begin_ns;
            });
            span.sample->set_depth(static_cast<std::uint32_t>(std::count_if(
                open_.begin(), open_.end(), [&](const TimedSpan* outer) { return is_inside(span, *outer); })));
        }
    }

  private:
    [[nodiscard]] bool is_inside(const TimedSpan& inner, const TimedSpan& outer) const {
        return inner.sample != outer.sample && is_within(inner.interval, outer.interval) && is_longer(outer, inner) &&
               may_be_inside(inner, outer);
    }
    /// What was launched before is beside it, and what runs on another stream or clock may be: where nobody knows of
    /// streams, communication does. All is in a step of the host.
    [[nodiscard]] bool may_be_inside(const TimedSpan& inner, const TimedSpan& outer) const {
        constexpr double rounding_ms = 0.001;
        const Clock clock = outer.phase->clock;
        if (outer.is_step() && clock != Clock::gpu) return true;
        const double later_ms = launched_later_ms(inner, outer);
        if (inner.phase->clock != clock) return clock == Clock::host && later_ms >= 0;
        if (later_ms < -rounding_ms) return false;
        if (inner.is_comm() && !outer.is_step()) return has_streams_ || clock == Clock::host;
        return outer.is_step() || inner.sample->stream() == outer.sample->stream();
    }

    static constexpr std::size_t most_open = 256;  // of a rank at a time: times that are all the same show nothing

    bool has_streams_ = false;
    std::vector<TimedSpan> all_;          // by their begin
    std::vector<const TimedSpan*> open_;  // that may enclose the next
};

void find_depths(const std::vector<RunSeries>& all_series) {
    StepNumbers::Numbers steps;
    for (const RunSeries& series : all_series) steps.insert(steps.end(), series.steps.begin(), series.steps.end());
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    const RankSpans spans(all_series, steps, nullptr, Attempts::all);
    StepWalk walk(steps.size());
    walk.start(spans);
    DepthFinder finder;
    for (auto of_step = walk.next(); !of_step.empty(); of_step = walk.next()) finder.find(of_step, spans.phases());
}

}  // namespace

void find_depths(RankSeries& ranks, std::size_t threads) {
    std::vector<const std::vector<RunSeries>*> without;
    const auto says_depths = [](const RunSeries& series) { return series.says_depths; };
    for (const auto& [rank, all_series] : ranks)
        if (std::none_of(all_series.begin(), all_series.end(), says_depths)) without.push_back(&all_series);
    for_all(without.size(), threads, [&](std::size_t i) { find_depths(*without[i]); });
}

}  // namespace cep::tool
