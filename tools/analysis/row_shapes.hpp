// SPDX-License-Identifier: Apache-2.0
//
// Row shapes: those that the rows read so far had, and which one is to be expected next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "row_shape.hpp"

namespace cep::analysis {

/// One a thread.
class RowShapes {
  public:
    explicit RowShapes(bool with_sse) : with_sse_(with_sse) {}

    /// Reads a row of a known shape, as RowScanner::scan() does. Returns nullptr for any other row.
    const char* read(const char* at, Row& row);
    /// A row that read() did not read. Rows that are too large for a shape are passed over.
    void learn(const Row& row, std::span<const RowNumber> numbers);

  private:
    static constexpr std::size_t max_shapes = 512;
    static constexpr std::size_t max_expected = 2;
    static constexpr std::uint32_t none = UINT32_MAX;

    struct Known {
        RowShape shape;
        std::uint64_t hash = 0;
        std::array<std::uint32_t, max_expected> next = {none, none};  // shapes of rows that came behind one of this
    };

    const char* search(const char* at, Row& row);
    [[nodiscard]] std::uint32_t find(const Row& row, std::uint64_t hash, std::span<const RowNumber> numbers);
    void follow(std::uint32_t shape);
    void forget();

    bool with_sse_;
    std::vector<Known> shapes_;
    std::uint32_t last_ = none;
    std::uint64_t hits_ = 0;       // since shapes were last forgotten
    std::uint32_t rows_idle_ = 0;  // rows that nothing is tried with
};

}  // namespace cep::analysis
