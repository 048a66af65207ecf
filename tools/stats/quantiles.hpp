// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of values: exact, or from a histogram with a bounded relative error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace cep::tool {

/// The place of a quantile (type 7) among `count` sorted values, which are not none.
struct QuantilePosition {
    QuantilePosition(double q, std::size_t count)
        : below(static_cast<std::size_t>(q * static_cast<double>(count - 1))),
          above(std::min(below + 1, count - 1)),
          fraction(q * static_cast<double>(count - 1) - static_cast<double>(below)) {}

    [[nodiscard]] double between(double value, double next) const {
        return fraction == 0 ? value : value + (next - value) * fraction;
    }

    std::size_t below;
    std::size_t above;
    double fraction;
};

/// The quantile of 0 ≤ q ≤ 1 by linear interpolation between order statistics (Hyndman and Fan's type 7, the default
/// of NumPy and R). None of the values is NaN; the result is, of no values.
[[nodiscard]] double exact_quantile(std::span<const double> values, double q);

/// Several at once, in little more time than one.
[[nodiscard]] std::vector<double> exact_quantiles(std::span<const double> values, std::initializer_list<double> qs);

/// Of values that lie in several places.
using ValueParts = std::span<const std::span<const double>>;
[[nodiscard]] double exact_quantile(ValueParts parts, double q);
[[nodiscard]] std::vector<double> exact_quantiles(ValueParts parts, std::initializer_list<double> qs);

/// Counts of values in buckets of geometrically growing width, so that every quantile is within 0.5 % of a value of
/// that rank (DDSketch: Masson, Rim, Lee, VLDB 2019). Values are ≥ 0.
class LogHistogram {
  public:
    static constexpr double relative_error = 0.005;

    void add(double value);
    void merge(const LogHistogram& other);
    [[nodiscard]] std::uint64_t count() const { return count_; }
    /// NaN for none.
    [[nodiscard]] double quantile(double q) const;

  private:
    void include(int bucket);

    std::vector<std::uint32_t> buckets_;  // of first_bucket_, first_bucket_ + 1, …
    int first_bucket_ = 0;
    std::uint64_t zeros_ = 0;
    std::uint64_t count_ = 0;
};

}  // namespace cep::tool
