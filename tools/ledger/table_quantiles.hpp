// SPDX-License-Identifier: Apache-2.0
//
// Table quantiles: those of each step over ranks, and of each rank over steps. Values that are NaN are left out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include "ledger/job_table.hpp"
#include "stats/robust.hpp"

namespace cep::tool {

/// By step: the quantile (type 7) over all ranks, or some; NaN where there is no value.
[[nodiscard]] std::vector<double> quantiles_over_ranks(const StepMatrix& ms, double q);
[[nodiscard]] std::vector<double> quantiles_over_ranks(const StepMatrix& ms, std::span<const std::size_t> ranks,
                                                       double q);
/// By quantile, then step: several, which ascend, in less time than one by one.
[[nodiscard]] std::vector<std::vector<double>> quantiles_over_ranks(const StepMatrix& ms,
                                                                    std::span<const std::size_t> ranks,
                                                                    std::span<const double> qs);

/// The median over steps of a value by step, or of the median over ranks; 0 if there is none.
[[nodiscard]] double typical_ms(std::span<const double> of_steps_ms);
[[nodiscard]] double typical_ms(const StepMatrix& ms);

/// How many values there are.
template <typename Values>
[[nodiscard]] std::size_t count_values(const Values& values) {
    const auto is_there = [](auto value) { return !is_missing(value); };
    return static_cast<std::size_t>(std::count_if(values.begin(), values.end(), is_there));
}

/// By step: how many ranks have a row.
[[nodiscard]] std::vector<std::size_t> count_ranks(const StepMatrix& ms);

/// The sum over steps of a value by step, as far as it is known.
[[nodiscard]] double sum_ms(std::span<const double> of_steps_ms);

/// By quantile, then rank: the quantiles over steps of `rows`, which has the steps of one rank after those of the
/// other.
using RankQuantiles = std::vector<std::vector<double>>;
[[nodiscard]] RankQuantiles quantiles_over_steps(std::span<const double> rows, std::size_t steps,
                                                 std::initializer_list<double> qs);

}  // namespace cep::tool
