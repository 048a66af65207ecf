// SPDX-License-Identifier: Apache-2.0
#include "stats/quantiles.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace cep::tool {
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

struct Bounds {
    double lower = std::numeric_limits<double>::infinity();
    double upper = -std::numeric_limits<double>::infinity();
};

Bounds bounds_of(ValueParts parts) {
    Bounds found;
    for (const std::span<const double> part : parts)
        for (const double value : part) {
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

/// How many values are in each bin. In two tables by turns, as a count that was just written is slow to be read again.
template <std::size_t size>
using Counts = std::array<std::uint32_t, size>;

template <std::size_t size>
Counts<size> count_in_bins(ValueParts parts, const Bins& bins) {
    Counts<size> counts{};
    Counts<size> others{};
    for (const std::span<const double> values : parts) {
        const std::size_t odd = values.size() % 2;
        if (odd != 0) ++counts[bins.of(values[0])];
        for (std::size_t i = odd; i < values.size(); i += 2) {
            ++counts[bins.of(values[i])];
            ++others[bins.of(values[i + 1])];
        }
    }
    for (std::size_t bin = 0; bin < size; ++bin) counts[bin] += others[bin];
    return counts;
}

using SortedRanks = std::vector<std::size_t>;  // places that values have once they are sorted; themselves sorted

std::size_t count_of(ValueParts parts) {
    std::size_t count = 0;
    for (const std::span<const double> part : parts) count += part.size();
    return count;
}

std::vector<double> select(ValueParts parts, const SortedRanks& ranks) {
    std::vector<double> values;
    values.reserve(count_of(parts));
    for (const std::span<const double> part : parts) values.insert(values.end(), part.begin(), part.end());
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

std::vector<double> values_at(ValueParts parts, const SortedRanks& ranks);

/// The bins that hold some ranks, and the values in them. Of these, few as they are, it is the same question.
class WantedBins {
  public:
    template <std::size_t size>
    WantedBins(const Counts<size>& counts, const SortedRanks& ranks) {
        std::size_t unwanted = 0;
        for (std::size_t bin = 0; among_wanted_.size() < ranks.size(); ++bin) {
            const std::size_t end = size_ + unwanted + counts[bin];
            const bool is_wanted = ranks[among_wanted_.size()] < end;
            if (is_wanted) bins_.push_back(bin);
            (is_wanted ? size_ : unwanted) += counts[bin];
            while (among_wanted_.size() < ranks.size() && ranks[among_wanted_.size()] < end)
                among_wanted_.push_back(ranks[among_wanted_.size()] - unwanted);
        }
    }
    [[nodiscard]] const std::vector<std::size_t>& bins() const { return bins_; }
    /// Values in the bins.
    [[nodiscard]] std::size_t size() const { return size_; }
    /// Where to put them: whatever comes is put there, but the place moves on only behind a value that is in the bins.
    [[nodiscard]] double* make_room() {
        values_.resize(size_ + 1);
        return values_.data();
    }
    [[nodiscard]] std::vector<double> values_at_ranks() const {
        const std::span<const double> values(values_.data(), size_);
        return values_at(ValueParts(&values, 1), among_wanted_);
    }

  private:
    std::vector<std::size_t> bins_;
    std::size_t size_ = 0;
    std::vector<double> values_;  // and room for one that is not in the bins
    SortedRanks among_wanted_;    // the ranks, among these values
};

// No pass over all values has a branch that could be mistaken, which is what std::nth_element spends its time on.
template <std::size_t size>
std::vector<double> values_at_by_bins(ValueParts parts, const SortedRanks& ranks) {
    const std::optional<Bins> bins = Bins::over(bounds_of(parts), size);
    if (!bins) return select(parts, ranks);
    WantedBins wanted(count_in_bins<size>(parts, *bins), ranks);
    if (wanted.size() == count_of(parts)) return select(parts, ranks);
    std::array<bool, size> is_wanted{};
    for (const std::size_t bin : wanted.bins()) is_wanted[bin] = true;
    double* next = wanted.make_room();
    for (const std::span<const double> part : parts)
        for (const double value : part) {
            *next = value;
            next += is_wanted[bins->of(value)];
        }
    return wanted.values_at_ranks();
}

std::vector<double> values_at(ValueParts parts, const SortedRanks& ranks) {
    const std::size_t count = count_of(parts);
    if (count < 64 || count > UINT32_MAX) return select(parts, ranks);
    return count < 4096 ? values_at_by_bins<256>(parts, ranks) : values_at_by_bins<2048>(parts, ranks);
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

Neighbours neighbours_of(ValueParts parts, std::size_t count, std::size_t nth) {
    constexpr std::size_t few = 64;
    if (count > few) {
        const std::vector<double> found = values_at(parts, {nth, std::min(nth + 1, count - 1)});
        return {found[0], found[1]};
    }
    std::array<double, few> copy;
    auto end = copy.begin();
    for (const std::span<const double> part : parts) end = std::copy(part.begin(), part.end(), end);
    const std::span<double> values(copy.data(), count);
    if (count <= 8) return neighbours_of_few<8, 19>(values, nth);
    if (count <= 16) return neighbours_of_few<16, 63>(values, nth);
    return neighbours_among(values, nth);
}

/// Quantiles of some values, and the ranks that they lie between.
class QuantilesAsked {
  public:
    QuantilesAsked(std::initializer_list<double> qs, std::size_t count) {
        for (const double q : qs) {
            const QuantilePosition& position = positions_.emplace_back(q, count);
            ranks_.insert(ranks_.end(), {position.below, position.above});
        }
        std::sort(ranks_.begin(), ranks_.end());
    }
    [[nodiscard]] const SortedRanks& ranks() const { return ranks_; }
    /// From the values at the ranks.
    [[nodiscard]] std::vector<double> between(const std::vector<double>& values) const {
        const auto value_at = [&](std::size_t rank) {
            const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
            return values[static_cast<std::size_t>(place - ranks_.begin())];
        };
        std::vector<double> quantiles;
        for (const QuantilePosition& position : positions_)
            quantiles.push_back(position.between(value_at(position.below), value_at(position.above)));
        return quantiles;
    }

  private:
    std::vector<QuantilePosition> positions_;
    SortedRanks ranks_;
};

/// The quantiles of large groups and of all of their values, from bins that are the same for all.
template <std::size_t size>
class GroupedBins {
  public:
    GroupedBins(const GroupedValues& values, const Bins& bins) : values_(values), bins_(bins) {}

    GroupedQuantiles find(const QuantilesAsked& asked_of_all) {
        Counts<size> of_all{};
        for (std::size_t i = 0; i < values_.ends.size(); ++i) {
            const Counts<size> of_group = count_in_bins<size>(values_.group(i), bins_);
            for (std::size_t bin = 0; bin < size; ++bin) of_all[bin] += of_group[bin];
            asked_.push_back(QuantilesAsked({0.5}, count_of(values_.group(i))));
            wanted_.push_back(WantedBins(of_group, asked_.back().ranks()));
        }
        WantedBins wanted_of_all(of_all, asked_of_all.ranks());
        for (const std::size_t bin : wanted_of_all.bins()) is_wanted_[bin].of_all = true;
        next_of_all_ = wanted_of_all.make_room();
        GroupedQuantiles found;
        for (std::size_t i = 0; i < values_.ends.size(); ++i) found.medians.push_back(find_median(i));
        found.of_all = asked_of_all.between(wanted_of_all.values_at_ranks());
        return found;
    }

  private:
    struct IsWanted {
        bool of_all = false;
        bool of_group = false;
    };

    // On the way, what is wanted of all.
    double find_median(std::size_t group) {
        WantedBins wanted = std::move(wanted_[group]);
        for (const std::size_t bin : wanted.bins()) is_wanted_[bin].of_group = true;
        double* next = wanted.make_room();
        double* next_of_all = next_of_all_;
        for (const std::span<const double> part : values_.group(group))
            for (const double value : part) {
                const IsWanted is_wanted = is_wanted_[bins_.of(value)];
                *next = value;
                next += is_wanted.of_group;
                *next_of_all = value;
                next_of_all += is_wanted.of_all;
            }
        next_of_all_ = next_of_all;
        for (const std::size_t bin : wanted.bins()) is_wanted_[bin].of_group = false;
        return asked_[group].between(wanted.values_at_ranks()).front();
    }

    const GroupedValues& values_;
    const Bins bins_;
    std::vector<QuantilesAsked> asked_;  // by group
    std::vector<WantedBins> wanted_;     // by group
    std::array<IsWanted, size> is_wanted_;
    double* next_of_all_ = nullptr;
};

}  // namespace

double exact_quantile(std::span<const double> values, double q) {
    return exact_quantile(ValueParts(&values, 1), q);
}

double exact_quantile(ValueParts parts, double q) {
    const std::size_t count = count_of(parts);
    if (count == 0) return std::numeric_limits<double>::quiet_NaN();
    const QuantilePosition position(q, count);
    const auto [value, next] = neighbours_of(parts, count, position.below);
    return position.between(value, next);
}

std::vector<double> exact_quantiles(std::span<const double> values, std::initializer_list<double> qs) {
    return exact_quantiles(ValueParts(&values, 1), qs);
}

std::vector<double> exact_quantiles(ValueParts parts, std::initializer_list<double> qs) {
    const std::size_t count = count_of(parts);
    if (count == 0) return std::vector<double>(qs.size(), std::numeric_limits<double>::quiet_NaN());
    const QuantilesAsked asked(qs, count);
    return asked.between(values_at(parts, asked.ranks()));
}

GroupedQuantiles exact_quantiles(const GroupedValues& values, std::initializer_list<double> qs_of_all) {
    constexpr std::size_t many = 4096;  // in each group, that bins of its own are not better
    const std::size_t count = count_of(values.parts);
    const std::optional<Bins> bins = Bins::over({values.lower_bound, values.upper_bound}, 2048);
    if (bins && count >= many * values.ends.size() && count <= UINT32_MAX)
        return GroupedBins<2048>(values, *bins).find(QuantilesAsked(qs_of_all, count));
    GroupedQuantiles found;
    for (std::size_t i = 0; i < values.ends.size(); ++i) found.medians.push_back(exact_quantile(values.group(i), 0.5));
    found.of_all = exact_quantiles(ValueParts(values.parts), qs_of_all);
    return found;
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

}  // namespace cep::tool
