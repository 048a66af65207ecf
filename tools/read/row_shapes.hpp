// SPDX-License-Identifier: Apache-2.0
//
// Row shapes: those that the rows read so far had, and which one is to be expected next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "read/json_scan.hpp"
#include "read/row_shape.hpp"

namespace cep::tool {

/// One a thread.
class RowShapes {
  public:
    /// Reads a row of a known shape, as RowScanner::scan() does. Returns nullptr for any other row.
    CEP_INLINE const Row* read(const char* at);
    /// A row that read() did not read. Rows that are too large for a shape are passed over.
    void learn(const Row& row, std::span<const RowNumber> numbers);

  private:
    static constexpr std::size_t max_shapes = 512;

    struct Known {
        Known(const Row& row, std::span<const RowNumber> numbers, std::uint64_t hash_of_row)
            : shape(row, numbers), hash(hash_of_row) {}

        RowShape shape;
        std::uint64_t hash;
        std::array<Known*, 4> next{};  // of rows that came behind one of this
    };

    const Row* search(const char* at);
    const Row* hit(Known& shape, const Row* row);
    [[nodiscard]] Known* find(const Row& row, std::uint64_t hash, std::span<const RowNumber> numbers);
    void follow(Known& shape);
    void forget();

    std::vector<std::unique_ptr<Known>> shapes_;
    Known* last_ = nullptr;
    std::uint64_t hits_ = 0;       // since shapes were last forgotten
    std::uint32_t rows_idle_ = 0;  // rows that nothing is tried with
};

// Rows of a job come in the same order in every step. Behind one that comes several times, such as a reduction in
// buckets, there are a few.
CEP_INLINE const Row* RowShapes::read(const char* at) {
    if (last_ != nullptr) {
        for (Known* const expected : last_->next) {
            if (expected == nullptr) break;
            const Row* const row = expected->shape.read_by_layout(at);
            if (row == nullptr) continue;
            last_ = expected;
            ++hits_;
            return row;
        }
    }
    return search(at);
}

}  // namespace cep::tool
