// SPDX-License-Identifier: Apache-2.0
//
// Scanning single JSON values, eight bytes at a time. Each function takes the first byte of a value and returns the
// byte behind it, or nullptr where the value is not valid or not plain enough. Bytes must end with a NUL, and at least
// seven more must be readable behind it. What follows a value is for the caller to look at.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

// A call and its spilt registers take as long as reading a value.
#define CEP_INLINE [[gnu::always_inline]] inline

namespace cep::tool::json {

// The first byte of a text must be the lowest of a word.
inline constexpr bool scannable = std::endian::native == std::endian::little;

inline constexpr std::uint64_t every_byte = 0x0101010101010101U;
inline constexpr std::uint64_t high_bits = 0x80 * every_byte;

inline std::uint64_t load(const char* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
}

// In the next two, the lowest high bit that is set is right; those above it may be set for nothing.
constexpr std::uint64_t bytes_equal(std::uint64_t word, unsigned char byte) {
    const std::uint64_t difference = word ^ (byte * every_byte);
    return (difference - every_byte) & ~difference & high_bits;
}
constexpr std::uint64_t bytes_less(std::uint64_t word, unsigned char limit) {
    return (word - limit * every_byte) & ~word & high_bits;
}
constexpr unsigned first_byte(std::uint64_t bits) {
    return static_cast<unsigned>(std::countr_zero(bits)) / 8;
}

constexpr unsigned leading_digits(std::uint64_t word) {
    const std::uint64_t values = word ^ ('0' * every_byte);
    const std::uint64_t others = ((values + (0x80 - 10) * every_byte) | values) & high_bits;
    return others == 0 ? 8 : first_byte(others);
}

/// The number that eight digits make, a byte each.
CEP_INLINE constexpr std::uint64_t number_of_digits(std::uint64_t digits) {
    // Neighbours are joined: digits to pairs, pairs to fours, fours to eight.
    constexpr std::uint64_t pairs = 0x000000ff000000ffU;
    constexpr std::uint64_t first = 100 + (std::uint64_t{1'000'000} << 32);
    constexpr std::uint64_t second = 1 + (std::uint64_t{10'000} << 32);
    digits = digits * 10 + (digits >> 8);
    return ((digits & pairs) * first + ((digits >> 16) & pairs) * second) >> 32;
}
/// The number that `count` digits (1 to 8) at the low end of a word write.
CEP_INLINE constexpr std::uint64_t number_of(std::uint64_t word, unsigned count) {
    return number_of_digits((word - ('0' * every_byte)) << (64 - 8 * count));
}

inline constexpr std::array<std::uint64_t, 20> powers_of_ten = [] {
    std::array<std::uint64_t, 20> powers{1};
    for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
    return powers;
}();

// The usual values are read in place: of short numbers the first word tells all. Everything else is in the functions
// named _slowly.
/// What is true of `digits` leading digits of a word: there are some, more than these do not follow, and no zero
/// comes before others.
CEP_INLINE bool is_short_whole(std::uint64_t word, unsigned digits) {
    return digits - 1 < 7 && ((word & 0xff) != '0' || digits == 1);
}
CEP_INLINE bool ends_number(char c) {
    return c == ',' || c == '}';
}

const char* read_integer_slowly(const char* at, std::int64_t& out);
const char* read_double_slowly(const char* at, double& out);
const char* skip_number_slowly(const char* at);
const char* read_string_slowly(const char* at, std::string_view& out);
const char* skip_nested_value(const char* at);

/// Of 17 to 19 digits, as nanoseconds since 1970 are.
CEP_INLINE const char* read_long_integer(const char* at, std::int64_t& out) {
    const std::uint64_t second = load(at + 8);
    const std::uint64_t third = load(at + 16);
    const unsigned more = leading_digits(third);
    if (leading_digits(second) < 8 || more - 1 >= 3) return read_integer_slowly(at, out);
    const std::uint64_t high = number_of(load(at), 8) * powers_of_ten[8] + number_of(second, 8);
    const std::uint64_t number = high * powers_of_ten[more] + number_of(third, more);
    out = static_cast<std::int64_t>(number);
    return number <= INT64_MAX ? at + 16 + more : nullptr;
}

CEP_INLINE const char* read_integer(const char* at, std::int64_t& out) {
    const std::uint64_t word = load(at);
    const unsigned digits = leading_digits(word);
    if (digits == 8 && (word & 0xff) != '0') return read_long_integer(at, out);
    if (!is_short_whole(word, digits)) return read_integer_slowly(at, out);
    out = static_cast<std::int64_t>(number_of(word, digits));
    return at + digits;
}

inline constexpr std::array<double, 8> exact_powers = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};

// A quotient of two integers that doubles hold exactly is rounded once, and so right (Clinger, PLDI 1990).
CEP_INLINE const char* read_double(const char* at, double& out) {
    const std::uint64_t whole_word = load(at);
    const unsigned whole = leading_digits(whole_word);
    if (!is_short_whole(whole_word, whole) || at[whole] != '.') return read_double_slowly(at, out);
    const std::uint64_t word = load(at + whole + 1);
    const unsigned digits = leading_digits(word);
    const char* const end = at + whole + 1 + digits;
    if (digits - 1 >= 7 || !ends_number(*end)) return read_double_slowly(at, out);
    const std::uint64_t number = number_of(whole_word, whole) * powers_of_ten[digits] + number_of(word, digits);
    out = static_cast<double>(static_cast<std::int64_t>(number)) / exact_powers[digits];
    return end;
}

CEP_INLINE const char* skip_number(const char* at) {
    const std::uint64_t whole_word = load(at);
    const unsigned whole = leading_digits(whole_word);
    if (!is_short_whole(whole_word, whole)) return skip_number_slowly(at);
    if (ends_number(at[whole])) return at + whole;
    const unsigned digits = leading_digits(load(at + whole + 1));
    const char* const end = at + whole + 1 + digits;
    return at[whole] == '.' && digits - 1 < 7 && ends_number(*end) ? end : skip_number_slowly(at);
}

/// A string of ASCII and no escapes, with its quotes.
CEP_INLINE const char* read_string(const char* at, std::string_view& out) {
    if (*at != '"') return nullptr;
    const char* const begin = at + 1;
    for (const char* word_at = begin;; word_at += 8) {
        const std::uint64_t word = load(word_at);
        const std::uint64_t quotes = bytes_equal(word, '"');
        const std::uint64_t stops = quotes | bytes_equal(word, '\\') | bytes_less(word, ' ') | (word & high_bits);
        if (stops == 0) continue;
        const char* const end = word_at + first_byte(stops);
        if (*end != '"') return read_string_slowly(at, out);
        out = {begin, static_cast<std::size_t>(end - begin)};
        return end + 1;
    }
}

/// Any value on one line that is not nested deeply.
CEP_INLINE const char* skip_value(const char* at) {
    std::string_view text;
    if (static_cast<unsigned char>(*at - '0') < 10) return skip_number(at);
    return *at == '"' ? read_string(at, text) : skip_nested_value(at);
}

inline bool is_blank(char c) {
    return c == ' ' || c == '\t';
}
inline const char* skip_blanks(const char* at) {
    while (is_blank(*at)) ++at;
    return at;
}

inline bool is_null(const char* at) {
    return std::memcmp(at, "null", 4) == 0;
}

}  // namespace cep::tool::json
