// SPDX-License-Identifier: Apache-2.0
#include "report/grid.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/bytes.hpp"
#include "stats/robust.hpp"

namespace cep::report {
namespace {

// Below it, values are as good as zero.
constexpr double smallest_of_high = 1e-3;

void find_range(const StepMatrix& values, Block& block) {
    double low = INFINITY;
    double high = 0;
    for (std::size_t row = 0; row < values.ranks(); ++row)
        for (const float value : values.of_rank(row)) {
            if (!std::isfinite(value)) continue;
            low = std::min<double>(low, value);
            high = std::max<double>(high, value);
        }
    if (high <= 0) return;
    block.high = high;
    block.low = std::max(low, smallest_of_high * high);
}

unsigned code_of(float value, const Block& block, double per_log) {
    if (std::isnan(value)) return 0;
    if (!(value > block.low) || per_log == 0) return 1;
    const double most = std::ldexp(1.0, block.bits) - 1;
    return static_cast<unsigned>(std::lround(std::min(1 + std::log(value / block.low) * per_log, most)));
}

}  // namespace

std::size_t Bins::index_of(std::int64_t number) const {
    const auto found = std::lower_bound(last.begin(), last.end(), number);
    const auto bin = static_cast<std::size_t>(found - last.begin());
    return bin < size() && first[bin] <= number ? bin : size();
}

Bins single_bins(const std::vector<std::int64_t>& ascending) {
    return {ascending, ascending};
}

Bins index_bins(std::size_t count) {
    std::vector<std::int64_t> indices(count);
    std::iota(indices.begin(), indices.end(), 0);
    return single_bins(indices);
}

Bins merge_bins(const Bins& bins, std::size_t most) {
    if (bins.size() <= most) return bins;
    Bins merged;
    for (std::size_t i = 0; i < bins.size(); ++i) {
        if (part_of(i, bins.size(), most) == merged.size()) {
            merged.first.push_back(bins.first[i]);
            merged.last.push_back(bins.last[i]);
        } else {
            merged.last.back() = bins.last[i];
        }
    }
    return merged;
}

StepMatrix reduce(const StepMatrix& values, std::size_t most_rows, std::size_t most_columns) {
    const std::size_t rows = values.ranks();
    const std::size_t columns = values.steps();
    StepMatrix reduced(std::min(rows, most_rows), std::min(columns, most_columns));
    for (std::size_t row = 0; row < rows; ++row) {
        const std::span<const float> from = values.of_rank(row);
        const std::span<float> to = reduced.of_rank(part_of(row, rows, most_rows));
        for (std::size_t column = 0; column < columns; ++column) {
            float& most = to[part_of(column, columns, most_columns)];
            most = std::fmax(most, from[column]);
        }
    }
    return reduced;
}

StepMatrix choose_rows(const StepMatrix& values, const std::vector<std::size_t>& rows) {
    StepMatrix chosen(rows.size(), values.steps());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::span<const float> from = values.of_rank(rows[i]);
        std::copy(from.begin(), from.end(), chosen.of_rank(i).begin());
    }
    return chosen;
}

std::vector<float> row_means(const StepMatrix& values) {
    std::vector<float> means;
    for (std::size_t row = 0; row < values.ranks(); ++row) {
        double sum = 0;
        std::size_t count = 0;
        for (const float value : values.of_rank(row)) {
            if (std::isnan(value)) continue;
            sum += value;
            ++count;
        }
        means.push_back(count == 0 ? NAN : static_cast<float>(sum / static_cast<double>(count)));
    }
    return means;
}

double typical_value(const StepMatrix& values) {
    std::vector<double> medians;
    for (std::size_t row = 0; row < values.ranks(); ++row) {
        const std::span<const float> of_row = values.of_rank(row);
        medians.push_back(tool::median_of(std::vector<double>(of_row.begin(), of_row.end())));
    }
    return tool::median_of(medians);
}

Block encode(const StepMatrix& values, int bits) {
    Block block{values.ranks(), values.steps(), bits, 1, 1, {}};
    find_range(values, block);
    const double span = std::log(block.high / block.low);
    const double per_log = span > 0 ? (std::ldexp(1.0, bits) - 2) / span : 0;
    const std::size_t cells = block.rows * block.columns;
    std::string bytes(bits == 16 ? 2 * cells : cells, '\0');
    std::size_t cell = 0;
    for (std::size_t row = 0; row < block.rows; ++row)
        for (const float value : values.of_rank(row)) {
            const unsigned code = code_of(value, block, per_log);
            if (bits == 16) {
                bytes[cell] = static_cast<char>(code >> 8);
                bytes[cells + cell] = static_cast<char>(code & 255);
            } else {
                bytes[cell] = static_cast<char>(code);
            }
            ++cell;
        }
    block.data = base64(deflate(bytes));
    return block;
}

Block encode(const std::vector<float>& by_rank) {
    StepMatrix column(by_rank.size(), 1);
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) column.set(rank, 0, by_rank[rank]);
    return encode(column, 16);
}

}  // namespace cep::report
