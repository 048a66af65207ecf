// SPDX-License-Identifier: Apache-2.0
#include "quantiles.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace cep::analysis {
namespace {

// Values below this (ms: a tenth of a nanosecond) count as zero, so that buckets stay few.
constexpr double smallest_value = 1e-7;
constexpr double growth = (1 + LogHistogram::relative_error) / (1 - LogHistogram::relative_error);

int bucket_of(double value) {
    return static_cast<int>(std::ceil(std::log(value) / std::log(growth)));
}

double value_of(int bucket) {
    return 2 * std::pow(growth, bucket) / (growth + 1);
}

/// The values of rank `nth` and of the next rank, as far as there is one.
struct Neighbours {
    double value;
    double next;
};

Neighbours neighbours_among(std::span<double> values, std::size_t nth) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(nth);
    std::nth_element(values.begin(), at, values.end());
    return {*at, at + 1 == values.end() ? *at : *std::min_element(at + 1, values.end())};
}

/// Where a value lies among others. The bins are equally wide in the bits of a double, taken as a number: wider for
/// larger values, as the differences between larger values are.
class Bins {
  public:
    /// Nothing for equal values, which are all in one bin.
    static std::optional<Bins> over(std::span<const double> values, std::size_t bins) {
        std::int64_t lowest = INT64_MAX;
        std::int64_t highest = INT64_MIN;
        for (const double value : values) {
            lowest = std::min(lowest, ordinal_of(value));
            highest = std::max(highest, ordinal_of(value));
        }
        if (lowest == highest) return std::nullopt;
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

/// How many values are in each bin. In two tables by turns, as a count that was just written is slow to be read again.
template <std::size_t size>
std::array<std::uint32_t, size> count_in_bins(std::span<const double> values, const Bins& bins) {
    std::array<std::uint32_t, size> counts{};
    std::array<std::uint32_t, size> others{};
    const std::size_t odd = values.size() % 2;
    if (odd != 0) ++counts[bins.of(values[0])];
    for (std::size_t i = odd; i < values.size(); i += 2) {
        ++counts[bins.of(values[i])];
        ++others[bins.of(values[i + 1])];
    }
    for (std::size_t bin = 0; bin < size; ++bin) counts[bin] += others[bin];
    return counts;
}

using SortedRanks = std::vector<std::size_t>;  // places that values have once they are sorted; themselves sorted

std::vector<double> select(std::vector<double> values, const SortedRanks& ranks) {
    std::vector<double> selected;
    std::size_t ordered = 0;  // values whose place is the right one, at the front
    for (const std::size_t rank : ranks) {
        const auto at = [&values](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
        if (rank >= ordered) std::nth_element(at(ordered), at(rank), values.end());
        ordered = rank + 1;
        selected.push_back(values[rank]);
    }
    return selected;
}

std::vector<double> values_at(std::span<const double> values, const SortedRanks& ranks);

// Of the values in the bins that hold the ranks, few as they are, it is the same question. No pass over all values has
// a branch that could be mistaken, which is what std::nth_element spends its time on.
template <std::size_t size>
std::vector<double> values_at_by_bins(std::span<const double> values, const SortedRanks& ranks) {
    const std::optional<Bins> bins = Bins::over(values, size);
    if (!bins) return select({values.begin(), values.end()}, ranks);
    const std::array<std::uint32_t, size> counts = count_in_bins<size>(values, *bins);
    std::array<bool, size> is_wanted{};
    std::size_t wanted = 0;
    std::size_t unwanted = 0;
    SortedRanks among_wanted;
    for (std::size_t bin = 0; among_wanted.size() < ranks.size(); ++bin) {
        const std::size_t end = wanted + unwanted + counts[bin];
        is_wanted[bin] = ranks[among_wanted.size()] < end;
        (is_wanted[bin] ? wanted : unwanted) += counts[bin];
        while (among_wanted.size() < ranks.size() && ranks[among_wanted.size()] < end)
            among_wanted.push_back(ranks[among_wanted.size()] - unwanted);
    }
    if (wanted == values.size()) return select({values.begin(), values.end()}, ranks);
    std::vector<double> in_wanted(wanted + 1);
    std::size_t next = 0;
    for (const double value : values) {
        in_wanted[next] = value;
        next += is_wanted[bins->of(value)];
    }
    return values_at({in_wanted.data(), wanted}, among_wanted);
}

std::vector<double> values_at(std::span<const double> values, const SortedRanks& ranks) {
    if (values.size() < 64 || values.size() > UINT32_MAX) return select({values.begin(), values.end()}, ranks);
    return values.size() < 4096 ? values_at_by_bins<256>(values, ranks) : values_at_by_bins<2048>(values, ranks);
}

/// Batcher's odd-even merge sort: which two places to put in order, one pair after the other.
template <std::size_t size, std::size_t pairs>
constexpr std::array<std::pair<std::uint8_t, std::uint8_t>, pairs> make_sorting_network() {
    std::array<std::pair<std::uint8_t, std::uint8_t>, pairs> network{};
    std::size_t at = 0;
    for (std::size_t run = 1; run < size; run *= 2)
        for (std::size_t gap = run; gap >= 1; gap /= 2)
            for (std::size_t first = gap % run; first + gap < size; first += 2 * gap)
                for (std::size_t i = first; i < std::min(first + gap, size - gap); ++i)
                    if (i / (2 * run) == (i + gap) / (2 * run))
                        network[at++] = {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i + gap)};
    return network;
}

// Without branches: of the values of the ranks of a step, in a third of the time of std::nth_element.
template <std::size_t size, std::size_t pairs>
Neighbours neighbours_of_few(std::span<const double> values, std::size_t nth) {
    static constexpr auto network = make_sorting_network<size, pairs>();
    std::array<double, size> sorted;
    sorted.fill(std::numeric_limits<double>::infinity());
    std::copy(values.begin(), values.end(), sorted.begin());
    for (const auto& [a, b] : network) {
        const double first = sorted[a];
        const double second = sorted[b];
        sorted[a] = second < first ? second : first;
        sorted[b] = second < first ? first : second;
    }
    return {sorted[nth], sorted[std::min(nth + 1, values.size() - 1)]};
}

Neighbours neighbours_of(std::span<const double> values, std::size_t nth) {
    constexpr std::size_t few = 64;
    if (values.size() <= 8) return neighbours_of_few<8, 19>(values, nth);
    if (values.size() <= 16) return neighbours_of_few<16, 63>(values, nth);
    if (values.size() <= few) {
        std::array<double, few> copy;
        std::copy(values.begin(), values.end(), copy.begin());
        return neighbours_among({copy.data(), values.size()}, nth);
    }
    const std::vector<double> found = values_at(values, {nth, std::min(nth + 1, values.size() - 1)});
    return {found[0], found[1]};
}

}  // namespace

double exact_quantile(std::span<const double> values, double q) {
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    const QuantilePosition position(q, values.size());
    const auto [value, next] = neighbours_of(values, position.below);
    return position.between(value, next);
}

std::vector<double> exact_quantiles(std::span<const double> values, std::initializer_list<double> qs) {
    if (values.empty()) return std::vector<double>(qs.size(), std::numeric_limits<double>::quiet_NaN());
    SortedRanks ranks;
    for (const double q : qs) {
        const QuantilePosition position(q, values.size());
        ranks.insert(ranks.end(), {position.below, position.above});
    }
    std::sort(ranks.begin(), ranks.end());
    const std::vector<double> found = values_at(values, ranks);
    const auto value_at = [&](std::size_t rank) {
        const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
        return found[static_cast<std::size_t>(place - ranks.begin())];
    };
    std::vector<double> quantiles;
    for (const double q : qs) {
        const QuantilePosition position(q, values.size());
        quantiles.push_back(position.between(value_at(position.below), value_at(position.above)));
    }
    return quantiles;
}

void LogHistogram::include(int bucket) {
    if (buckets_.empty()) first_bucket_ = bucket;
    if (bucket < first_bucket_) {
        buckets_.insert(buckets_.begin(), static_cast<std::size_t>(first_bucket_ - bucket), 0);
        first_bucket_ = bucket;
    }
    const auto needed = static_cast<std::size_t>(bucket - first_bucket_) + 1;
    if (buckets_.size() < needed) buckets_.resize(needed);
}

void LogHistogram::add(double value) {
    ++count_;
    if (value < smallest_value) {
        ++zeros_;
        return;
    }
    const int bucket = bucket_of(value);
    include(bucket);
    ++buckets_[static_cast<std::size_t>(bucket - first_bucket_)];
}

void LogHistogram::merge(const LogHistogram& other) {
    count_ += other.count_;
    zeros_ += other.zeros_;
    if (other.buckets_.empty()) return;
    include(other.first_bucket_);
    include(other.first_bucket_ + static_cast<int>(other.buckets_.size()) - 1);
    const auto shift = static_cast<std::size_t>(other.first_bucket_ - first_bucket_);
    for (std::size_t i = 0; i < other.buckets_.size(); ++i) buckets_[shift + i] += other.buckets_[i];
}

LogHistogram LogHistogram::of(Buckets buckets) {
    LogHistogram histogram;
    histogram.first_bucket_ = static_cast<int>(buckets.first);
    histogram.zeros_ = buckets.zeros;
    histogram.buckets_ = std::move(buckets.counts);
    histogram.count_ = std::accumulate(histogram.buckets_.begin(), histogram.buckets_.end(), buckets.zeros);
    return histogram;
}

double LogHistogram::quantile(double q) const {
    if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
    const auto wanted = static_cast<std::uint64_t>(q * static_cast<double>(count_ - 1));
    std::uint64_t seen = zeros_;
    if (wanted < seen) return 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        seen += buckets_[i];
        if (wanted < seen) return value_of(first_bucket_ + static_cast<int>(i));
    }
    return value_of(first_bucket_ + static_cast<int>(buckets_.size()) - 1);
}

}  // namespace cep::analysis
