// SPDX-License-Identifier: Apache-2.0
#include "ledger/step_reading.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "ledger/piece.hpp"

namespace cep::tool {
namespace {

constexpr double least_nested = 0.1;    // of the steps: in the others, rows may be lost
constexpr double mostly_filled = 0.5;   // of a step span, by what is inside of it
constexpr double more_than_all = 1.01;  // of a step span, but for rounding

/// Whether a span of another phase is inside of a step span.
bool has_nested(std::span<const StepSpan> spans, const std::vector<RankPhase>& phases, std::string_view step_phase) {
    const auto is_inside = [&](const StepSpan& inner, const StepSpan& outer) {
        const RankPhase& phase = phases[inner.phase];
        return phase.kind != schema::Kind::step && inner.sample->has_start() && inner.sample->duration_ms > 0 &&
               inner.sample->depth() > outer.sample->depth() &&
               outer.sample->interval().contains(inner.sample->interval(), tolerance_ns);
    };
    for (const StepSpan& outer : spans)
        if (phases[outer.phase].name == step_phase && outer.sample->has_start() &&
            std::any_of(spans.begin(), spans.end(), [&](const StepSpan& inner) { return is_inside(inner, outer); }))
            return true;
    return false;
}

using StepSpans = std::span<const StepSpan>;
using Phases = std::vector<RankPhase>;

bool encloses_by_starts(const JobSpans& spans) {
    double asked = 0;
    double nested = 0;
    for_some_steps(spans.of_rank, spans.steps.size(), [&](std::size_t, StepSpans of_step, const Phases& phases) {
        if (of_step.size() < 2) return;
        ++asked;
        nested += has_nested(of_step, phases, spans.step_phase.name);
    });
    return asked == 0 || nested >= least_nested * asked;
}

bool is_evaluation(std::string_view name, schema::Kind kind) {
    return piece_of(name, kind) == TimeKind::evaluation;
}

// The thread of all spans of a name follows from one crossing.
std::vector<std::string> find_other_threads(const JobSpans& spans) {
    std::vector<std::string> names;
    for_some_steps(spans.of_rank, spans.steps.size(), [&](std::size_t, StepSpans of_step, const Phases& phases) {
        for (const StepSpan& outer : of_step) {
            const RankPhase& phase = phases[outer.phase];
            if (!outer.sample->has_start() || !is_evaluation(phase.name, phase.kind)) continue;
            const bool is_crossed = std::any_of(of_step.begin(), of_step.end(), [&](const StepSpan& span) {
                return span.sample->has_start() && span.sample->depth() > outer.sample->depth() &&
                       cross(outer.sample->interval(), span.sample->interval());
            });
            if (is_crossed && std::find(names.begin(), names.end(), phase.name) == names.end())
                names.emplace_back(phase.name);
        }
    });
    return names;
}

struct UntimedTotals {
    double step_ms = 0;
    double before_ms = 0;  // rows that stand before the step's
    double behind_ms = 0;
    std::uint64_t steps = 0;
};

/// None where a row has a start.
std::optional<UntimedTotals> add_untimed(std::span<const SeriesOfRank> all_series, std::string_view step_phase) {
    UntimedTotals totals;
    for (const SeriesOfRank& of : all_series)
        for (const PhaseSeries& phase : of.series->phases) {
            if (phase.samples.empty()) continue;
            if ((*phase.samples.begin()).has_start()) return std::nullopt;
            const bool is_step = phase.kind == schema::Kind::step;
            if (is_step && phase.name != step_phase) continue;
            if (is_step) totals.steps += phase.samples.size();
            for (const Sample& sample : phase.samples)
                (is_step                   ? totals.step_ms
                 : sample.is_behind_step() ? totals.behind_ms
                                           : totals.before_ms) += sample.duration_ms;
        }
    return totals;
}

// Rows come in the order in which spans end: what stands before the step span ended before it, inside or in front of
// it.
void read_untimed(const UntimedTotals& totals, StepReading& reading) {
    const bool fits = totals.before_ms <= more_than_all * totals.step_ms;
    const bool has_siblings = totals.behind_ms > 0;
    reading.encloses = fits && (!has_siblings || totals.before_ms >= mostly_filled * totals.step_ms);
    if (!fits || totals.before_ms == 0 || !has_siblings || totals.steps == 0) return;
    const double enclosing_ms = totals.step_ms + totals.behind_ms;
    const double beside_ms = enclosing_ms + totals.before_ms;
    reading.other_ms = (reading.encloses ? beside_ms : enclosing_ms) / static_cast<double>(totals.steps);
}

}  // namespace

StepReading read_steps(const Job& job, const JobSpans& spans) {
    StepReading reading;
    const auto evaluates = [](const PhaseSeries& phase) { return is_evaluation(phase.name, phase.kind); };
    if (any_phase(job.ranks, evaluates)) reading.of_other_threads = find_other_threads(spans);
    if (spans.step_phase.total_ms <= 0) return reading;
    reading.step_phase = spans.step_phase.name;
    if (const auto untimed = add_untimed(all_series(job.ranks), reading.step_phase)) {
        read_untimed(*untimed, reading);
    } else {
        reading.encloses = encloses_by_starts(spans);
    }
    return reading;
}

}  // namespace cep::tool
