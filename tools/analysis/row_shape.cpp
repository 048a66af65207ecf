// SPDX-License-Identifier: Apache-2.0
#include "row_shape.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "json_scan.hpp"
#include "row_numbers.hpp"

namespace cep::analysis {
namespace {

constexpr std::size_t chunk_bytes = 16;

// The NULs behind the last row are no number, and so end the reading of a shape.
static_assert(RowShape::max_bytes + 64 <= RowParser::padding_bytes);
static_assert(std::is_trivially_copyable_v<Row>);

std::string_view text_of(std::string_view row, const RowNumber& number) {
    return row.substr(number.begin, number.end - number.begin);
}

// The text in front of the number `i`, or behind the last one.
std::string_view text_before(std::string_view row, std::span<const RowNumber> numbers, std::size_t i) {
    const std::size_t begin = i == 0 ? 0 : numbers[i - 1].end;
    return row.substr(begin, (i < numbers.size() ? numbers[i].begin : row.size()) - begin);
}

bool always_varies(RowKey key) {
    return key == RowKey::step || key == RowKey::start_ns || key == RowKey::duration_ms;
}

// How many there are in "-12.345"; 0 for a number of any other form.
std::uint8_t decimals_of(std::string_view number) {
    if (number.starts_with('-')) number.remove_prefix(1);
    const std::size_t point = number.find('.');
    if (point == std::string_view::npos || point > max_fixed_digits) return 0;
    const std::string_view decimals = number.substr(point + 1);
    const bool plain = decimals.find_first_not_of("0123456789") == std::string_view::npos;
    return plain && decimals.size() <= max_fixed_digits ? static_cast<std::uint8_t>(decimals.size()) : 0;
}

// As nanoseconds since 1970 are from 2001 to 2262.
bool has_digits_of_time(std::string_view number) {
    return number.size() == digits_of_time && number.find_first_not_of("0123456789") == number.npos &&
           number <= "9223372036854775807";
}

std::optional<std::int64_t> Row::*integer_of(RowKey key) {
    switch (key) {
        case RowKey::step:
            return &Row::step;
        case RowKey::rank:
            return &Row::rank;
        case RowKey::start_ns:
            return &Row::start_ns;
        case RowKey::seq:
            return &Row::seq;
        case RowKey::depth:
            return &Row::depth;
        case RowKey::stream:
            return &Row::stream;
        case RowKey::bytes:
            return &Row::bytes;
        case RowKey::coll:
            return &Row::coll;
        default:
            return nullptr;
    }
}

double Row::*decimal_of(RowKey key) {
    switch (key) {
        case RowKey::duration_ms:
            return &Row::duration_ms;
        case RowKey::elapsed_ms:
            return &Row::elapsed_ms;
        case RowKey::value:
            return &Row::value;
        default:
            return nullptr;
    }
}

}  // namespace

std::uint64_t RowShape::hash_of(std::string_view text, std::span<const RowNumber> numbers) {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
    std::uint64_t hash = numbers.size();
    for (std::size_t i = 0; i <= numbers.size(); ++i)
        for (const char letter : text_before(text, numbers, i))
            hash = (hash ^ static_cast<unsigned char>(letter)) * odd;
    return hash;
}

RowShape::String::String(std::string_view row, std::string_view string)
    : begin(string.empty() ? 0 : static_cast<std::uint32_t>(string.data() - row.data())),
      size(static_cast<std::uint32_t>(string.size())) {}

RowShape::RowShape(const Row& row, std::span<const RowNumber> numbers)
    : name_(row.text, row.name),
      group_(row.text, row.group),
      first_(row),
      text_(row.text),
      numbers_(numbers.begin(), numbers.end()) {
    first_.text = first_.name = first_.group = {};
    for (const RowNumber& number : numbers_) {
        const std::string_view text = text_of(text_, number);
        const std::uint8_t decimals = decimals_of(text);
        habits_.push_back({decimals > 0 || always_varies(number.key), has_digits_of_time(text), decimals});
    }
    make_pieces();
}

bool RowShape::include(std::string_view text, std::span<const RowNumber> numbers) {
    if (numbers.size() != numbers_.size()) return false;
    for (std::size_t i = 0; i <= numbers.size(); ++i)
        if (text_before(text_, numbers_, i) != text_before(text, numbers, i)) return false;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::string_view number = text_of(text, numbers[i]);
        Habit& habit = habits_[i];
        habit.varies |= number != text_of(text_, numbers_[i]);
        habit.is_time &= has_digits_of_time(number);
        if (decimals_of(number) != habit.decimals) habit.decimals = 0;
    }
    make_pieces();
    return true;
}

