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

// CEP_PORTABLE is for the test of what other machines run.
#if defined(__SSE2__) && !defined(CEP_PORTABLE)
#define CEP_HAS_SSE2 true
#include <emmintrin.h>
#else
#define CEP_HAS_SSE2 false
#endif

// A call and its spilt registers take as long as reading a value.
#define CEP_INLINE [[gnu::always_inline]] inline

namespace cep::tool {

/// A number that differs from row to row, and where it goes; nullptr for one that nobody needs.
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

    /// Of a valid row; none where one of its numbers is not plain, or where other digits could exceed its limit. The
    /// fields go in the order of the text.
    [[nodiscard]] static std::optional<RowLayout> of(std::string_view row, std::span<const RowField> fields);

    /// How many bytes must be readable from the begin of any row.
    [[nodiscard]] static constexpr std::size_t readable_bytes(std::size_t row_bytes) { return row_bytes + quad_bytes; }
    [[nodiscard]] std::size_t size() const { return size_; }
    /// Whether the bytes at `at` are a row of this layout; then its numbers are where they go.
    CEP_INLINE bool read(const char* at) const {
        if (!is_row(at)) return false;
        read_numbers(at);
        return true;
    }

  private:
    using Bytes [[gnu::vector_size(16)]] = std::uint8_t;
    static constexpr std::size_t quad_bytes = 4 * sizeof(Bytes);

    /// What each of some bytes may be: the first value, and how many more.
    struct Range {
        Bytes first{};
        Bytes more{};
    };
    /// The digits of a number, in the last bytes of two words. The mask leaves of each the value, and of all other
    /// bytes nothing.
    struct Digits {
        Bytes mask{};
        std::uint64_t unit_of_first = 0;  // of the first word, in units of the second
        std::uint16_t first_end = 0;
        std::uint16_t second_end = 0;
    };
    struct Integer {
        Digits digits;
        std::uint64_t base = 0;  // of digits in front of these, which are text like any other
        std::int64_t* out = nullptr;
    };
    struct Decimal {
        Digits digits;
        double divisor = 1;  // negative for a number that is
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
    std::uint64_t tail_ = 0;  // the last word of a row, but for its digits
    std::uint64_t tail_mask_ = 0;
    std::vector<Range> ranges_;  // a multiple of four
    std::vector<Integer> integers_;
    std::vector<Decimal> decimals_;
    std::vector<LongDecimal> long_decimals_;
};

// The rest is here and not in the source, as it is called for every row.

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

// Neighbours are joined: digits to pairs, pairs to fours, fours to eight.
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
#if CEP_HAS_SSE2
    const __m128i text = _mm_castpd_si128(
        _mm_loadh_pd(_mm_load_sd(reinterpret_cast<const double*>(first)), reinterpret_cast<const double*>(second)));
    const __m128i values = _mm_and_si128(text, reinterpret_cast<__m128i>(digits.mask));
    const __m128i units = _mm_set_epi16(1, 10, 100, 1000, 1, 10, 100, 1000);
    const __m128i of_first = _mm_madd_epi16(_mm_unpacklo_epi8(values, _mm_setzero_si128()), units);
    const __m128i of_second = _mm_madd_epi16(_mm_unpackhi_epi8(values, _mm_setzero_si128()), units);
    const __m128i fours =
        _mm_madd_epi16(_mm_packs_epi32(of_first, of_second), _mm_set_epi16(1, 1, 10'000, 10'000, 1, 1, 10'000, 10'000));
    const __m128i eights = _mm_add_epi32(fours, _mm_srli_epi64(fours, 32));
    const auto both = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_shuffle_epi32(eights, 0b1000)));
    return (both & UINT32_MAX) * digits.unit_of_first + (both >> 32);
#else
    using Words [[gnu::vector_size(16)]] = std::uint64_t;
    const auto masks = reinterpret_cast<Words>(digits.mask);
    return number_of(load(first) & masks[0]) * digits.unit_of_first + number_of(load(second) & masks[1]);
#endif
}

CEP_INLINE void RowLayout::read_numbers(const char* at) const {
    for (const Integer& integer : integers_)
        *integer.out = static_cast<std::int64_t>(integer.base + number_of(integer.digits, at));
    // Both are exact, so that their quotient is rounded once, and right (Clinger, PLDI 1990).
    for (const Decimal& decimal : decimals_)
        *decimal.out = static_cast<double>(static_cast<std::int64_t>(number_of(decimal.digits, at))) / decimal.divisor;
    for (const LongDecimal& decimal : long_decimals_) read_long(decimal, at);
}

}  // namespace cep::tool
