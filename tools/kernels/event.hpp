// SPDX-License-Identifier: Apache-2.0
//
// Events of a trace, as profilers write them, and what of them is of interest here. What is not looked at is not
// validated: a profiler that writes NaN inside an event does not make the event worthless.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "kernels/trace_text.hpp"

namespace cep::kernels {

namespace ondemand = simdjson::ondemand;

static_assert(text_padding_bytes >= simdjson::SIMDJSON_PADDING);

inline simdjson::padded_string_view with_padding(std::string_view text) {
    return simdjson::padded_string_view(text.data(), text.size(), text.size() + text_padding_bytes);
}

/// A string with its quotes, a number, or the first byte of an object or array.
inline std::string_view token_of(ondemand::value& value) {
    const std::string_view token = value.raw_json_token();
    return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
}

/// Calls `take(key, value)` for each member until it returns false. Returns false where the object is not JSON.
template <typename Take>
bool read_members(ondemand::object object, Take take) {
    for (auto item : object) {
        ondemand::field field;
        if (std::move(item).get(field) != simdjson::SUCCESS) return false;
        if (!take(field.key(), field.value())) return true;
    }
    return true;
}

/// The same for the text of an object.
template <typename Take>
bool read_members(ondemand::parser& parser, std::string_view text, Take take) {
    ondemand::document document;
    ondemand::object object;
    return parser.iterate(with_padding(text)).get(document) == simdjson::SUCCESS &&
           document.get_object().get(object) == simdjson::SUCCESS && read_members(object, take);
}

/// What the GPU did. Operators, calls of the CUDA runtime and annotations are what the host did.
enum class Activity : std::uint8_t { kernel, copy, set };

/// An event that counts. Texts point into the trace, without quotes, escapes not resolved.
struct GpuEvent {
    Activity activity = Activity::kernel;
    std::string_view name;
    std::string_view process;  // the track's process; a GPU in most traces
    std::int64_t device = 0;
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    std::int64_t bytes = 0;  // of a copy or a fill
};

/// An annotation "ProfilerStep#<n>", of the host or of a GPU.
struct StepEvent {
    std::int64_t step = 0;
    bool on_gpu = false;
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
};

/// An event that cannot be read, or lacks what it should have.
struct BadEvent {
    std::string_view why;
};

/// monostate: of no interest.
using Event = std::variant<std::monostate, GpuEvent, StepEvent, BadEvent>;

/// `text` is an object with its brackets; text_padding_bytes must be readable behind it.
[[nodiscard]] Event parse_event(ondemand::parser& parser, std::string_view text);

/// The text of a string, given without its quotes; as it is written where its escapes are not valid.
[[nodiscard]] std::string resolve_escapes(ondemand::parser& parser, std::string_view text);

/// Microseconds as a decimal number, to the nanosecond: a double has no room for the nanoseconds of 50 days.
/// Nothing for what is not a number, or is beyond 73 years.
[[nodiscard]] std::optional<std::int64_t> parse_us_as_ns(std::string_view value);
/// A whole number, also as a string.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view value);

}  // namespace cep::kernels
