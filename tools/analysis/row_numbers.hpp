// SPDX-License-Identifier: Apache-2.0
//
// Row numbers: the usual forms of the numbers in rows. Each function takes the first byte of a number and returns the
// byte behind it, or nullptr where the number has another form; then what it read means nothing. At least 32 bytes must
// be readable there.
//
// Where a number ends, and so all that is behind it in a row, is known only when its digits have been looked at. So a
// function is told how many digits the number had the last time: mostly it has as many again, and while the processor
// makes sure of that, it goes on with what is behind. `digits` is of those in front of the point, and is corrected.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "json_scan.hpp"

#if defined(__x86_64__)
#define CEP_HAS_SSE 1
#include <immintrin.h>
#else
#define CEP_HAS_SSE 0
#endif

namespace cep::analysis {

/// Of nanoseconds since 1970, from 2001 to 2286.
inline constexpr unsigned digits_of_time = 19;
/// On either side of the point, in a number with a fixed count of decimals.
inline constexpr unsigned max_fixed_digits = 7;

// A quotient of two integers that doubles hold exactly is rounded once, and so right (Clinger, PLDI 1990).
CEP_INLINE double value_of_fixed(std::uint64_t digits, unsigned decimals, bool negative) {
    const double value = static_cast<double>(static_cast<std::int64_t>(digits)) / json::exact_powers[decimals];
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ static_cast<std::uint64_t>(negative) << 63);
}

/// Eight digits at a time, as bytes of a word.
namespace portable_numbers {

/// The digits at the low end of a word, as numbers at its high end. Sets bits of `wrong` where one is none.
CEP_INLINE std::uint64_t digits_of(std::uint64_t word, unsigned count, std::uint64_t& wrong) {
    const std::uint64_t digits = (word ^ ('0' * json::every_byte)) << (64 - 8 * count);
    wrong |= ((digits + (0x80 - 10) * json::every_byte) | digits) & json::high_bits;
    return digits;
}

CEP_INLINE std::uint64_t number_at(const char* at, unsigned count, std::uint64_t& wrong) {
    return json::number_of_digits(digits_of(json::load(at), count, wrong));
}

CEP_INLINE const char* read_time(const char* at, std::int64_t& out) {
    std::uint64_t wrong = *at == '0';
    const std::uint64_t high = number_at(at, 8, wrong);
    const std::uint64_t middle = number_at(at + 8, 8, wrong);
    const std::uint64_t low = number_at(at + 16, digits_of_time - 16, wrong);
    const std::uint64_t time =
        (high * json::powers_of_ten[8] + middle) * json::powers_of_ten[digits_of_time - 16] + low;
    out = static_cast<std::int64_t>(time);
    return (wrong | time >> 63) == 0 ? at + digits_of_time : nullptr;
}

CEP_INLINE const char* read_integer(const char* at, std::uint8_t& digits, std::int64_t& out) {
    const std::uint64_t word = json::load(at);
    const unsigned count = json::leading_digits(word);
    if (count != digits || !json::is_short_whole(word, digits)) {
        digits = static_cast<std::uint8_t>(count);
        return json::read_integer(at, out);
    }
    out = static_cast<std::int64_t>(json::number_of(word, digits));
    return at + digits;
}

/// Passes the sign, and sees to `digits`.
CEP_INLINE const char* find_fixed(const char* at, std::uint8_t& digits, bool& negative) {
    const unsigned count = json::leading_digits(json::load(at));
    if (count == digits) return at;
    negative = *at == '-';
    at += negative;
    digits = static_cast<std::uint8_t>(negative ? json::leading_digits(json::load(at)) : count);
    return at;
}

// Without a branch on a digit, of which nobody knows the next one.
CEP_INLINE bool is_fixed(const char* at, unsigned digits) {
    const unsigned leading_zero = static_cast<unsigned>(*at == '0') & static_cast<unsigned>(digits > 1);
    return digits - 1 < max_fixed_digits && (leading_zero | static_cast<unsigned char>(at[digits] ^ '.')) == 0;
}

CEP_INLINE const char* read_fixed(const char* at, std::uint8_t& digits, unsigned decimals, double& out) {
    bool negative = false;
    at = find_fixed(at, digits, negative);
    if (!is_fixed(at, digits)) return nullptr;
    std::uint64_t wrong = 0;
    const std::uint64_t fraction = number_at(at + digits + 1, decimals, wrong);
    const std::uint64_t whole = json::number_of(json::load(at), digits);
    out = value_of_fixed(whole * json::powers_of_ten[decimals] + fraction, decimals, negative);
    return wrong == 0 ? at + digits + 1 + decimals : nullptr;
}

CEP_INLINE const char* skip_fixed(const char* at, std::uint8_t& digits, unsigned decimals) {
    bool negative = false;
    at = find_fixed(at, digits, negative);
    if (!is_fixed(at, digits)) return nullptr;
    std::uint64_t wrong = 0;
    digits_of(json::load(at + digits + 1), decimals, wrong);
    return wrong == 0 ? at + digits + 1 + decimals : nullptr;
}

}  // namespace portable_numbers

#if CEP_HAS_SSE
#define CEP_SSE [[gnu::target("sse4.1")]]
#define CEP_SSE_INLINE [[gnu::target("sse4.1"), gnu::always_inline]] inline

