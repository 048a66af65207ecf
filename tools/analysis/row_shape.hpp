// SPDX-License-Identifier: Apache-2.0
//
// Row shape: rows that differ in nothing but numbers, such as those of one phase of a job. What a row of a known shape
// says is in its numbers; all of its other text is compared, and that is a fifth of the work of reading it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "row.hpp"

namespace cep::analysis {

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
    /// Takes in a row that differs in numbers only: these are then known to differ. False for any other row.
    bool include(std::string_view text, std::span<const RowNumber> numbers);

    /// Reads the row at `at`, as RowScanner::scan() does. Returns nullptr where it has another shape, or a number that
    /// is not plain; `row` is then of no use.
    const char* read(const char* at, Row& row, bool with_sse) {
        return with_sse ? read_with_sse(at, row) : read_anywhere(at, row);
    }
    /// Whether this machine can read with SSE 4.1.
    [[nodiscard]] static bool has_sse();

  private:
    enum class Reading : std::uint8_t {
        nothing,
        time,
        integer,
        fixed,
        lag_fixed,
        decimal,
        lag_decimal,
        skip_fixed,
        skip
    };
    using Words [[gnu::vector_size(16)]] = std::uint64_t;

    /// Text that is compared.
    struct Chunk {
        Words text{};
        Words mask{};
    };
    /// Text between numbers that are read, and how the number behind it is.
    struct Piece {
        Chunk first;
        std::uint16_t size = 0;
        std::uint8_t more = 0;      // chunks
        std::uint8_t digits = 0;    // that it had in front of the point the last time
        std::uint8_t decimals = 0;  // _fixed
        Reading reading = Reading::nothing;
        std::optional<std::int64_t> Row::*integer = nullptr;
        double Row::*decimal = nullptr;
    };
    /// A string of the row.
    struct String {
        std::uint32_t begin = 0;  // in text_
        std::uint32_t size = 0;
        std::uint32_t piece = 0;
        std::uint32_t offset = 0;  // in the piece

        String(std::string_view row, std::string_view string);
    };
    /// What is known of one number of all rows.
    struct Habit {
        bool varies = false;
        bool is_time = false;       // it always has as many digits as nanoseconds since 1970 have
        std::uint8_t decimals = 0;  // it always has so many; 0: it has any
    };

    void make_pieces();
    void add_piece(Piece piece, std::size_t begin, std::size_t end);
    [[nodiscard]] Chunk chunk_of(std::size_t begin, std::size_t end) const;
    [[nodiscard]] static Piece piece_before(const RowNumber& number, const Habit& habit);
    [[nodiscard]] static bool any(const Words& words) { return (words[0] | words[1]) != 0; }
    [[nodiscard]] static Words difference(const Chunk& chunk, const char* at);
    const char* read_anywhere(const char* at, Row& row);
    const char* read_with_sse(const char* at, Row& row);

    std::vector<Piece> pieces_;
    std::vector<Chunk> more_;  // of all pieces
    String name_;
    String group_;
    Row first_;                       // the row that it was made of, without its text
    std::string text_;                // of that row
    std::vector<RowNumber> numbers_;  // of that row
    std::vector<Habit> habits_;       // of its numbers
};

}  // namespace cep::analysis