RowShape::Piece RowShape::piece_before(const RowNumber& number, const Habit& habit) {
    Piece piece;
    piece.decimals = habit.decimals;
    piece.integer = integer_of(number.key);
    piece.decimal = decimal_of(number.key);
    const bool fixed = habit.decimals > 0;
    if (piece.integer != nullptr) {
        piece.reading = habit.is_time ? Reading::time : Reading::integer;
    } else if (piece.decimal != nullptr) {
        piece.reading = fixed ? Reading::fixed : Reading::decimal;
    } else if (number.key == RowKey::lag_ms) {
        piece.reading = fixed ? Reading::lag_fixed : Reading::lag_decimal;
    } else {
        piece.reading = fixed ? Reading::skip_fixed : Reading::skip;
    }
    return piece;
}

void RowShape::add_piece(Piece piece, std::size_t begin, std::size_t end) {
    for (String* string : {&name_, &group_}) {
        if (string->size == 0 || string->begin < begin || string->begin >= end) continue;
        string->piece = static_cast<std::uint32_t>(pieces_.size());
        string->offset = static_cast<std::uint32_t>(string->begin - begin);
    }
    piece.size = static_cast<std::uint16_t>(end - begin);
    piece.first = chunk_of(begin, end);
    for (begin += chunk_bytes; begin < end; begin += chunk_bytes, ++piece.more) more_.push_back(chunk_of(begin, end));
    pieces_.push_back(piece);
}

RowShape::Chunk RowShape::chunk_of(std::size_t begin, std::size_t end) const {
    Chunk chunk;
    const std::size_t size = std::min(chunk_bytes, end - begin);
    std::memcpy(&chunk.text, text_.data() + begin, size);
    std::memset(&chunk.mask, 0xff, size);
    return chunk;
}

void RowShape::make_pieces() {
    pieces_.clear();
    more_.clear();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
        if (!habits_[i].varies) continue;
        add_piece(piece_before(numbers_[i], habits_[i]), begin, numbers_[i].begin);
        begin = numbers_[i].end;
    }
    add_piece({}, begin, text_.size());
}

namespace {

// Word by word: gcc copies a whole object of this size by an instruction that takes as long as reading two numbers.
template <std::size_t... i>
CEP_INLINE void copy_words(const char* from, char* to, std::index_sequence<i...>) {
    using Word [[gnu::vector_size(16), gnu::may_alias]] = std::uint64_t;
    const auto copy = [&](std::size_t at) {
        Word word{};
        std::memcpy(&word, from + at, sizeof word);
        std::memcpy(to + at, &word, sizeof word);
    };
    (copy(std::min(i * sizeof(Word), sizeof(Row) - sizeof(Word))), ...);
}

CEP_INLINE void copy_row(const Row& from, Row& to) {
    copy_words(reinterpret_cast<const char*>(&from), reinterpret_cast<char*>(&to),
               std::make_index_sequence<(sizeof(Row) + 15) / 16>());
}

}  // namespace

CEP_INLINE RowShape::Words RowShape::difference(const Chunk& chunk, const char* at) {
    Words words{};
    std::memcpy(&words, at, sizeof words);
    return (words ^ chunk.text) & chunk.mask;
}

#define CEP_TARGET
#define CEP_NUMBERS portable_numbers
#define CEP_READ read_anywhere
#include "row_shape_read.inc"
#undef CEP_READ
#undef CEP_NUMBERS
#undef CEP_TARGET

#if CEP_HAS_SSE

#define CEP_TARGET CEP_SSE
#define CEP_NUMBERS sse_numbers
#define CEP_READ read_with_sse
#include "row_shape_read.inc"
#undef CEP_READ
#undef CEP_NUMBERS
#undef CEP_TARGET

bool RowShape::has_sse() {
    return __builtin_cpu_supports("sse4.1") != 0;
}

#else

const char* RowShape::read_with_sse(const char* at, Row& row) {
    return read_anywhere(at, row);
}

bool RowShape::has_sse() {
    return false;
}

#endif

}  // namespace cep::analysis