/// Sixteen digits at a time, as bytes of a register. For machines that have SSE 4.1.
namespace sse_numbers {

using Bytes = std::array<std::uint8_t, 16>;
inline constexpr std::uint8_t zero = 0x80;  // in place of an index

// By decimals and digits in front of the point: the latter go to the end of the low half, the former to that of the
// high half.
alignas(16) inline constexpr auto fixed_indices = [] {
    std::array<std::array<Bytes, max_fixed_digits + 1>, max_fixed_digits + 1> all{};
    for (unsigned decimals = 0; decimals <= max_fixed_digits; ++decimals)
        for (unsigned whole = 0; whole <= max_fixed_digits; ++whole) {
            Bytes& indices = all[decimals][whole];
            indices.fill(zero);
            for (unsigned i = 0; i < whole; ++i) indices[8 - whole + i] = static_cast<std::uint8_t>(i);
            for (unsigned i = 0; i < decimals; ++i)
                indices[16 - decimals + i] = static_cast<std::uint8_t>(whole + 1 + i);
        }
    return all;
}();

// From the place `count` on: the indices that move so many digits to the end of a register.
inline constexpr auto end_indices = [] {
    std::array<std::uint8_t, 32> all{};
    all.fill(zero);
    for (unsigned i = 0; i < 16; ++i) all[16 + i] = static_cast<std::uint8_t>(i);
    return all;
}();

struct Text {
    __m128i digits;  // as numbers, where they are some
    unsigned are_digits;
    unsigned count;  // of those in front
};

CEP_SSE_INLINE __m128i load(const void* at) {
    return _mm_loadu_si128(static_cast<const __m128i*>(at));
}

CEP_SSE_INLINE Text text_at(const char* at) {
    const __m128i digits = _mm_sub_epi8(load(at), _mm_set1_epi8('0'));
    const __m128i are_digits = _mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits);
    const auto bits = static_cast<unsigned>(_mm_movemask_epi8(are_digits));
    return {digits, bits, static_cast<unsigned>(std::countr_zero(~bits))};
}

/// The numbers that each eight of sixteen digits make: the first one in the low half.
CEP_SSE_INLINE std::uint64_t numbers_of(__m128i digits) {
    const __m128i twos = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010a));   // times 10 and 1
    const __m128i fours = _mm_madd_epi16(twos, _mm_set1_epi32(0x0001'0064));  // 100 and 1
    const __m128i packed = _mm_packus_epi32(fours, fours);
    const __m128i eights = _mm_madd_epi16(packed, _mm_set1_epi32(0x0001'2710));  // 10,000 and 1
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(eights));
}

CEP_SSE_INLINE std::uint64_t joined(std::uint64_t numbers, unsigned digits_of_second) {
    return (numbers & UINT32_MAX) * json::powers_of_ten[digits_of_second] + (numbers >> 32);
}

CEP_SSE_INLINE const char* read_time(const char* at, std::int64_t& out) {
    const Text text = text_at(at);
    std::uint64_t wrong = *at == '0';
    const std::uint64_t low = portable_numbers::number_at(at + 16, digits_of_time - 16, wrong);
    const std::uint64_t time = joined(numbers_of(text.digits), 8) * json::powers_of_ten[digits_of_time - 16] + low;
    out = static_cast<std::int64_t>(time);
    return (wrong | time >> 63) == 0 && text.count == 16 ? at + digits_of_time : nullptr;
}

CEP_SSE_INLINE const char* read_integer(const char* at, std::uint8_t& digits, std::int64_t& out) {
    const Text text = text_at(at);
    const unsigned leading_zero = static_cast<unsigned>(*at == '0') & static_cast<unsigned>(digits > 1);
    if (text.count != digits || digits - 1U >= 15 || leading_zero != 0) {
        digits = static_cast<std::uint8_t>(text.count);
        return json::read_integer(at, out);
    }
    out = static_cast<std::int64_t>(
        joined(numbers_of(_mm_shuffle_epi8(text.digits, load(end_indices.data() + digits))), 8));
    return at + digits;
}

CEP_SSE_INLINE bool is_fixed(const char* at, const Text& text, unsigned digits, unsigned decimals) {
    const unsigned are_digits = text.are_digits >> (digits + 1);
    return portable_numbers::is_fixed(at, digits) && (~are_digits & ((1U << decimals) - 1)) == 0;
}

/// Passes the sign, and sees to `digits`.
CEP_SSE_INLINE const char* find_fixed(const char* at, std::uint8_t& digits, Text& text, bool& negative) {
    text = text_at(at);
    if (text.count == digits) return at;
    negative = *at == '-';
    at += negative;
    if (negative) text = text_at(at);
    digits = static_cast<std::uint8_t>(text.count);
    return at;
}

CEP_SSE_INLINE const char* read_fixed(const char* at, std::uint8_t& digits, unsigned decimals, double& out) {
    bool negative = false;
    Text text;
    at = find_fixed(at, digits, text, negative);
    if (!is_fixed(at, text, digits, decimals)) return nullptr;
    const std::uint64_t numbers = numbers_of(_mm_shuffle_epi8(text.digits, load(&fixed_indices[decimals][digits])));
    out = value_of_fixed(joined(numbers, decimals), decimals, negative);
    return at + digits + 1 + decimals;
}

CEP_SSE_INLINE const char* skip_fixed(const char* at, std::uint8_t& digits, unsigned decimals) {
    bool negative = false;
    Text text;
    at = find_fixed(at, digits, text, negative);
    return is_fixed(at, text, digits, decimals) ? at + digits + 1 + decimals : nullptr;
}

}  // namespace sse_numbers
#endif

}  // namespace cep::analysis
