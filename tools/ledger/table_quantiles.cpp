// SPDX-License-Identifier: Apache-2.0
#include "ledger/table_quantiles.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>

#include "stats/quantiles.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

/// Quantiles of several lists of a few values each, side by side, so that the compiler takes several at a time.
class QuantileLanes {
  public:
    static constexpr std::size_t most_values = 32;  // of a list: of more, a selection is as fast
    static constexpr std::size_t lanes = 64;
    using Row = std::array<float, lanes>;  // one value of each list

    explicit QuantileLanes(std::size_t count) : count_(count) {}

    [[nodiscard]] Row& row(std::size_t i) { return rows_[i]; }

    /// Writes the quantiles of the first lists.
    void find(double q, std::span<double> quantiles) {
        const bool any_missing = count_missing() > 0;
        std::array<std::uint32_t, lanes> present;
        if (any_missing) present = put_missing_last();
        const QuantilePosition position(q, count_);
        sort_first(position.above + 1);
        for (std::size_t lane = 0; lane < quantiles.size(); ++lane)
            quantiles[lane] = any_missing ? quantile(lane, present[lane], q) : at(position, lane);
    }

  private:
    [[nodiscard]] std::uint32_t count_missing() const {
        std::uint32_t missing = 0;
        for (std::size_t i = 0; i < count_; ++i)
            for (const float value : rows_[i]) missing += value != value;
        return missing;
    }

    /// Returns how many are not missing, of each list.
    std::array<std::uint32_t, lanes> put_missing_last() {
        std::array<std::uint32_t, lanes> present{};
        for (std::size_t i = 0; i < count_; ++i)
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                float& value = rows_[i][lane];
                present[lane] += value == value;
                if (value != value) value = std::numeric_limits<float>::infinity();
            }
        return present;
    }

    void sort_first(std::size_t sorted) {
        for (std::size_t i = 0; i < sorted; ++i) {
            Row least = rows_[i];
            for (std::size_t j = i + 1; j < count_; ++j)
                for (std::size_t lane = 0; lane < lanes; ++lane) {
                    const float a = least[lane];
                    const float b = rows_[j][lane];
                    least[lane] = std::min(a, b);
                    rows_[j][lane] = std::max(a, b);
                }
            rows_[i] = least;
        }
    }

    [[nodiscard]] double at(const QuantilePosition& position, std::size_t lane) const {
        return position.between(rows_[position.below][lane], rows_[position.above][lane]);
    }

    [[nodiscard]] double quantile(std::size_t lane, std::size_t present, double q) const {
        return present == 0 ? std::numeric_limits<double>::quiet_NaN() : at(QuantilePosition(q, present), lane);
    }

    std::size_t count_;  // of values in each list
    std::array<Row, most_values> rows_;
};

std::vector<double> over_few_ranks(const StepMatrix& ms, std::span<const std::size_t> ranks, double q) {
    std::vector<double> quantiles(ms.steps());
    QuantileLanes lanes(ranks.size());
    for (std::size_t first = 0; first < ms.steps(); first += lanes.lanes) {
        const std::size_t used = std::min(lanes.lanes, ms.steps() - first);
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const std::span<const float> values = ms.of_rank(ranks[i]).subspan(first, used);
            if (used < lanes.lanes) lanes.row(i).fill(0);
            std::copy(values.begin(), values.end(), lanes.row(i).begin());
        }
        lanes.find(q, std::span(quantiles).subspan(first, used));
    }
    return quantiles;
}

}  // namespace

std::vector<double> quantiles_over_ranks(const StepMatrix& ms, double q) {
    std::vector<std::size_t> all(ms.ranks());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return quantiles_over_ranks(ms, all, q);
}

std::vector<double> quantiles_over_ranks(const StepMatrix& ms, std::span<const std::size_t> ranks, double q) {
    if (ranks.empty()) return std::vector<double>(ms.steps(), std::numeric_limits<double>::quiet_NaN());
    if (ranks.size() <= QuantileLanes::most_values) return over_few_ranks(ms, ranks, q);
    // As many steps at a time as share a cache line, since those of one rank are neighbours.
    constexpr std::size_t at_a_time = 64 / sizeof(float);
    std::vector<double> quantiles;
    quantiles.reserve(ms.steps());
    std::vector<double> of_steps(at_a_time * ranks.size());
    for (std::size_t first = 0; first < ms.steps(); first += at_a_time) {
        const std::size_t taken = std::min(at_a_time, ms.steps() - first);
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const std::span<const float> row = ms.of_rank(ranks[i]).subspan(first, taken);
            for (std::size_t step = 0; step < taken; ++step) of_steps[step * ranks.size() + i] = row[step];
        }
        for (std::size_t step = 0; step < taken; ++step) {
            const std::span<double> of_step = std::span(of_steps).subspan(step * ranks.size(), ranks.size());
            const auto missing = std::remove_if(of_step.begin(), of_step.end(), is_missing);
            quantiles.push_back(take_quantile({of_step.begin(), missing}, q));
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
