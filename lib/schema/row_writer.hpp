// SPDX-License-Identifier: Apache-2.0
//
// Row writer: writes the rows of cep-jsonl(5) that have measurements, for the library and for simulated jobs.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schema.hpp"

namespace cep::schema {

template <class Number>
void append_number(std::string& out, Number value) {
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    out.append(text, static_cast<std::size_t>(end - text));
}

template <class Number>
void append_member(std::string& out, std::string_view key, Number value) {
    out += key;
    append_number(out, value);
}

/// Appends nanoseconds as milliseconds with six decimals, which is exact.
inline void append_ms(std::string& out, std::string_view key, std::int64_t ns) {
    constexpr std::int64_t one_ms_ns = 1'000'000;
    out += key;
    if (ns < 0) {
        out += '-';
        ns = -ns;
    }
    append_number(out, ns / one_ms_ns);
    char decimals[7] = {'.', '0', '0', '0', '0', '0', '0'};
    std::int64_t rest = ns % one_ms_ns;
    for (int i = 6; i > 0; --i, rest /= 10) decimals[i] = static_cast<char>('0' + rest % 10);
    out.append(decimals, sizeof decimals);
}

/// A span, but for its attributes.
struct SpanText {
    std::string_view quoted_name;  // a JSON string
    std::int64_t step;
    std::int64_t duration_ns;
    std::int64_t start_ns;  // UNIX time
    std::int64_t host_ns;   // on the host, from begin to end
    std::optional<std::int64_t> lag_ns;
    Kind kind;
    std::string_view clock;
    std::uint64_t seq;
    std::uint32_t depth;
    std::int32_t device = -1;  // -1: none
    std::uint32_t stream = 0;
};

/// Appends the keys behind the duration.
inline void append_times(std::string& out, const SpanText& span) {
    append_member(out, ",\"start_ns\":", span.start_ns);
    append_ms(out, ",\"host_ms\":", span.host_ns);
    if (span.lag_ns) append_ms(out, ",\"lag_ms\":", *span.lag_ns);
    out.append(",\"kind\":\"").append(kind_name(span.kind));
    out.append("\",\"clock\":\"").append(span.clock).append(1, '"');
    append_member(out, ",\"seq\":", span.seq);
    append_member(out, ",\"depth\":", span.depth);
    if (span.device < 0) return;
    append_member(out, ",\"device\":", span.device);
    append_member(out, ",\"stream\":", span.stream);
}

/// Begins the row of a span of the layout "full", up to its attributes. `rank_text`: `,"rank":3`.
inline void begin_span(std::string& out, const SpanText& span, std::string_view rank_text) {
    out.append("{\"name\":").append(span.quoted_name);
    append_member(out, ",\"step\":", span.step);
    append_ms(out.append(rank_text), ",\"duration_ms\":", span.duration_ns);
    append_times(out, span);
}

/// Begins a row of another type, up to the rank.
inline void begin_row(std::string& out, std::string_view type, std::string_view quoted_name, std::int64_t step,
                      std::string_view rank_text) {
    out.append("{\"type\":\"").append(type).append("\",\"name\":").append(quoted_name);
    append_member(out, ",\"step\":", step);
    out += rank_text;
}

}  // namespace cep::schema
