// SPDX-License-Identifier: Apache-2.0
//
// Trace reader: from the arguments of the command to traces, and from one trace to the events that count, in memory
// that does not grow with the rest of the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "kernels/event.hpp"
#include "read/inputs.hpp"

namespace cep::kernels {

/// Adds, and stays at the largest number where a trace's times are absurd.
void add_ns(std::int64_t& total_ns, std::int64_t more_ns);

/// What a trace says about itself.
struct TraceFacts {
    std::optional<std::int64_t> rank;
    std::optional<std::int64_t> world_size;
    std::int64_t base_ns = 0;  // UNIX time of the trace's zero
    std::map<std::int64_t, std::string> device_names;
};

struct KernelId {
    Activity activity = Activity::kernel;
    std::string name;
    std::int64_t bytes = 0;  // of all copies or fills of that name
};

/// A GPU of the trace: several processes may each have a device 0.
struct DeviceId {
    std::string process;
    std::int64_t device = 0;
    friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

struct TimedKernel {
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    std::uint32_t kernel = 0;  // index into TraceData::kernels
    std::uint32_t device = 0;  // index into TraceData::devices
    [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct TraceDamage {
    std::uint64_t offset_bytes = 0;  // in the decompressed text
    std::string why;
};

struct TraceData {
    static constexpr std::size_t max_shown = 5;

    std::string path;
    std::uint64_t size_bytes = 0;  // decompressed
    TraceFacts facts;
    std::vector<KernelId> kernels;
    std::vector<DeviceId> devices;
    std::vector<TimedKernel> events;
    std::vector<StepEvent> steps;
    std::uint64_t all_events = 0;
    std::uint64_t skipped_events = 0;
    std::vector<TraceDamage> damages;  // the first max_shown
    bool truncated = false;
    std::string unusable;  // why there is nothing in it; "" else

    void add_damage(std::uint64_t offset_bytes, std::string why);
};

/// Files, directories of traces (`*.json`, also `.gz` and `.zst`), globs and "-"; more of them, one a line, from
/// `files_from` unless it is empty. Throws UsageError.
[[nodiscard]] tool::InputSet find_traces(const std::vector<std::string>& arguments, const std::string& files_from);

/// The number behind the word "rank" in the file's name, else in its directory's: "rank3_trace.json", "rank_3/t.json".
[[nodiscard]] std::optional<std::int64_t> rank_of_trace_name(std::string_view path);

/// Reads a trace. Never throws for what is in it: damage is counted and located, and what is whole in front of a cut is
/// kept.
[[nodiscard]] TraceData read_trace(const tool::InputFile& file, tool::Progress& progress);

}  // namespace cep::kernels
