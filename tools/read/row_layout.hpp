// SPDX-License-Identifier: Apache-2.0
//
// Row layout: rows that differ in nothing but the digits of some numbers, so that each byte has its place. A row is
// compared with what may be there, 16 bytes at a time, and then its numbers are read from where they must be.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

// Inlined: a call and its spilled registers cost as much as reading a number.
#define CEP_INLINE [[gnu::always_inline]] inline

namespace cep::tool {

/// A number that differs from row to row, and where its value goes; both pointers are null for a number that is
/// skipped.
struct RowField {
    std::uint32_t begin = 0;  // in the text of the row
    std::uint32_t end = 0;
    std::int64_t* integer = nullptr;
    double* decimal = nullptr;
    bool may_be_negative = false;
    double max = std::numeric_limits<double>::max();  // of its magnitude
};

class RowLayout {
  public:
    /// The first byte of a text must be the lowest of a word.
    static constexpr bool usable = std::endian::native == std::endian::little;

    /// Makes the layout of a valid row. Returns nothing if a number has a form that layouts do not read, or if other
    /// digits in its place could exceed its limit. Fields are in the order of the text.
    [[nodiscard]] static std::optional<RowLayout> of(std::string_view row, std::span<const RowField> fields);

    /// The bytes that must be readable from the begin of a row.
    [[nodiscard]] static constexpr std::size_t readable_bytes(std::size_t row_bytes) { return row_bytes + quad_bytes; }
    [[nodiscard]] std::size_t size() const { return size_; }
    /// Reads the row at `at` and stores its numbers. False if it has another layout.
    CEP_INLINE bool read(const char* at) const {
        if (!is_row(at)) return false;
        read_numbers(at);
        return true;
    }

  private:
    using Bytes [[gnu::vector_size(16)]] = std::uint8_t;
    static constexpr std::size_t quad_bytes = 4 * sizeof(Bytes);

    /// The values that 16 bytes may have: the first of each, and how many more.
    struct Range {
        Bytes first{};
        Bytes more{};
    };
    /// The digits of a number, at the ends of two words. The mask keeps the values of the digits and clears all other
    /// bytes.
    struct Digits {
        Bytes mask{};
        std::uint64_t unit_of_first = 0;  // of the first word, in units of the second
        std::uint16_t first_end = 0;
        std::uint16_t second_end = 0;
    };
    struct Integer {
        Digits digits;
        std::uint64_t base = 0;  // the value of digits in front of these, which are compared as text
        std::int64_t* out = nullptr;
    };
    struct Decimal {
        Digits digits;
        double divisor = 1;  // negative for a negative number
        double* out = nullptr;
    };
    /// A number of more digits than a double holds exactly, as Python writes them.
    struct LongDecimal {
        std::uint16_t begin = 0;
        std::uint16_t end = 0;
        double* out = nullptr;
    };

    RowLayout() = default;
    void set_text(std::string_view row);
    void set_byte(std::size_t place, char first, char last);
    bool add(std::string_view row, const RowField& field);
    bool add_integer(std::string_view number, const RowField& field);
    bool add_decimal(std::string_view number, std::size_t begin, bool negative, const RowField& field);
    bool add_skipped(std::string_view number, std::size_t begin);
    void set_digits(std::size_t begin, std::size_t end, bool may_begin_with_zero);
    static bool set_places(Digits& digits, std::size_t first, std::size_t first_end, std::size_t second,
                           std::size_t second_end);
    static bool set_whole(Digits& digits, std::size_t begin, std::size_t end);

    static std::uint64_t load(const char* at) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        return word;
    }
    CEP_INLINE static Bytes excess(const Range& range, const char* at);
    CEP_INLINE static std::uint64_t number_of(std::uint64_t digits);
    CEP_INLINE static std::uint64_t number_of(const Digits& digits, const char* at);
    static void read_long(const LongDecimal& decimal, const char* at);
    [[nodiscard]] CEP_INLINE bool is_row(const char* at) const;
    CEP_INLINE void read_numbers(const char* at) const;

    std::size_t size_ = 0;
    std::uint64_t tail_ = 0;  // the last word of a row, without its digits
    std::uint64_t tail_mask_ = 0;
    std::vector<Range> ranges_;  // a multiple of four
    std::vector<Integer> integers_;
    std::vector<Decimal> decimals_;
    std::vector<LongDecimal> long_decimals_;
};

// Called for every row, so defined here to be inlined.

// Not zero where a byte is out of its range.
CEP_INLINE RowLayout::Bytes RowLayout::excess(const Range& range, const char* at) {
    Bytes bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    const Bytes more = bytes - range.first;
    return (more < range.more ? more : range.more) ^ more;
}

CEP_INLINE bool RowLayout::is_row(const char* at) const {
    if (((load(at + size_ - sizeof tail_) ^ tail_) & tail_mask_) != 0) return false;
    Bytes wrong{};
    const Range* range = ranges_.data();
    const Range* const end = range + ranges_.size();
    do {
        wrong |= excess(range[0], at) | excess(range[1], at + 1 * sizeof(Bytes));
        wrong |= excess(range[2], at + 2 * sizeof(Bytes)) | excess(range[3], at + 3 * sizeof(Bytes));
        range += 4;
        at += quad_bytes;
    } while (range != end);
    using Words [[gnu::vector_size(16)]] = std::uint64_t;
    const auto words = reinterpret_cast<Words>(wrong);
    return (words[0] | words[1]) == 0;
}

// Combines digits to pairs, pairs to fours, fours to eight.
CEP_INLINE std::uint64_t RowLayout::number_of(std::uint64_t digits) {
    constexpr std::uint64_t pairs = 0x000000ff000000ffU;
    constexpr std::uint64_t first = 100 + (std::uint64_t{1'000'000} << 32);
    constexpr std::uint64_t second = 1 + (std::uint64_t{10'000} << 32);
    digits = digits * 10 + (digits >> 8);
    return ((digits & pairs) * first + ((digits >> 16) & pairs) * second) >> 32;
}

CEP_INLINE std::uint64_t RowLayout::number_of(const Digits& digits, const char* at) {
    const char* const first = at + digits.first_end - 8;
    const char* const second = at + digits.second_end - 8;
    using Words [[gnu::vector_size(16)]] = std::uint64_t;
    const auto masks = reinterpret_cast<Words>(digits.mask);
    return number_of(load(first) & masks[0]) * digits.unit_of_first + number_of(load(second) & masks[1]);
}

CEP_INLINE void RowLayout::read_numbers(const char* at) const {
    for (const Integer& integer : integers_)
        *integer.out = static_cast<std::int64_t>(integer.base + number_of(integer.digits, at));
    // Dividend and divisor are exact, so the quotient is rounded once, correctly (Clinger, PLDI 1990).
    for (const Decimal& decimal : decimals_)
        *decimal.out = static_cast<double>(static_cast<std::int64_t>(number_of(decimal.digits, at))) / decimal.divisor;
    for (const LongDecimal& decimal : long_decimals_) read_long(decimal, at);
}

}  // namespace cep::tool
