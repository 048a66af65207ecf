// SPDX-License-Identifier: Apache-2.0
#include "stats/quantiles.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace cep::tool {
namespace {

/// Puts the values for which `is_front` holds to the front, and returns how many they are.
template <typename IsFront>
std::size_t put_to_front(std::span<double> values, IsFront is_front) {
    std::size_t count = 0;
    for (double& value : values) {
        const double one = std::exchange(value, values[count]);
        values[count] = one;
        count += is_front(one);
    }
    return count;
}

void put_in_place(std::span<double> values, std::size_t rank);

/// A value whose rank is likely near this one, on its longer side: of many values, from what some of them say.
double pivot_near(std::span<const double> values, std::size_t rank) {
    constexpr std::size_t many = 512;
    if (values.size() < many) {
        const auto [low, high] = std::minmax(values.front(), values.back());
        return std::clamp(values[values.size() / 2], low, high);
    }
    std::array<double, 31> some{};
    for (std::size_t i = 0; i < some.size(); ++i) some[i] = values[i * values.size() / some.size()];
    std::size_t place = rank * some.size() / values.size();
    place = 2 * rank < values.size() ? place + 2 : std::max<std::size_t>(place, 2) - 2;
    put_in_place(some, place);
    return some[place];
}

// As std::nth_element, but without a branch for each value: a processor predicts half of these wrongly. Where passes
// leave out few values each, as of values that rise and then fall, std::nth_element finishes it.
void put_in_place(std::span<double> values, std::size_t rank) {
    for (auto passes = 4 * std::bit_width(values.size()); values.size() > 1; --passes) {
        if (passes == 0)
            return std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
        const double pivot = pivot_near(values, rank);
        std::size_t front = put_to_front(values, [pivot](double value) { return value < pivot; });
        if (front == 0) {
            front = put_to_front(values, [pivot](double value) { return value <= pivot; });
            if (rank < front || front == 0) return;  // 0: where values are not numbers
        }
        if (rank < front) {
            values = values.first(front);
        } else {
            values = values.subspan(front);
            rank -= front;
        }
    }
}

}  // namespace

double quantile_of(std::span<const double> values, double q) {
    return quantiles_of(values, {q}).front();
}

double median_of(std::span<const double> values) {
    return quantile_of(values, 0.5);
}

void take_quantiles(std::span<double> values, std::span<const double> qs, std::span<double> found) {
    if (values.empty()) return std::fill(found.begin(), found.end(), std::numeric_limits<double>::quiet_NaN());
    std::size_t placed = 0;  // what is before it is no larger
    for (std::size_t i = 0; i < qs.size(); ++i) {
        const QuantilePosition position(qs[i], values.size());
        if (position.below < placed) placed = 0;
        put_in_place(values.subspan(placed), position.below - placed);
        placed = position.below;
        found[i] = values[position.below];
        if (position.fraction == 0) continue;
        double above = values[position.above];
        for (const double value : values.subspan(position.above)) above = std::min(above, value);
        found[i] = position.between(found[i], above);
    }
}

std::vector<double> quantiles_of(std::span<const double> values, std::initializer_list<double> qs) {
    std::vector<double> found(qs.size());
    std::vector<double> present(values.begin(), values.end());
    std::erase_if(present, [](double value) { return std::isnan(value); });
    take_quantiles(present, std::span(qs.begin(), qs.size()), found);
    return found;
}

}  // namespace cep::tool
