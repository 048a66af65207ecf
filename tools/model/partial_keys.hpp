// SPDX-License-Identifier: Apache-2.0
//
// Partial keys: the keys of lines of a partial summary whose values are members of structs, in their order; see
// cep-partial(5). Those of inputs are in read/coverage.hpp, those of a run and of its stats in read/row_keys.hpp.
#pragma once

#include <tuple>

#include "base/members.hpp"
#include "model/phase_series.hpp"
#include "read/coverage.hpp"
#include "read/open_spans.hpp"

namespace cep::tool {

inline constexpr std::tuple damage_keys = {
    member("path", &LocatedDamage::path),
    member("line", &LocatedDamage::line),
    member("why", &LocatedDamage::why),
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

}  // namespace cep::tool
