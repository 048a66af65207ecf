// SPDX-License-Identifier: Apache-2.0
#include "kernels/trace_text.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cep::kernels {
namespace {

constexpr std::size_t block = 64;

/// One bit for each of 64 bytes.
struct Marks {
    std::uint64_t quotes = 0;
    std::uint64_t backslashes = 0;
    std::uint64_t opens = 0;
    std::uint64_t closes = 0;
    std::uint64_t newlines = 0;
};

#if defined(__SSE2__)

std::uint64_t bits_of(__m128i equal) {
    return static_cast<std::uint64_t>(static_cast<std::uint16_t>(_mm_movemask_epi8(equal)));
}

Marks mark(const char* at) {
    Marks marks;
    // '[' and '{', and ']' and '}', differ in one bit.
    const __m128i case_bit = _mm_set1_epi8(0x20);
    for (unsigned i = 0; i < block; i += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i));
        const __m128i folded = _mm_or_si128(bytes, case_bit);
        marks.quotes |= bits_of(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'))) << i;
        marks.backslashes |= bits_of(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))) << i;
        marks.opens |= bits_of(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{'))) << i;
        marks.closes |= bits_of(_mm_cmpeq_epi8(folded, _mm_set1_epi8('}'))) << i;
        marks.newlines |= bits_of(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n'))) << i;
    }
    return marks;
}

#else

Marks mark(const char* at) {
    Marks marks;
    for (unsigned i = 0; i < block; ++i) {
        const char folded = static_cast<char>(at[i] | 0x20);
        marks.quotes |= std::uint64_t{at[i] == '"'} << i;
        marks.backslashes |= std::uint64_t{at[i] == '\\'} << i;
        marks.opens |= std::uint64_t{folded == '{'} << i;
        marks.closes |= std::uint64_t{folded == '}'} << i;
        marks.newlines |= std::uint64_t{at[i] == '\n'} << i;
    }
    return marks;
}

#endif

/// Where strings are, over blocks that follow each other.
class StringTracker {
  public:
    /// Bits from each opening quote up to the byte before its closing one.
    std::uint64_t inside(const Marks& marks) {
        std::uint64_t bits = marks.quotes & ~escaped(marks.backslashes);
        for (unsigned shift = 1; shift < block; shift *= 2) bits ^= bits << shift;
        bits ^= carried_;
        carried_ = (bits >> (block - 1)) != 0 ? ~std::uint64_t{0} : 0;
        return bits;
    }

  private:
    // Bytes behind a backslash that is not itself escaped.
    std::uint64_t escaped(std::uint64_t backslashes) {
        if (backslashes == 0) return std::exchange(escapes_next_, 0);
        std::uint64_t bits = escapes_next_;
        for (std::uint64_t left = backslashes & ~bits; left != 0;) {
            const unsigned i = static_cast<unsigned>(std::countr_zero(left));
            left &= left - 1;
            if (i + 1 == block) {
                escapes_next_ = 1;
                return bits;
            }
            bits |= std::uint64_t{2} << i;
            left &= ~(std::uint64_t{2} << i);
        }
        escapes_next_ = 0;
        return bits;
    }

    std::uint64_t carried_ = 0;
    std::uint64_t escapes_next_ = 0;
};

constexpr std::uint64_t below(unsigned bit) {
    return (std::uint64_t{1} << bit) - 1;
}

const char* find_string_end(const char* at, const char* end) {
    for (++at; at < end && *at != '"'; ++at)
        if (*at == '\\') ++at;
    return at < end ? at + 1 : nullptr;
}

bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool ends_scalar(char c) {
    return c == ',' || c == '}' || c == ']' || is_blank(c);
}

}  // namespace

ValueEnd find_nested_end(const char* at, const char* end) {
    StringTracker strings;
    std::uint64_t depth = 0;
    for (; at < end; at += block) {
        const Marks marks = mark(at);
        const std::uint64_t inside = strings.inside(marks);
        const std::uint64_t broken = marks.newlines & inside;
        for (std::uint64_t left = (marks.opens | marks.closes) & ~inside; left != 0; left &= left - 1) {
            const unsigned i = static_cast<unsigned>(std::countr_zero(left));
            if (((marks.opens >> i) & 1) != 0) {
                ++depth;
            } else if (--depth == 0) {
                if (at + i >= end) return {};
                if ((broken & below(i)) != 0) return {nullptr, ValueEnd::Why::broken};
                return {at + i + 1, ValueEnd::Why::whole};
            }
        }
        if (broken != 0 && at + std::countr_zero(broken) < end) return {nullptr, ValueEnd::Why::broken};
    }
    return {};
}

ValueEnd find_value_end(const char* at, const char* end) {
    if (at >= end) return {};
    if (*at == '{' || *at == '[') return find_nested_end(at, end);
    if (*at == '"') {
        const char* const behind = find_string_end(at, end);
        return {behind, behind != nullptr ? ValueEnd::Why::whole : ValueEnd::Why::cut};
    }
    const char* const behind = std::find_if(at, end, ends_scalar);
    if (behind == end) return {};
    return {behind, behind > at ? ValueEnd::Why::whole : ValueEnd::Why::broken};
}

const char* skip_blanks(const char* at, const char* end) {
    while (at < end && is_blank(*at)) ++at;
    return at;
}

std::string_view inside_quotes(std::string_view value) {
    const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    return quoted ? value.substr(1, value.size() - 2) : std::string_view();
}

char TraceWindow::peek() {
    do {
        at = skip_blanks(at, end());
        if (at < end()) return *at;
    } while (extend());
    return '\0';
}

ValueEnd TraceWindow::take_value(std::string_view& value) {
    ValueEnd found = find_value_end(at, end());
    while (found.why == ValueEnd::Why::cut && extend()) found = find_value_end(at, end());
    if (found.why != ValueEnd::Why::whole) return found;
    value = {at, static_cast<std::size_t>(found.at - at)};
    at = found.at;
    return found;
}

}  // namespace cep::kernels
