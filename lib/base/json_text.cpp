// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.hpp"

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

template <class T>
[[nodiscard]] bool fits(std::string_view number) noexcept {
    T value{};
    return std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc();
}

[[nodiscard]] bool is_64_bits(std::string_view integer) noexcept {
    return integer.front() == '-' ? fits<std::int64_t>(integer) : fits<std::uint64_t>(integer);
}

/// Whether the magnitude of a decimal is below 1.
[[nodiscard]] bool is_below_one(std::string_view decimal) noexcept {
    constexpr std::int64_t far_out = INT64_MAX / 2;  // stands for an exponent of more digits than an integer has
    const std::size_t mantissa_end = std::min(decimal.find_first_of("eE"), decimal.size());
    const std::size_t point = std::min(decimal.find('.'), mantissa_end);
    const std::size_t first = decimal.find_first_of("123456789");
    if (first >= mantissa_end) return true;
    std::string_view exponent = decimal.substr(std::min(mantissa_end + 1, decimal.size()));
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    std::int64_t power = exponent.empty() ? 0 : exponent.starts_with('-') ? -far_out : far_out;
    std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
    const auto digits_before_point =
        static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) + (first > point ? 1 : 0);
    return std::clamp(power, -far_out, far_out) + digits_before_point <= 0;
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

using Visit = std::function<void(std::string_view key, std::string_view value)>;

class Reader {
  public:
    /// Calls `visit`, if there is one, for each member of the outermost object.
    explicit Reader(std::string_view text, const Visit* visit = nullptr) noexcept : text_(text), visit_(visit) {}

    Check object_document() {
        skip_space();
        if (peek() != '{') return {false, at_, "expected '{'"};
        if (value(0)) {
            skip_space();
            if (at_ == text_.size()) return {true, at_, ""};
            reason_ = "text after the object";
        }
        return {false, at_, reason_};
    }

  private:
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
        while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
    }

    bool value(int depth) {
        if (depth > max_depth) return fail("nested too deeply");
        switch (peek()) {
            case '{':
                return members(depth, '}', "expected ',' or '}'");
            case '[':
                return members(depth, ']', "expected ',' or ']'");
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

    /// Reads an object or an array.
    bool members(int depth, char close, const char* expected) {
        ++at_;
        skip_space();
        if (accept(close)) return true;
        do {
            skip_space();
            std::string_view name;
            if (close == '}' && !key(name)) return false;
            const std::size_t value_at = at_;
            if (!value(depth + 1)) return false;
            if (depth == 0 && visit_ != nullptr) (*visit_)(name, text_.substr(value_at, at_ - value_at));
            skip_space();
        } while (accept(','));
        return accept(close) || fail(expected);
    }

    bool key(std::string_view& quoted) noexcept {
        const std::size_t begin = at_;
        if (peek() != '"') return fail("expected a string as key");
        if (!string()) return false;
        quoted = text_.substr(begin, at_ - begin);
        skip_space();
        if (!accept(':')) return fail("expected ':'");
        skip_space();
        return true;
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
        const char* digits = text_.data() + ++at_;
        const std::size_t length = std::min<std::size_t>(text_.size() - at_, 4);
        at_ += static_cast<std::size_t>(std::from_chars(digits, digits + length, unit, 16).ptr - digits);
        return at_ == static_cast<std::size_t>(digits - text_.data()) + 4 || fail("invalid \\u escape");
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
    const Visit* visit_;
    std::size_t at_ = 0;
    const char* reason_ = "";
};

}  // namespace

Check check_object(std::string_view text) noexcept {
    return Reader(text).object_document();
}

void for_each_member(std::string_view object, const Visit& visit) {
    (void)Reader(object, &visit).object_document();
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
        if (c == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0) return false;  // U+0080 to U+009F
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
