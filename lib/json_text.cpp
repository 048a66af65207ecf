// SPDX-License-Identifier: Apache-2.0
#include "json_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

namespace cep::json {
namespace {

constexpr int max_depth = 64;

[[nodiscard]] bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
[[nodiscard]] bool is_hex(char c) noexcept {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

template <class T>
[[nodiscard]] bool fits(std::string_view number) noexcept {
    T value{};
    return std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc();
}

[[nodiscard]] bool is_64_bits(std::string_view integer) noexcept {
    return integer.front() == '-' ? fits<std::int64_t>(integer) : fits<std::uint64_t>(integer);
}

/// Parses a decimal's exponent. If it has too many digits, the result is far beyond the range of doubles.
[[nodiscard]] std::int64_t stated_exponent(std::string_view exponent) noexcept {
    constexpr std::int64_t far_out = INT64_MAX / 2;
    const bool negative = exponent.starts_with('-');
    if (negative || exponent.starts_with('+')) exponent.remove_prefix(1);
    std::int64_t power = 0;
    const auto [end, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
    if (error != std::errc() || power > far_out) power = far_out;
    return negative ? -power : power;
}

/// Whether the magnitude of a decimal is below 1.
[[nodiscard]] bool is_below_one(std::string_view decimal) noexcept {
    const std::size_t exponent_at = decimal.find_first_of("eE");
    const std::string_view mantissa = decimal.substr(0, exponent_at);
    const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
    const std::size_t first = mantissa.find_first_of("123456789");
    if (first == std::string_view::npos) return true;
    const std::int64_t power =
        exponent_at == std::string_view::npos ? 0 : stated_exponent(decimal.substr(exponent_at + 1));
    const auto digits_before_point =
        static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) + (first > point ? 1 : 0);
    return digits_before_point + power <= 0;
}

/// Whether a decimal rounds to a finite double. A decimal that is too small for a double rounds to 0.
[[nodiscard]] bool is_finite_double(std::string_view decimal) noexcept {
    double value = 0;
    const auto [end, error] = std::from_chars(decimal.data(), decimal.data() + decimal.size(), value);
    return error == std::errc::result_out_of_range ? is_below_one(decimal) : std::isfinite(value);
}

[[nodiscard]] bool is_high_surrogate(std::uint32_t unit) noexcept {
    return unit >= 0xD800 && unit <= 0xDBFF;
}
[[nodiscard]] bool is_low_surrogate(std::uint32_t unit) noexcept {
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

class Validator {
  public:
    explicit Validator(std::string_view text) noexcept : text_(text) {}

    Check object_document() noexcept {
        skip_space();
        if (peek() != '{') return error("expected '{'");
        if (value(0)) {
            skip_space();
            if (at_ == text_.size()) return {true, at_, ""};
            reason_ = "text after the object";
        }
        return {false, at_, reason_};
    }

    void for_each_member(const std::function<void(std::string_view, std::string_view)>& visit) {
        enter('{');
        while (peek() == '"') {
            const std::size_t key_at = at_;
            string();
            const std::string_view key = text_.substr(key_at, at_ - key_at);
            skip_space();
            accept(':');
            skip_space();
            const std::size_t value_at = at_;
            if (!value(1)) return;
            visit(key, text_.substr(value_at, at_ - value_at));
            skip_separator();
        }
    }

    void for_each_element(const std::function<bool(std::string_view)>& visit) {
        enter('[');
        while (at_ < text_.size() && peek() != ']') {
            const std::size_t value_at = at_;
            if (!value(1) || !visit(text_.substr(value_at, at_ - value_at))) return;
            skip_separator();
        }
    }

  private:
    [[nodiscard]] Check error(const char* why) const noexcept { return {false, at_, why}; }
    [[nodiscard]] char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool fail(const char* why) noexcept {
        reason_ = why;
        return false;
    }
    bool fail_at(std::size_t offset, const char* why) noexcept {
        at_ = offset;
        return fail(why);
    }
    bool accept(char c) noexcept {
        if (peek() != c || at_ >= text_.size()) return false;
        ++at_;
        return true;
    }
    void skip_space() noexcept {
        while (at_ < text_.size() &&
               (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
            ++at_;
    }

    void enter(char bracket) noexcept {
        skip_space();
        accept(bracket);
        skip_space();
    }
    void skip_separator() noexcept {
        skip_space();
        accept(',');
        skip_space();
    }

    bool value(int depth) noexcept {
        if (depth > max_depth) return fail("nested too deeply");
        switch (peek()) {
            case '{':
                return object(depth);
            case '[':
                return array(depth);
            case '"':
                return string();
            case 't':
                return literal("true");
            case 'f':
                return literal("false");
            case 'n':
                return literal("null");
            default:
                return number();
        }
    }

    bool object(int depth) noexcept {
        ++at_;
        skip_space();
        if (accept('}')) return true;
        do {
            skip_space();
            if (peek() != '"') return fail("expected a string as key");
            if (!string()) return false;
            skip_space();
            if (!accept(':')) return fail("expected ':'");
            skip_space();
            if (!value(depth + 1)) return false;
            skip_space();
        } while (accept(','));
        return accept('}') || fail("expected ',' or '}'");
    }

    bool array(int depth) noexcept {
        ++at_;
        skip_space();
        if (accept(']')) return true;
        do {
            skip_space();
            if (!value(depth + 1)) return false;
            skip_space();
        } while (accept(','));
        return accept(']') || fail("expected ',' or ']'");
    }

    bool string() noexcept {
        ++at_;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '"') {
                ++at_;
                return true;
            }
            if (static_cast<unsigned char>(c) < 0x20) return fail("control character in a string");
            if (c == '\\') {
                if (!escape()) return false;
                continue;
            }
            const std::size_t length = utf8_length(text_.substr(at_));
            if (length == 0) return fail("invalid UTF-8");
            at_ += length;
        }
        return fail("unfinished string");
    }

    bool escape() noexcept {
        ++at_;
        const char c = peek();
        if (c == 'u') return unicode_escape();
        if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos || c == '\0')
            return fail("invalid escape");
        ++at_;
        return true;
    }

    /// Reads \u and four digits, or two of these that make one character. The reader is at the 'u'.
    bool unicode_escape() noexcept {
        const std::size_t begin = at_ - 1;
        std::uint32_t unit = 0;
        if (!code_unit(unit)) return false;
        if (is_low_surrogate(unit)) return fail_at(begin, "lone surrogate");
        if (!is_high_surrogate(unit)) return true;
        if (!accept('\\') || peek() != 'u') return fail_at(begin, "lone surrogate");
        if (!code_unit(unit)) return false;
        return is_low_surrogate(unit) || fail_at(begin, "lone surrogate");
    }

    bool code_unit(std::uint32_t& unit) noexcept {
        ++at_;
        const char* digits = text_.data() + at_;
        for (int i = 0; i < 4; ++i, ++at_)
            if (!is_hex(peek())) return fail("invalid \\u escape");
        std::from_chars(digits, digits + 4, unit, 16);
        return true;
    }

    bool literal(std::string_view word) noexcept {
        if (text_.substr(at_, word.size()) != word) return fail("unexpected character");
        at_ += word.size();
        return true;
    }

    bool digits() noexcept {
        if (!is_digit(peek())) return fail("expected a digit");
        while (is_digit(peek())) ++at_;
        return true;
    }

    bool number() noexcept {
        const std::size_t begin = at_;
        const bool negative = accept('-');
        if (!negative && !is_digit(peek())) return fail("unexpected character");
        if (!accept('0') && !digits()) return false;
        const bool has_fraction = accept('.');
        if (has_fraction && !digits()) return false;
        const bool has_exponent = accept('e') || accept('E');
        if (has_exponent && !exponent()) return false;
        const std::string_view text = text_.substr(begin, at_ - begin);
        if (has_fraction || has_exponent)
            return is_finite_double(text) || fail_at(begin, "number beyond the range of doubles");
        return is_64_bits(text) || fail_at(begin, "integer beyond 64 bits");
    }

    bool exponent() noexcept {
        if (!accept('+')) accept('-');
        return digits();
    }

    std::string_view text_;
    std::size_t at_ = 0;
    const char* reason_ = "";
};

}  // namespace

Check check_object(std::string_view text) noexcept {
    return Validator(text).object_document();
}

void for_each_member(std::string_view object,
                     const std::function<void(std::string_view key, std::string_view value)>& visit) {
    Validator(object).for_each_member(visit);
}

void for_each_element(std::string_view array, const std::function<bool(std::string_view value)>& visit) {
    Validator(array).for_each_element(visit);
}

std::size_t utf8_length(std::string_view text) noexcept {
    if (text.empty()) return 0;
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const std::uint8_t lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xC0) != 0x80) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (lead == 0xED && byte(1) > 0x9F) return 0;  // a surrogate
    if (lead == 0xF0 && byte(1) < 0x90) return 0;  // overlong
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;  // past U+10FFFF
    return length;
}

bool is_plain_text(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        const auto c = static_cast<unsigned char>(text.front());
        if (c < 0x20 || c == 0x7F) return false;
        text.remove_prefix(length);
    }
    return true;
}

void append_string(std::string& out, std::string_view text) {
    static constexpr char hex[] = "0123456789abcdef";
    out += '"';
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        const char c = text.front();
        if (length == 0) {
            out += "\xEF\xBF\xBD";
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += "\\u00";
            out += hex[(c >> 4) & 0xF];
            out += hex[c & 0xF];
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    out += '"';
}

}  // namespace cep::json
