// SPDX-License-Identifier: Apache-2.0
//
// Row reader: RowParser, with a memory of the rows that it has parsed. Rows of a job look alike, so nearly all are read
// by the template of one before. Both agree on every row to the last bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "read/row.hpp"

namespace cep::tool {

/// A row that was parsed once, as literal text with numbers between it. Rows that differ from it in their numbers only
/// are read by it.
class RowTemplate {
  public:
    static constexpr std::size_t max_bytes = 640;  // of the row that it is made of

    /// nullptr for a row that RowParser is to read each time: one with escapes, repeated keys or values of a wrong
    /// type, with blanks around it, a very long one, and a run, stats or unknown row.
    [[nodiscard]] static std::unique_ptr<RowTemplate> of(const Row& row);
    /// A hash of the text without its numbers: the same of all rows that one template reads. A NUL must end the text.
    static std::uint64_t shape_of(const char* at);
    [[nodiscard]] std::uint64_t shape() const { return shape_of(all_.text.data()); }

    /// The row at `at`, if it is like this one and within its limits. The result is valid until the next call.
    /// RowParser::padding_bytes must be readable behind the text.
    [[nodiscard]] const Row* read(const char* at);

    std::array<RowTemplate*, 4> next{};  // of rows that came behind one of this template

  private:
    /// A number of row_, and its limits.
    template <typename Number>
    struct Target {
        Number* number = nullptr;  // nullptr: none
        Number least{};
        Number most{};

        [[nodiscard]] bool take(Number value) const {
            if (number == nullptr) return true;
            if (value < least || value > most) return false;
            *number = value;
            return true;
        }
    };

    /// Literal text, and the number behind it. At most one of the targets has a number; none for a number that is
    /// skipped, and for the end of the row.
    struct Piece {
        std::uint32_t begin = 0;  // in the text of its pattern
        std::uint32_t size = 0;
        bool has_many_digits = false;  // likely, as the row had that it is made of
        std::uint64_t last_mask = 0;   // selects what its last word has of the text
        Target<std::int64_t> integer{};
        Target<double> decimal{};
    };

    /// The text of a row, with room for a word more, and its pieces.
    struct Pattern {
        std::string text{};
        std::vector<Piece> pieces{};

        void set_text(std::string_view row);
        void add(Piece piece, std::size_t begin, std::size_t end);
    };

    static constexpr std::uint32_t least_rows_to_fold = 8;
    static constexpr std::uint32_t most_rows_to_fold = 1U << 20;

    explicit RowTemplate(const Row& row);
    bool find_pieces();
    void add_piece(std::size_t begin, std::size_t end, std::string_view key);
    const Row* read(const Pattern& pattern, const char* at);
    void fold();
    void unfold();
    static bool is_literal(const Piece& piece, const char* text, const char* at);
    static const char* read_number(const Piece& piece, const char* at);

    Row row_;                 // what all rows have in common, and the numbers of the last one
    Pattern all_;             // of the row that it was made of
    Pattern folded_;          // of a later row: numbers that were the same some rows before are literal text
    std::uint32_t rows_ = 1;  // since folded_ got its text, with that one
    std::uint32_t rows_to_fold_ = least_rows_to_fold;
};

/// One a thread. Each row is valid until the next call.
class RowReader {
  public:
    /// Reads the row that begins at `at` if it is like one that was parsed, up to and with its last brace; else returns
    /// nullptr. A NUL must end the bytes, and RowParser::padding_bytes must be readable behind it.
    const Row* scan(const char* at);
    /// Parses one JSON object as RowParser does.
    const Row* parse(std::string_view text);
    [[nodiscard]] const std::string& why() const { return parser_.why(); }

  private:
    static constexpr std::size_t max_templates = 2048;

    [[gnu::noinline]] const Row* search(const char* at);
    void follow(RowTemplate& found);
    void learn(const Row& row);
    void forget();

    RowParser parser_;
    std::unordered_map<std::uint64_t, std::unique_ptr<RowTemplate>> templates_;  // by shape
    RowTemplate* last_ = nullptr;
    std::uint64_t hits_ = 0;       // since templates were last forgotten
    std::uint32_t rows_idle_ = 0;  // rows that are not learnt
};

}  // namespace cep::tool
