// SPDX-License-Identifier: Apache-2.0
#include "quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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

// Puts the value of rank `nth` in its place. What is in place already bounds where to look.
void place(std::vector<double>& values, std::vector<std::size_t>& placed, std::size_t nth) {
    const auto above = std::lower_bound(placed.begin(), placed.end(), nth);
    if (above != placed.end() && *above == nth) return;
    const std::size_t first = above == placed.begin() ? 0 : *(above - 1) + 1;
    const std::size_t last = above == placed.end() ? values.size() : *above;
    const auto at = [&values](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
    std::nth_element(at(first), at(nth), at(last));
    placed.insert(above, nth);
}

double quantile_of(std::vector<double>& values, std::vector<std::size_t>& placed, double q) {
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    const double position = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    place(values, placed, below);
    const double fraction = position - static_cast<double>(below);
    if (fraction == 0) return values[below];
    // The next larger value is the least of those up to the next one in its place.
    const auto above = std::upper_bound(placed.begin(), placed.end(), below);
    const std::size_t last = above == placed.end() ? values.size() - 1 : *above;
    const double next = *std::min_element(values.begin() + static_cast<std::ptrdiff_t>(below) + 1,
                                          values.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    return values[below] + (next - values[below]) * fraction;
}

}  // namespace

double exact_quantile(std::vector<double>& values, double q) {
    std::vector<std::size_t> placed;
    return quantile_of(values, placed, q);
}

// Twice the room at least, as reserving a little at a time would copy each time.
void ExactQuantiles::reserve(std::size_t values) {
    const std::size_t needed = values_.size() + values;
    if (needed > values_.capacity()) values_.reserve(std::max(needed, 2 * values_.capacity()));
}

double ExactQuantiles::quantile(double q) {
    return quantile_of(values_, placed_, q);
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
