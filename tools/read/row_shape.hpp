// SPDX-License-Identifier: Apache-2.0
//
// Row shape: rows that differ in nothing but numbers, such as those of one phase of a job. What a row of a known shape
// says is in its numbers; all of its other text is compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "read/row.hpp"
#include "read/row_layout.hpp"

namespace cep::tool {

enum class RowKey : std::uint8_t {
    other,
    type,
    name,
    step,
    rank,
    start_ns,
    duration_ms,
    elapsed_ms,
    lag_ms,
    seq,
    depth,
    stream,
    bytes,
    group,
    coll,
    kind,
    clock,
    value,
};

/// A number in the text of a row. `key` is `other` where a row of its type has no use for it.
struct RowNumber {
    RowKey key = RowKey::other;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

class RowShape {
  public:
    static constexpr std::size_t max_bytes = 640;  // of a row
    static constexpr std::size_t max_numbers = 24;

    /// A hash of what rows of one shape have in common. Rows that are larger than the above have no shape.
    [[nodiscard]] static std::uint64_t hash_of(std::string_view text, std::span<const RowNumber> numbers);

    /// Of one row, which RowParser would read as it is here. Numbers are taken to be the same in all rows, but for
    /// those that never are.
    RowShape(const Row& row, std::span<const RowNumber> numbers);
    RowShape(const RowShape&) = delete;
    RowShape& operator=(const RowShape&) = delete;
    /// Takes in a row that differs in numbers only: these are then known to differ. False for any other row.
    bool include(std::string_view text, std::span<const RowNumber> numbers);

    /// Reads the row at `at`, as RowScanner::scan() does, if it has a layout that is known. Returns nullptr where it
    /// has none. The row is valid until the next call.
    CEP_INLINE const Row* read_by_layout(const char* at) {
        for (const KnownLayout& known : layouts_)
            if (known.layout.read(at)) return set_text(at, known.layout.size(), known.name, known.group);
        return nullptr;
    }
    /// The same for any row of this shape, number by number.
    const Row* read_by_number(const char* at);

  private:
    static constexpr std::size_t max_layouts = 8;

    struct KnownLayout {
        RowLayout layout;
        std::uint32_t name = 0;  // where it begins in a row
        std::uint32_t group = 0;
    };
    /// Text in front of a number that differs, or behind the last one. Places are in text_.
    struct Piece {
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
    };
    struct String {
        std::uint32_t begin = 0;
        std::uint32_t size = 0;
    };

    void make_pieces();
    void learn_layout(std::string_view text, std::uint32_t name, std::uint32_t group);
    const Row* set_text(const char* begin, std::size_t size, std::size_t name, std::size_t group) {
        row_.text = {begin, size};
        row_.name = {begin + name, name_.size};
        row_.group = {begin + group, group_.size};
        return &row_;
    }

    Row row_;           // what all rows have in common, and the numbers of the last one
    std::string text_;  // of the row that it was made of
    String name_;
    String group_;
    std::vector<RowNumber> numbers_;  // of that row
    std::vector<bool> differ_;        // by number
    std::vector<Piece> pieces_;
    std::vector<RowField> fields_;  // behind the pieces; their places are in the last row read piece by piece
    std::vector<KnownLayout> layouts_;
    std::size_t next_layout_ = 0;    // to be replaced
    std::uint32_t unlaid_rows_ = 0;  // read piece by piece since a layout was last made of one
    std::uint32_t patience_ = 1;     // after so many it is tried again
};

}  // namespace cep::tool
