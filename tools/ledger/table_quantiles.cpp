// SPDX-License-Identifier: Apache-2.0
#include "ledger/table_quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "stats/quantiles.hpp"
#include "stats/robust.hpp"

namespace cep::tool {

std::vector<double> quantiles_over_ranks(const StepMatrix& ms, double q) {
    std::vector<std::size_t> all(ms.ranks());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return quantiles_over_ranks(ms, all, q);
}

std::vector<double> quantiles_over_ranks(const StepMatrix& ms, std::span<const std::size_t> ranks, double q) {
    return std::move(quantiles_over_ranks(ms, ranks, std::span(&q, 1)).front());
}

std::vector<std::vector<double>> quantiles_over_ranks(const StepMatrix& ms, std::span<const std::size_t> ranks,
                                                      std::span<const double> qs) {
    std::vector<std::vector<double>> quantiles(qs.size(), std::vector<double>(ms.steps(), NAN));
    if (ranks.empty()) return quantiles;
    // As many steps at a time as share a cache line, since those of one rank are neighbours.
    constexpr std::size_t at_a_time = 64 / sizeof(float);
    const std::size_t most_taken = std::min(at_a_time, ms.steps());
    std::vector<double> found(qs.size());
    std::vector<double> of_steps(most_taken * ranks.size());
    for (std::size_t first = 0; first < ms.steps(); first += at_a_time) {
        const std::size_t taken = std::min(at_a_time, ms.steps() - first);
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const std::span<const float> row = ms.of_rank(ranks[i]).subspan(first, taken);
            for (std::size_t step = 0; step < taken; ++step) of_steps[step * ranks.size() + i] = row[step];
        }
        for (std::size_t step = 0; step < taken; ++step) {
            const std::span<double> of_step = std::span(of_steps).subspan(step * ranks.size(), ranks.size());
            const auto gone =
                std::remove_if(of_step.begin(), of_step.end(), [](double one) { return is_missing(one); });
            if (gone == of_step.begin()) continue;
            take_quantiles({of_step.begin(), gone}, qs, found);
            for (std::size_t i = 0; i < qs.size(); ++i) quantiles[i][first + step] = found[i];
        }
    }
    return quantiles;
}

double typical_ms(std::span<const double> of_steps_ms) {
    const double typical = median_of(of_steps_ms);
    return is_missing(typical) ? 0 : typical;
}

double typical_ms(const StepMatrix& ms) {
    return typical_ms(quantiles_over_ranks(ms, 0.5));
}

std::vector<std::size_t> count_ranks(const StepMatrix& ms) {
    std::vector<std::size_t> counts(ms.steps());
    for (std::size_t rank = 0; rank < ms.ranks(); ++rank)
        for (std::size_t step = 0; step < counts.size(); ++step) counts[step] += !is_missing(ms.of_rank(rank)[step]);
    return counts;
}

double sum_ms(std::span<const double> of_steps_ms) {
    double sum = 0;
    for (const double ms : of_steps_ms)
        if (!is_missing(ms)) sum += ms;
    return sum;
}

RankQuantiles quantiles_over_steps(std::span<const double> rows, std::size_t steps, std::initializer_list<double> qs) {
    RankQuantiles quantiles(qs.size());
    if (steps == 0) return quantiles;
    for (std::size_t first = 0; first < rows.size(); first += steps) {
        const std::vector<double> of_rank = quantiles_of(rows.subspan(first, steps), qs);
        for (std::size_t i = 0; i < qs.size(); ++i) quantiles[i].push_back(of_rank[i]);
    }
    return quantiles;
}

}  // namespace cep::tool
