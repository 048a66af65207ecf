// SPDX-License-Identifier: Apache-2.0
//
// Partial keys: the keys of lines of a partial summary whose values are members of structs, in their order; see
// cep-partial(5). Those of inputs are in read/coverage.hpp, those of a run and of its stats in read/row_keys.hpp.
#pragma once

#include <tuple>

#include "base/members.hpp"
#include "model/job_parts.hpp"
#include "model/phase_series.hpp"
#include "read/coverage.hpp"
#include "read/open_spans.hpp"

namespace cep::tool {

inline constexpr std::tuple damage_keys = {
    member("path", &LocatedDamage::path),
    member("line", &LocatedDamage::line),
    member("why", &LocatedDamage::why),
};

inline constexpr std::tuple coverage_keys = {
    member("ranks", &CoverageCollector::seen),
    member("listed_ranks", &CoverageCollector::listed),
    member("any_unlisted", &CoverageCollector::any_unlisted),
    member("world_size", &CoverageCollector::world_size),
};

inline constexpr std::tuple stride_keys = {
    member("from", &StrideChange::from),       member("to", &StrideChange::to),
    member("longest", &StrideChange::longest), member("first_step", &StrideChange::first_step),
    member("step", &StrideChange::step),       member("max_percent", &StrideChange::max_percent),
};

inline constexpr std::tuple counter_keys = {
    member("name", &CounterSeries::name),
    member("max", &CounterSeries::max),
    member("last_step", &CounterSeries::last_step),
    member("last", &CounterSeries::last),
};

inline constexpr std::tuple phase_keys = {
    member("name", &PhaseSeries::name),
    member("kind", &PhaseSeries::kind),
    member("clock", &PhaseSeries::clock),
    member("may_repeat", &PhaseSeries::may_repeat),
};

/// Of each a list. What a row does not say is null: its start and its lag.
inline constexpr std::tuple sample_keys = {
    member("duration_ms", &Sample::duration_ms), member("start_ns", &Sample::start_ns),
    member("lag_ms", &Sample::lag_ms),           member("collective", &Sample::collective),
    member("step_index", &Sample::step_index),   member("place", &Sample::place),
};

/// Of the durations in a histogram.
inline constexpr std::tuple total_keys = {
    member("sum_ms", &Totals::sum_ms),
    member("top_level_ms", &Totals::top_level_ms),
    member("min_ms", &Totals::min_ms),
    member("max_ms", &Totals::max_ms),
};

inline constexpr std::tuple open_span_keys = {
    member("name", &OpenSpan::name),         member("rank", &OpenSpan::rank),
    member("step", &OpenSpan::step),         member("attempt", &OpenSpan::attempt),
    member("start_ns", &OpenSpan::start_ns), member("elapsed_ms", &OpenSpan::elapsed_ms),
    member("line", &OpenSpan::line),
};

/// Behind the name of the marks.
inline constexpr std::tuple mark_keys = {
    member("count", &MarkCount::count),
    member("ranks", &MarkCount::ranks),
    member("steps", &MarkCount::steps),
};

}  // namespace cep::tool
