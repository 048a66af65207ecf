// SPDX-License-Identifier: Apache-2.0
#include "stats/quantiles.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace cep::tool {
namespace {

struct Bounds {
    double lower = std::numeric_limits<double>::infinity();
    double upper = -std::numeric_limits<double>::infinity();
};

Bounds bounds_of(std::span<const double> values) {
    Bounds found;
    for (const double value : values) {
        found.lower = std::min(found.lower, value);
        found.upper = std::max(found.upper, value);
    }
    return found;
}

/// Where a value lies among others. The bins are equally wide in the bits of a double, taken as a number: wider for
/// larger values, as the differences between larger values are.
class Bins {
  public:
    /// Nothing for equal values, which are all in one bin.
    static std::optional<Bins> over(Bounds bounds, std::size_t bins) {
        if (bounds.lower == bounds.upper) return std::nullopt;
        // Zeros may have either sign.
        const std::int64_t lowest = ordinal_of(bounds.lower == 0 ? -0.0 : bounds.lower);
        const std::int64_t highest = ordinal_of(bounds.upper == 0 ? 0.0 : bounds.upper);
        const auto width = static_cast<std::uint64_t>(highest) - static_cast<std::uint64_t>(lowest);
        return Bins(static_cast<std::uint64_t>(lowest), std::max(0, bits_of(width) - bits_of(bins - 1)));
    }
    [[nodiscard]] std::size_t of(double value) const {
        return static_cast<std::size_t>((static_cast<std::uint64_t>(ordinal_of(value)) - lowest_) >> shift_);
    }

  private:
    Bins(std::uint64_t lowest, int shift) : lowest_(lowest), shift_(shift) {}
    static int bits_of(std::uint64_t number) { return static_cast<int>(std::bit_width(number)); }

    // In the order of the values: of negative doubles, the one with more in its bits is the lesser.
    static std::int64_t ordinal_of(double value) {
        const auto bits = std::bit_cast<std::int64_t>(value);
        return bits ^ ((bits >> 63) & INT64_MAX);
    }

    std::uint64_t lowest_;
    int shift_;
};

using SortedRanks = std::vector<std::size_t>;  // positions that values have once they are sorted; themselves sorted

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

// As std::nth_element, but without a branch for each value: a processor predicts half of these wrongly. Where passes
// leave out few values each, as of values that rise and then fall, std::nth_element finishes it.
void put_in_place(std::span<double> values, std::size_t rank) {
    for (auto passes = 4 * std::bit_width(values.size()); values.size() > 1; --passes) {
        if (passes == 0)
            return std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
        const auto [low, high] = std::minmax(values.front(), values.back());
        const double pivot = std::clamp(values[values.size() / 2], low, high);
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

std::vector<double> select(std::vector<double> values, const SortedRanks& ranks) {
    std::vector<double> selected;
    std::size_t ordered = 0;  // values whose position is the right one, at the front
    for (const std::size_t rank : ranks) {
        if (rank >= ordered) put_in_place(std::span(values).subspan(ordered), rank - ordered);
        ordered = rank + 1;
        selected.push_back(values[rank]);
    }
    return selected;
}

constexpr std::size_t few = 512;  // of fewer, a selection is as fast as counting in bins

// Counts values in bins, and selects only among the values in the bins that hold the ranks, which are few. The passes
// over all values have no branch that a processor could predict wrongly; std::nth_element spends its time on such
// branches.
std::vector<double> values_at(std::span<const double> values, const SortedRanks& ranks) {
    constexpr std::size_t size = 2048;
    const std::size_t count = values.size();
    if (count < few || count > UINT32_MAX) return select({values.begin(), values.end()}, ranks);
    const Bounds bounds = bounds_of(values);
    const std::optional<Bins> bins = Bins::over(bounds, size);
    if (!bins) return std::vector<double>(ranks.size(), bounds.lower);
    std::array<std::uint32_t, size> counts{};
    for (const double value : values) ++counts[bins->of(value)];
    std::array<bool, size> is_wanted{};
    SortedRanks among_wanted;
    std::size_t wanted = 0;
    std::size_t unwanted = 0;
    for (std::size_t bin = 0; among_wanted.size() < ranks.size(); ++bin) {
        const std::size_t end = wanted + unwanted + counts[bin];
        is_wanted[bin] = ranks[among_wanted.size()] < end;
        (is_wanted[bin] ? wanted : unwanted) += counts[bin];
        while (among_wanted.size() < ranks.size() && ranks[among_wanted.size()] < end)
            among_wanted.push_back(ranks[among_wanted.size()] - unwanted);
    }
    if (wanted == count) return select({values.begin(), values.end()}, ranks);
    std::vector<double> found(wanted + 1);  // every value is put there, but only those in the bins stay
    double* next = found.data();
    for (const double value : values) {
        *next = value;
        next += is_wanted[bins->of(value)];
    }
    return values_at(std::span(found).first(wanted), among_wanted);
}

}  // namespace

double exact_quantile(std::span<const double> values, double q) {
    if (values.empty() || values.size() >= few) return exact_quantiles(values, {q}).front();
    std::vector<double> copy(values.begin(), values.end());
    double found = 0;
    take_quantiles(copy, std::span(&q, 1), std::span(&found, 1));
    return found;
}

void take_quantiles(std::span<double> values, std::span<const double> qs, std::span<double> found) {
    std::size_t placed = 0;  // what is before it is no larger
    for (std::size_t i = 0; i < qs.size(); ++i) {
        const QuantilePosition position(qs[i], values.size());
        if (position.below < placed) placed = 0;
        put_in_place(values.subspan(placed), position.below - placed);
        placed = position.below;
        double above = values[position.above];
        for (const double value : values.subspan(position.above)) above = std::min(above, value);
        found[i] = position.between(values[position.below], above);
    }
}

std::vector<double> exact_quantiles(std::span<const double> values, std::initializer_list<double> qs) {
    const std::size_t count = values.size();
    if (count == 0) return std::vector<double>(qs.size(), std::numeric_limits<double>::quiet_NaN());
    SortedRanks ranks;
    for (const double q : qs) {
        const QuantilePosition position(q, count);
        ranks.insert(ranks.end(), {position.below, position.above});
    }
    std::sort(ranks.begin(), ranks.end());
    const std::vector<double> found = values_at(values, ranks);
    const auto value_at = [&](std::size_t rank) {
        return found[static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin())];
    };
    std::vector<double> quantiles;
    for (const double q : qs) {
        const QuantilePosition position(q, count);
        quantiles.push_back(position.between(value_at(position.below), value_at(position.above)));
    }
    return quantiles;
}

}  // namespace cep::tool
