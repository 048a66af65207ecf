// SPDX-License-Identifier: Apache-2.0
#include "read/json_scan.hpp"

#include <simdjson.h>

#include <charconv>

namespace cep::tool::json {
namespace {

// Enough for any number that a program writes, and far from overflow and underflow.
constexpr unsigned max_exponent = 200;
constexpr int max_depth = 16;

struct Digits {
    const char* end;
    std::uint64_t value;  // right for up to 19 digits
    unsigned count;       // up to 24; more digits are left
};

Digits read_digits(const char* at) {
    Digits digits{at, 0, 0};
    for (int words = 0; words < 3; ++words) {
        const std::uint64_t word = load(digits.end);
        const unsigned count = leading_digits(word);
        if (count == 0) break;
        digits.value = digits.value * powers_of_ten[count] + number_of(word, count);
        digits.end += count;
        digits.count += count;
        if (count < 8) break;
    }
    return digits;
}

/// Digits as JSON allows them in front of a decimal point: at least one, and no zero before others.
bool is_whole_part(const char* at, const Digits& digits) {
    return digits.count == 1 || (digits.count > 1 && *at != '0');
}

const char* pass_exponent(const char* at) {
    ++at;
    if (*at == '+' || *at == '-') ++at;
    const Digits digits = read_digits(at);
    return digits.count == 0 || digits.count > 19 || digits.value > max_exponent ? nullptr : digits.end;
}

// Passes a number with a decimal point or an exponent, whose digits before it are `whole`.
const char* pass_decimal(const char* at, const Digits& whole) {
    if (!is_whole_part(at, whole)) return nullptr;
    const char* end = whole.end;
    if (*end == '.') {
        const Digits fraction = read_digits(end + 1);
        if (fraction.count == 0) return nullptr;
        end = fraction.end;
    }
    return *end == 'e' || *end == 'E' ? pass_exponent(end) : end;
}

bool is_decimal(const Digits& whole) {
    return *whole.end == '.' || *whole.end == 'e' || *whole.end == 'E';
}

const char* pass_text(const char* at, std::string_view text) {
    return std::memcmp(at, text.data(), text.size()) == 0 ? at + text.size() : nullptr;
}

const char* skip_nested(const char* at, int depth);

const char* skip_member_name(const char* at) {
    std::string_view name;
    at = read_string(at, name);
    if (at == nullptr) return nullptr;
    at = skip_blanks(at);
    return *at == ':' ? skip_blanks(at + 1) : nullptr;
}

const char* skip_elements(const char* at, char last, int depth) {
    at = skip_blanks(at + 1);
    if (*at == last) return at + 1;
    while (true) {
        if (last == '}') at = skip_member_name(at);
        if (at != nullptr) at = skip_nested(at, depth + 1);
        if (at == nullptr) return nullptr;
        at = skip_blanks(at);
        if (*at == last) return at + 1;
        if (*at != ',') return nullptr;
        at = skip_blanks(at + 1);
    }
}

const char* skip_nested(const char* at, int depth) {
    std::string_view text;
    switch (*at) {
        case '"':
            return read_string(at, text);
        case '{':
            return depth < max_depth ? skip_elements(at, '}', depth) : nullptr;
        case '[':
            return depth < max_depth ? skip_elements(at, ']', depth) : nullptr;
        case 't':
            return pass_text(at, "true");
        case 'f':
            return pass_text(at, "false");
        case 'n':
            return pass_text(at, "null");
        default:
            return skip_number(at);
    }
}

}  // namespace

const char* read_integer_slowly(const char* at, std::int64_t& out) {
    const bool negative = *at == '-';
    at += negative;
    const Digits digits = read_digits(at);
    if (!is_whole_part(at, digits) || digits.count > 19 || digits.value > INT64_MAX) return nullptr;
    out = negative ? -static_cast<std::int64_t>(digits.value) : static_cast<std::int64_t>(digits.value);
    return digits.end;
}

const char* read_double_slowly(const char* at, double& out) {
    const char* const begin = at;
    at += *at == '-';
    const Digits whole = read_digits(at);
    if (!is_decimal(whole)) {
        std::int64_t integer = 0;
        at = read_integer_slowly(begin, integer);
        out = static_cast<double>(integer);
        return at;
    }
    const char* const number_end = pass_decimal(at, whole);
    if (number_end == nullptr) return nullptr;
    const auto [end, error] = std::from_chars(begin, number_end, out);
    return error == std::errc{} && end == number_end ? end : nullptr;
}

const char* skip_number_slowly(const char* at) {
    const bool negative = *at == '-';
    at += negative;
    const Digits whole = read_digits(at);
    if (is_decimal(whole)) return pass_decimal(at, whole);
    // All of 18 digits fit 64 bits, and so do all of 19 without a sign.
    return is_whole_part(at, whole) && whole.count <= (negative ? 18U : 19U) ? whole.end : nullptr;
}

const char* read_string_slowly(const char* at, std::string_view& out) {
    if (*at != '"') return nullptr;
    const char* const begin = ++at;
    while (*at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= ' ') ++at;
    if (*at != '"') return nullptr;
    out = {begin, static_cast<std::size_t>(at - begin)};
    return simdjson::validate_utf8(out.data(), out.size()) ? at + 1 : nullptr;
}

const char* skip_nested_value(const char* at) {
    return skip_nested(at, 0);
}

}  // namespace cep::tool::json
