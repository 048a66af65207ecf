// SPDX-License-Identifier: Apache-2.0
#include "kernels/event.hpp"

#include <cmath>

#include "base/text.hpp"
#include "kernels/members.hpp"
#include "kernels/trace_text.hpp"

namespace cep::kernels {
namespace {

// Sums of two such times fit 64 bits.
constexpr std::int64_t max_time_ns = std::int64_t{1} << 61;
// 13 days: no GPU event is longer.
constexpr std::int64_t max_duration_ns = std::int64_t{1} << 50;
constexpr std::string_view step_prefix = "ProfilerStep#";

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

bool is_decimal(char c) {
    return c >= '0' && c <= '9';
}

std::optional<std::int64_t> parse_rounded(std::string_view text) {
    const auto us = tool::parse_number<double>(text);
    if (!us) return std::nullopt;
    const double ns = std::round(*us * 1e3);
    if (!(std::abs(ns) < static_cast<double>(max_time_ns))) return std::nullopt;
    return static_cast<std::int64_t>(ns);
}

/// Of digits behind a decimal point, three; the fourth rounds.
std::int64_t thousandths(std::string_view digits) {
    std::int64_t value = 0;
    for (std::size_t i = 0; i < 3; ++i) value = value * 10 + (i < digits.size() ? digits[i] - '0' : 0);
    return value + (digits.size() > 3 && digits[3] >= '5' ? 1 : 0);
}

std::string_view without_quotes(std::string_view value) {
    return value.starts_with('"') ? inside_quotes(value) : value;
}

std::optional<std::int64_t> read_device(ondemand::value& arguments) {
    std::optional<std::int64_t> device;
    ondemand::object object;
    if (arguments.get_object().get(object) != simdjson::SUCCESS) return device;
    read_members(object, [&device](ondemand::raw_json_string key, ondemand::value value) {
        if (key == "device") device = parse_integer(token_of(value));
        return !device;
    });
    return device;
}

}  // namespace

std::optional<std::int64_t> parse_us_as_ns(std::string_view value) {
    const std::string_view text = without_quotes(value);
    const bool negative = text.starts_with('-');
    const std::string_view digits = text.substr(negative ? 1 : 0);
    std::size_t whole = 0;
    std::int64_t us = 0;
    constexpr std::size_t max_digits = 16;
    while (whole < digits.size() && is_decimal(digits[whole]) && whole < max_digits)
        us = us * 10 + (digits[whole++] - '0');
    if (whole == 0) return std::nullopt;
    std::size_t end = whole;
    if (end < digits.size() && digits[end] == '.')
        for (++end; end < digits.size() && is_decimal(digits[end]);) ++end;
    if (end != digits.size()) return parse_rounded(text);
    const std::string_view fraction = end > whole ? digits.substr(whole + 1) : std::string_view();
    if (us > max_time_ns / 1000 - 1) return std::nullopt;
    const std::int64_t ns = us * 1000 + thousandths(fraction);
    return negative ? -ns : ns;
}

std::optional<std::int64_t> parse_integer(std::string_view value) {
    return tool::parse_number<std::int64_t>(without_quotes(value));
}

EventParser::Outcome EventParser::fail(std::string_view why) {
    why_ = why;
    return Outcome::bad;
}

struct EventParser::Json {
    ondemand::parser parser;
};

EventParser::EventParser() : json_(std::make_unique<Json>()) {}
EventParser::~EventParser() = default;

// Stops as soon as it is clear that an event is of no interest: most are.
bool EventParser::read_fields(std::string_view text, Fields& fields) {
    bool interesting = false;
    return read_members(json_->parser, text, [&](ondemand::raw_json_string key, ondemand::value value) {
        const std::string_view token = token_of(value);
        if (key == "ph") fields.phase = inside_quotes(token);
        if (key == "cat") fields.category = inside_quotes(token);
        if (key == "name") fields.name = inside_quotes(token);
        if (key == "pid") fields.process = without_quotes(token);
        if (key == "ts") fields.start = token;
        if (key == "dur") fields.duration = token;
        if (key == "args") fields.device = read_device(value);
        if (has_no_duration(fields.phase)) return false;
        if (interesting || fields.category.empty() || fields.name.empty()) return true;
        interesting = activity_of(fields.category) || fields.name.starts_with(step_prefix);
        return interesting;
    });
}

EventParser::Outcome EventParser::read_times(const Fields& fields, std::int64_t& start_ns, std::int64_t& duration_ns,
                                             Outcome good) {
    if (fields.phase != "X") return fail("a GPU event that is not complete (ph is not X)");
    if (fields.start.empty()) return fail("a GPU event without a start (ts)");
    if (fields.duration.empty()) return fail("a GPU event without a duration (dur)");
    const auto start = parse_us_as_ns(fields.start);
    const auto duration = parse_us_as_ns(fields.duration);
    if (!start) return fail("a GPU event whose start (ts) is no time");
    if (!duration || *duration < 0 || *duration > max_duration_ns)
        return fail("a GPU event whose duration (dur) is no duration");
    start_ns = *start;
    duration_ns = *duration;
    return good;
}

EventParser::Outcome EventParser::read_gpu(const Fields& fields, Activity activity) {
    gpu_ = {activity, fields.name, fields.process, parse_integer(fields.process).value_or(0), 0, 0};
    if (fields.name.empty()) return fail("a GPU event without a name");
    gpu_.device = fields.device.value_or(gpu_.device);
    return read_times(fields, gpu_.start_ns, gpu_.duration_ns, Outcome::gpu);
}

EventParser::Outcome EventParser::read_step(const Fields& fields) {
    const auto step = parse_integer(fields.name.substr(step_prefix.size()));
    if (!step || fields.phase != "X") return Outcome::ignored;
    step_.step = *step;
    step_.on_gpu = fields.category.starts_with("gpu_");
    return read_times(fields, step_.start_ns, step_.duration_ns, Outcome::step);
}

EventParser::Outcome EventParser::parse(std::string_view text) {
    Fields fields;
    if (!text.starts_with('{')) return fail("an element that is not an event");
    if (!read_fields(text, fields)) return fail("an event that is not JSON");
    if (has_no_duration(fields.phase)) return Outcome::ignored;
    if (const auto activity = activity_of(fields.category)) return read_gpu(fields, *activity);
    return fields.name.starts_with(step_prefix) ? read_step(fields) : Outcome::ignored;
}

}  // namespace cep::kernels
