// SPDX-License-Identifier: Apache-2.0
//
// Grids: values by rank and step, and the rows and columns that a picture has room for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ledger/job_table.hpp"

namespace cep::report {

using tool::StepMatrix;

/// Bins of step numbers, both ends included.
struct Bins {
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> last;

    [[nodiscard]] std::size_t size() const { return first.size(); }
    /// The bin that a number is in; size() for none.
    [[nodiscard]] std::size_t index_of(std::int64_t number) const;
};

/// At most `most` bins of equally many of the bins that there are.
[[nodiscard]] Bins merge_bins(const Bins& bins, std::size_t most);
/// The bin of the `index`-th of `count`, in at most so many equal bins.
[[nodiscard]] inline std::size_t bin_of(std::size_t index, std::size_t count, std::size_t bins) {
    return count <= bins ? index : index * bins / count;
}

/// Joins values into the columns that they are in, of which each gets the largest; leaves out what is in none.
template <typename Values>
void join_columns(const Values& values, const std::vector<std::size_t>& columns, std::span<float> largest) {
    for (std::size_t i = 0; i < values.size(); ++i)
        if (columns[i] < largest.size())
            largest[columns[i]] = std::fmax(largest[columns[i]], static_cast<float>(values[i]));
}

/// Ranks (indices) that share a row of a picture.
using Rows = std::vector<std::vector<std::size_t>>;
/// The largest value of each cell, where columns are joined to at most so many.
[[nodiscard]] StepMatrix reduce(const StepMatrix& values, const Rows& rows, std::size_t most_columns);
/// The mean of each row; NaN where it has no value. (A median would not show who is slow now and then.)
[[nodiscard]] std::vector<float> row_means(const StepMatrix& values);
/// The indices of the values that are known, in the order of these.
template <typename Compare = std::less<>>
[[nodiscard]] std::vector<std::size_t> order_known(const std::vector<double>& values, const Compare& is_before = {}) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isnan(values[i])) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return is_before(values[a], values[b]); });
    return order;
}
/// The median over rows of the medians of rows, whatever the signs; NaN where there is no value.
[[nodiscard]] double typical_size(const StepMatrix& values);
/// The value that at least this share of the values does not exceed: one of them; NaN for none.
[[nodiscard]] double nearest_quantile(std::vector<double> values, double q);

/// From the least to the largest of the values that are known.
struct Range {
    double low = INFINITY;
    double high = -INFINITY;

    void add(double value) {
        if (!std::isfinite(value)) return;
        low = std::min(low, value);
        high = std::max(high, value);
    }
    /// Where a value is on a logarithmic scale, from 0 to 1; 0 also for what is below.
    [[nodiscard]] double log_share_of(double value) const;
};

}  // namespace cep::report
