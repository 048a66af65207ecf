// SPDX-License-Identifier: Apache-2.0
//
// Events of a trace, as profilers write them, and what of them is of interest here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cep::kernels {

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
};

/// An annotation "ProfilerStep#<n>", of the host or of a GPU.
struct StepEvent {
    std::int64_t step = 0;
    bool on_gpu = false;
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
};

/// Reads one event.
class EventParser {
  public:
    EventParser();
    ~EventParser();
    EventParser(const EventParser&) = delete;
    EventParser& operator=(const EventParser&) = delete;

    enum class Outcome : std::uint8_t { ignored, gpu, step, bad };

    /// `text` is an object with its brackets; text_padding_bytes must be readable behind it.
    Outcome parse(std::string_view text);
    [[nodiscard]] const GpuEvent& gpu() const { return gpu_; }
    [[nodiscard]] const StepEvent& step() const { return step_; }
    /// After `bad`.
    [[nodiscard]] std::string_view why() const { return why_; }

  private:
    struct Fields {
        std::string_view phase, category, name, process, start, duration;
        std::optional<std::int64_t> device;  // of the arguments
    };
    struct Json;

    Outcome fail(std::string_view why);
    bool read_fields(std::string_view text, Fields& fields);
    Outcome read_gpu(const Fields& fields, Activity activity);
    Outcome read_step(const Fields& fields);
    Outcome read_times(const Fields& fields, std::int64_t& start_ns, std::int64_t& duration_ns, Outcome good);

    std::unique_ptr<Json> json_;
    GpuEvent gpu_;
    StepEvent step_;
    std::string_view why_;
};

/// Microseconds as a decimal number, to the nanosecond: a double has no room for the nanoseconds of 50 days.
/// Nothing for what is not a number, or is beyond 73 years.
[[nodiscard]] std::optional<std::int64_t> parse_us_as_ns(std::string_view value);
/// A whole number, also as a string.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view value);

}  // namespace cep::kernels
