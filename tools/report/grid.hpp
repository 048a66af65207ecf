// SPDX-License-Identifier: Apache-2.0
//
// Grids: values by rank and step, and the bins of ranks and steps that a picture has room for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ledger/job_table.hpp"

namespace cep::report {

using tool::StepMatrix;

/// Bins, both ends included: of step numbers, or of indices of ranks.
struct Bins {
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> last;

    [[nodiscard]] std::size_t size() const { return first.size(); }
    /// The bin that a number is in; size() for none.
    [[nodiscard]] std::size_t index_of(std::int64_t number) const;
};

/// Each by itself.
[[nodiscard]] Bins single_bins(const std::vector<std::int64_t>& ascending);
/// The same of the numbers from 0 on.
[[nodiscard]] Bins index_bins(std::size_t count);
/// At most `most` bins of equally many of the bins that there are.
[[nodiscard]] Bins merge_bins(const Bins& bins, std::size_t most);
/// Which of `most` equal parts a place of `count` is in.
[[nodiscard]] inline std::size_t part_of(std::size_t place, std::size_t count, std::size_t parts) {
    return count <= parts ? place : place * parts / count;
}

/// The largest value of each bin, where rows and columns are joined to at most so many.
[[nodiscard]] StepMatrix reduce(const StepMatrix& values, std::size_t most_rows, std::size_t most_columns);
/// Some rows.
[[nodiscard]] StepMatrix choose_rows(const StepMatrix& values, const std::vector<std::size_t>& rows);
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
/// The median over rows of the medians of rows; NaN where there is no value.
[[nodiscard]] double typical_value(const StepMatrix& values);

/// Values as bytes on a logarithmic scale, see page/DATA.md.
struct Block {
    std::size_t rows = 0;
    std::size_t columns = 0;
    int bits = 8;
    double low = 1;
    double high = 1;
    std::string data;  // base64 of zlib's format
};
[[nodiscard]] Block encode(const StepMatrix& values, int bits);
/// A value for each rank, in 16 bits.
[[nodiscard]] Block encode(const std::vector<float>& by_rank);

}  // namespace cep::report
