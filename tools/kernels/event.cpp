// SPDX-License-Identifier: Apache-2.0
#include "kernels/event.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace cep::kernels {
namespace {

// Sums of two such times fit 64 bits.
constexpr std::int64_t max_time_ns = std::int64_t{1} << 61;
// 13 days: no GPU event is longer.
constexpr std::int64_t max_duration_ns = std::int64_t{1} << 50;
constexpr std::string_view step_prefix = "ProfilerStep#";

/// What is looked at, as it is written.
struct EventText {
    std::string_view phase, category, name, process, start, duration;
    // From the arguments:
    std::optional<std::int64_t> device, bytes;
};

// torch.profiler's names since 1.11, and those before it.
std::optional<Activity> activity_of(std::string_view category) {
    if (category == "kernel" || category == "Kernel") return Activity::kernel;
    if (category == "gpu_memcpy" || category == "Memcpy") return Activity::copy;
    if (category == "gpu_memset" || category == "Memset") return Activity::set;
    return std::nullopt;
}

// Flows, counters, instants and metadata: what has no duration is no activity.
bool has_no_duration(std::string_view phase) {
    constexpr std::string_view phases = "stfMCiIPNODc";
    return phase.size() == 1 && phases.find(phase.front()) != std::string_view::npos;
}

std::optional<std::int64_t> parse_rounded(std::string_view text) {
    const auto us = tool::parse_number<double>(text);
    if (!us) return std::nullopt;
    const double ns = std::round(*us * 1e3);
    if (!(std::abs(ns) < static_cast<double>(max_time_ns))) return std::nullopt;
    return static_cast<std::int64_t>(ns);
}

/// Reads three digits behind a decimal point; the fourth rounds.
std::int64_t thousandths(std::string_view digits) {
    std::int64_t value = 0;
    for (std::size_t i = 0; i < 3; ++i) value = value * 10 + (i < digits.size() ? digits[i] - '0' : 0);
    return value + (digits.size() > 3 && digits[3] >= '5' ? 1 : 0);
}

std::string_view without_quotes(std::string_view value) {
    return value.starts_with('"') ? inside_quotes(value) : value;
}

// A kernel's device only: that is all there is for most events.
void read_arguments(ondemand::value& arguments, EventText& fields) {
    ondemand::object object;
    if (arguments.get_object().get(object) != simdjson::SUCCESS) return;
    const bool is_kernel = activity_of(fields.category) == Activity::kernel;
    read_members(object, [&](ondemand::raw_json_string key, ondemand::value value) {
        if (key == "device" || key == "Device Id") fields.device = parse_integer(token_of(value));
        if (is_kernel) return !fields.device;
        if (key == "bytes" || key == "Bytes") fields.bytes = parse_integer(token_of(value));
        return true;
    });
}

// Stops as soon as it is clear that an event is of no interest: most are.
bool read_fields(ondemand::parser& parser, std::string_view text, EventText& fields) {
    bool interesting = false;
    return read_members(parser, text, [&](ondemand::raw_json_string key, ondemand::value value) {
        const std::string_view token = token_of(value);
        if (key == "ph") fields.phase = inside_quotes(token);
        if (key == "cat") fields.category = inside_quotes(token);
        if (key == "name") fields.name = inside_quotes(token);
        if (key == "pid") fields.process = without_quotes(token);
        if (key == "ts") fields.start = token;
        if (key == "dur") fields.duration = token;
        if (key == "args") read_arguments(value, fields);
        if (has_no_duration(fields.phase)) return false;
        if (interesting || fields.category.empty() || fields.name.empty()) return true;
        interesting = activity_of(fields.category) || fields.name.starts_with(step_prefix);
        return interesting;
    });
}

/// The event with its times.
template <typename Timed>
Event add_times(Timed event, const EventText& fields) {
    if (fields.phase != "X") return BadEvent{"a GPU event that is not complete (ph is not X)"};
    if (fields.start.empty()) return BadEvent{"a GPU event without a start (ts)"};
    if (fields.duration.empty()) return BadEvent{"a GPU event without a duration (dur)"};
    const auto start_ns = parse_us_as_ns(fields.start);
    const auto duration_ns = parse_us_as_ns(fields.duration);
    if (!start_ns) return BadEvent{"a GPU event whose start (ts) is no time"};
    if (!duration_ns || *duration_ns < 0 || *duration_ns > max_duration_ns)
        return BadEvent{"a GPU event whose duration (dur) is no duration"};
    event.start_ns = *start_ns;
    event.duration_ns = *duration_ns;
    return event;
}

Event read_gpu(const EventText& fields, Activity activity) {
    if (fields.name.empty()) return BadEvent{"a GPU event without a name"};
    const std::int64_t process = parse_integer(fields.process).value_or(0);
    const std::int64_t bytes = std::max<std::int64_t>(0, fields.bytes.value_or(0));
    return add_times(GpuEvent{activity, fields.name, fields.process, fields.device.value_or(process), 0, 0, bytes},
                     fields);
}

Event read_step(const EventText& fields) {
    const auto step = parse_integer(fields.name.substr(step_prefix.size()));
    if (!step || fields.phase != "X") return {};
    return add_times(StepEvent{*step, fields.category.starts_with("gpu_"), 0, 0}, fields);
}

}  // namespace

std::optional<std::int64_t> parse_us_as_ns(std::string_view value) {
    constexpr std::string_view decimals = "0123456789";
    constexpr std::int64_t max_time_us = max_time_ns / 1000 - 1;
    const std::string_view text = without_quotes(value);
    const bool negative = text.starts_with('-');
    if (text.find_first_of(decimals) != (negative ? 1 : 0)) return std::nullopt;
    const std::size_t point = std::min(text.find('.'), text.size());
    const auto us = tool::parse_number<std::int64_t>(text.substr(0, point));
    const std::string_view fraction = text.substr(std::min(point + 1, text.size()));
    if (!us || fraction.find_first_not_of(decimals) != std::string_view::npos) return parse_rounded(text);
    if (*us < -max_time_us || *us > max_time_us) return std::nullopt;
    return *us * 1000 + (negative ? -1 : 1) * thousandths(fraction);
}

std::optional<std::int64_t> parse_integer(std::string_view value) {
    return tool::parse_number<std::int64_t>(without_quotes(value));
}

std::string resolve_escapes(ondemand::parser& parser, std::string_view text) {
    if (text.find('\\') == std::string_view::npos) return std::string(text);
    const simdjson::padded_string quoted('"' + std::string(text) + '"');
    ondemand::document document;
    std::string_view resolved;
    const bool is_valid = parser.iterate(quoted).get(document) == simdjson::SUCCESS &&
                          document.get_string().get(resolved) == simdjson::SUCCESS;
    return std::string(is_valid ? resolved : text);
}

Event parse_event(ondemand::parser& parser, std::string_view text) {
    EventText fields;
    if (!text.starts_with('{')) return BadEvent{"an element that is not an event"};
    if (!read_fields(parser, text, fields)) return BadEvent{"an event that is not JSON"};
    if (has_no_duration(fields.phase)) return {};
    if (const auto activity = activity_of(fields.category)) return read_gpu(fields, *activity);
    return fields.name.starts_with(step_prefix) ? read_step(fields) : Event{};
}

}  // namespace cep::kernels
