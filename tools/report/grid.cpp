// SPDX-License-Identifier: Apache-2.0
#include "report/grid.hpp"

#include "stats/robust.hpp"

namespace cep::report {

std::size_t Bins::index_of(std::int64_t number) const {
    const auto found = std::lower_bound(last.begin(), last.end(), number);
    const auto bin = static_cast<std::size_t>(found - last.begin());
    return bin < size() && first[bin] <= number ? bin : size();
}

Bins merge_bins(const Bins& bins, std::size_t most) {
    Bins merged;
    for (std::size_t i = 0; i < bins.size(); ++i) {
        if (bin_of(i, bins.size(), most) == merged.size()) merged.first.push_back(bins.first[i]);
        merged.last.resize(merged.size());
        merged.last.back() = bins.last[i];
    }
    return merged;
}

StepMatrix reduce(const StepMatrix& values, const Rows& rows, std::size_t most_columns) {
    StepMatrix reduced(rows.size(), std::min(values.steps(), most_columns));
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < values.steps(); ++i) columns.push_back(bin_of(i, values.steps(), most_columns));
    for (std::size_t row = 0; row < rows.size(); ++row)
        for (const std::size_t rank : rows[row]) join_columns(values.of_rank(rank), columns, reduced.of_rank(row));
    return reduced;
}

std::vector<float> row_means(const StepMatrix& values) {
    std::vector<float> means;
    for (std::size_t row = 0; row < values.ranks(); ++row) {
        const std::span<const float> known = values.of_rank(row);
        means.push_back(static_cast<float>(tool::mean_of(std::vector<double>(known.begin(), known.end()))));
    }
    return means;
}

double typical_size(const StepMatrix& values) {
    std::vector<double> medians;
    std::vector<double> sizes;
    for (std::size_t row = 0; row < values.ranks(); ++row) {
        sizes.clear();
        for (const float value : values.of_rank(row)) sizes.push_back(std::abs(value));
        medians.push_back(tool::median_of(sizes));
    }
    return tool::median_of(medians);
}

double nearest_quantile(std::vector<double> values, double q) {
    std::erase_if(values, [](double value) { return std::isnan(value); });
    if (values.empty()) return NAN;
    const double rank = std::ceil(q * static_cast<double>(values.size()) - 1e-9);
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

double Range::log_share_of(double value) const {
    if (!(value > low)) return 0;
    if (!(high > low) || !(value < high)) return 1;
    return std::log(value / low) / std::log(high / low);
}

}  // namespace cep::report
