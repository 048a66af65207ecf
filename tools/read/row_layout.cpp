// SPDX-License-Identifier: Apache-2.0
#include "read/row_layout.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace cep::tool {
namespace {

constexpr std::size_t word_digits = 8;
constexpr std::size_t read_digits = 2 * word_digits;
constexpr std::size_t max_integer_digits = 19;  // as nanoseconds since 1970 have
constexpr std::size_t max_exact_digits = 15;    // of an integer that a double holds
constexpr std::size_t max_decimals = json::exact_powers.size() - 1;
constexpr std::size_t max_skipped_digits = 18;  // so many are no number that is too large

// Of the last digits of a word.
constexpr std::uint64_t mask_of(std::size_t digits) {
    return digits == 0 ? 0 : (0x0f * json::every_byte) << (8 * (word_digits - digits));
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

// A number of more than one digit does not begin with a zero.
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
    digits.unit_of_first = json::powers_of_ten[word_digits];
    return set_places(digits, first, first > 0 ? end - word_digits : end, second, end);
}

bool RowLayout::add_integer(std::string_view number, std::size_t begin, std::int64_t* out) {
    const std::size_t end = begin + number.size();
    if (!are_digits(number) || number.size() > max_integer_digits) return false;
    Integer integer;
    integer.out = out;
    if (number.size() > read_digits) {
        // Those in front change with months only.
        const std::size_t in_front = number.size() - read_digits;
        for (const char digit : number.substr(0, in_front))
            integer.base = 10 * integer.base + static_cast<std::uint64_t>(digit - '0');
        if (integer.base >= INT64_MAX / json::powers_of_ten[read_digits]) return false;
        integer.base *= json::powers_of_ten[read_digits];
        begin += in_front;
        set_digits(begin, end, true);
    } else {
        set_digits(begin, end, false);
    }
    if (!set_whole(integer.digits, begin, end)) return false;
    integers_.push_back(integer);
    return true;
}

bool RowLayout::add_decimal(std::string_view number, std::size_t begin, bool negative, double* out) {
    const std::size_t end = begin + number.size();
    const std::size_t whole = std::min(number.find('.'), number.size());
    Decimal decimal;
    decimal.out = out;
    if (!are_digits(number.substr(0, whole))) return false;
    set_digits(begin, begin + whole, false);
    if (whole == number.size()) {
        if (whole > max_exact_digits || negative || !set_whole(decimal.digits, begin, end)) return false;
    } else {
        const std::size_t decimals = number.size() - whole - 1;
        if (!are_digits(number.substr(whole + 1)) || whole > word_digits || decimals > max_decimals) return false;
        static_assert(word_digits + max_decimals <= max_exact_digits);
        set_digits(end - decimals, end, true);
        if (!set_places(decimal.digits, whole, begin + whole, decimals, end)) return false;
        decimal.digits.unit_of_first = json::powers_of_ten[decimals];
        decimal.divisor = negative ? -json::exact_powers[decimals] : json::exact_powers[decimals];
    }
    decimals_.push_back(decimal);
    return true;
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
    if (field.integer != nullptr) return add_integer(number, field.begin, field.integer);
    const bool negative = number.starts_with('-');
    if (negative && !field.may_be_negative) return false;
    number.remove_prefix(negative);
    const std::size_t begin = field.begin + negative;
    return field.decimal != nullptr ? add_decimal(number, begin, negative, field.decimal) : add_skipped(number, begin);
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
