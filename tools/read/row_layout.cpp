// SPDX-License-Identifier: Apache-2.0
#include "read/row_layout.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace cep::tool {
namespace {

constexpr std::size_t word_digits = 8;
constexpr std::size_t read_digits = 2 * word_digits;
constexpr std::size_t max_integer_digits = 19;  // of UNIX times in nanoseconds
constexpr std::size_t max_exact_digits = 15;    // of an integer that a double holds
constexpr std::array<double, 8> exact_powers = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};
constexpr std::size_t max_decimals = exact_powers.size() - 1;
constexpr std::size_t max_long_decimals = 32;   // far from underflow
constexpr std::size_t max_skipped_digits = 18;  // so many digits fit 64 bits

constexpr std::array<std::uint64_t, 20> powers_of_ten = [] {
    std::array<std::uint64_t, 20> powers{1};
    for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
    return powers;
}();

// Selects the last digits of a word.
constexpr std::uint64_t mask_of(std::size_t digits) {
    return digits == 0 ? 0 : 0x0f0f0f0f0f0f0f0fU << (8 * (word_digits - digits));
}

bool are_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

void RowLayout::set_byte(std::size_t place, char first, char last) {
    Range& range = ranges_[place / sizeof(Bytes)];
    const std::size_t i = place % sizeof(Bytes);
    range.first[i] = static_cast<std::uint8_t>(first);
    range.more[i] = static_cast<std::uint8_t>(last - first);
}

void RowLayout::set_text(std::string_view row) {
    size_ = row.size();
    const std::size_t quads = (row.size() + quad_bytes - 1) / quad_bytes;
    Range any;
    any.more |= UINT8_MAX;
    ranges_.assign(4 * quads, any);
    for (std::size_t i = 0; i < row.size(); ++i) set_byte(i, row[i], row[i]);
    std::memcpy(&tail_, row.data() + row.size() - sizeof tail_, sizeof tail_);
    tail_mask_ = UINT64_MAX;
}

// JSON: a whole part of several digits does not begin with a zero.
void RowLayout::set_digits(std::size_t begin, std::size_t end, bool may_begin_with_zero) {
    for (std::size_t i = begin; i < end; ++i) {
        const bool not_zero = i == begin && !may_begin_with_zero && end - begin > 1;
        set_byte(i, not_zero ? '1' : '0', '9');
        if (const std::size_t from_end = size_ - i; from_end <= sizeof tail_)
            tail_mask_ &= ~(std::uint64_t{UINT8_MAX} << (8 * (sizeof tail_ - from_end)));
    }
}

// `first` digits up to one place and `second` ones up to another, of which none may be in front of the row's second
// word.
bool RowLayout::set_places(Digits& digits, std::size_t first, std::size_t first_end, std::size_t second,
                           std::size_t second_end) {
    if (first_end < word_digits || second_end < word_digits) return false;
    const std::array<std::uint64_t, 2> masks = {mask_of(first), mask_of(second)};
    static_assert(sizeof masks == sizeof digits.mask);
    std::memcpy(&digits.mask, masks.data(), sizeof masks);
    digits.first_end = static_cast<std::uint16_t>(first_end);
    digits.second_end = static_cast<std::uint16_t>(second_end);
    return true;
}

bool RowLayout::set_whole(Digits& digits, std::size_t begin, std::size_t end) {
    const std::size_t second = std::min(end - begin, word_digits);
    const std::size_t first = end - begin - second;
    digits.unit_of_first = powers_of_ten[word_digits];
    return set_places(digits, first, first > 0 ? end - word_digits : end, second, end);
}

bool RowLayout::add_integer(std::string_view number, const RowField& field) {
    std::size_t begin = field.begin;
    const std::size_t end = field.end;
    if (!are_digits(number) || number.size() > max_integer_digits) return false;
    Integer integer;
    integer.out = field.integer;
    if (number.size() > read_digits) {
        // The first digits of a UNIX time in ns change every few months only: they are compared as text.
        const std::size_t in_front = number.size() - read_digits;
        for (const char digit : number.substr(0, in_front))
            integer.base = 10 * integer.base + static_cast<std::uint64_t>(digit - '0');
        integer.base *= powers_of_ten[read_digits];
        begin += in_front;
        set_digits(begin, end, true);
    } else {
        set_digits(begin, end, false);
    }
    const std::uint64_t beyond = integer.base + powers_of_ten[end - begin];
    if (static_cast<double>(beyond) > std::min(field.max, static_cast<double>(INT64_MAX))) return false;
    if (!set_whole(integer.digits, begin, end)) return false;
    integers_.push_back(integer);
    return true;
}

bool RowLayout::add_decimal(std::string_view number, std::size_t begin, bool negative, const RowField& field) {
    const std::size_t end = begin + number.size();
    const std::size_t whole = std::min(number.find('.'), number.size());
    if (!are_digits(number.substr(0, whole)) || whole > max_exact_digits) return false;
    if (static_cast<double>(powers_of_ten[whole]) > field.max) return false;
    Decimal decimal;
    decimal.out = field.decimal;
    set_digits(begin, begin + whole, false);
    if (whole == number.size()) {
        if (negative || !set_whole(decimal.digits, begin, end)) return false;
        decimals_.push_back(decimal);
        return true;
    }
    const std::size_t decimals = number.size() - whole - 1;
    if (!are_digits(number.substr(whole + 1)) || decimals > max_long_decimals) return false;
    set_digits(end - decimals, end, true);
    if (whole > word_digits || decimals > max_decimals) {
        long_decimals_.push_back(
            {static_cast<std::uint16_t>(field.begin), static_cast<std::uint16_t>(end), field.decimal});
        return true;
    }
    static_assert(word_digits + max_decimals <= max_exact_digits);
    if (!set_places(decimal.digits, whole, begin + whole, decimals, end)) return false;
    decimal.digits.unit_of_first = powers_of_ten[decimals];
    decimal.divisor = negative ? -exact_powers[decimals] : exact_powers[decimals];
    decimals_.push_back(decimal);
    return true;
}

void RowLayout::read_long(const LongDecimal& decimal, const char* at) {
    std::from_chars(at + decimal.begin, at + decimal.end, *decimal.out);
}

bool RowLayout::add_skipped(std::string_view number, std::size_t begin) {
    const std::size_t whole = std::min(number.find('.'), number.size());
    if (!are_digits(number.substr(0, whole)) || whole > max_skipped_digits) return false;
    set_digits(begin, begin + whole, false);
    if (whole == number.size()) return true;
    set_digits(begin + whole + 1, begin + number.size(), true);
    return are_digits(number.substr(whole + 1));
}

bool RowLayout::add(std::string_view row, const RowField& field) {
    std::string_view number = row.substr(field.begin, field.end - field.begin);
    if (field.integer != nullptr) return add_integer(number, field);
    const bool negative = number.starts_with('-');
    if (negative && !field.may_be_negative) return false;
    number.remove_prefix(negative);
    const std::size_t begin = field.begin + negative;
    return field.decimal != nullptr ? add_decimal(number, begin, negative, field) : add_skipped(number, begin);
}

std::optional<RowLayout> RowLayout::of(std::string_view row, std::span<const RowField> fields) {
    RowLayout layout;
    if (row.size() < sizeof layout.tail_ || row.size() > UINT16_MAX) return std::nullopt;
    layout.set_text(row);
    for (const RowField& field : fields)
        if (!layout.add(row, field)) return std::nullopt;
    return layout;
}

}  // namespace cep::tool
