// SPDX-License-Identifier: Apache-2.0
//
// What rows say of a run, besides its spans: all that analyses need of the format of rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema.hpp"

namespace cep::tool {

/// `none` if the row has no clock; `mixed` is for sets of rows only.
enum class Clock : std::uint8_t { none, gpu, host, external, mixed };
inline constexpr std::array<std::string_view, 5> clock_names = {"", "gpu", "host", "external", "mixed"};

[[nodiscard]] constexpr Clock clock_from_name(std::string_view name) noexcept {
    for (std::size_t i = 1; i < clock_names.size(); ++i)
        if (clock_names[i] == name) return static_cast<Clock>(i);
    return Clock::none;
}

/// What a rank is in its job.
struct RankRole {
    std::int64_t rank = 0;
    std::string host;                // "" if not known
    std::optional<std::int64_t> tp;  // coordinates in the parallel layout
    std::optional<std::int64_t> pp;
    std::optional<double> flops_per_step;
    std::optional<double> hardware_flops_per_step;
    std::optional<double> peak_flops;
    std::optional<double> tokens_per_step;
    std::string device_name;
};

/// The values of a "run" row. It owns its strings.
struct RunInfo : RankRole {
    std::int64_t schema = 0;
    std::string run_id;
    std::int64_t attempt = 1;
    std::optional<std::int64_t> world_size;
    std::optional<std::int64_t> dp;
    std::optional<std::int64_t> ep;
    std::optional<std::int64_t> cp;
    std::optional<std::int64_t> pid;
    std::string backend;
    std::string library_version;
    std::optional<std::int64_t> start_unix_ns;
    std::optional<std::int64_t> clock_error_ns;
    std::optional<std::int64_t> start_step;
    std::optional<std::int64_t> end_step;
    std::optional<std::int64_t> record_every_n_steps;
    std::optional<std::vector<std::int64_t>> listed_ranks;
    std::string settings;  // "name=value\n" of each of meta.settings that is no object or list, as far as 8 KiB go
};

/// What the profiler counted since the start of an attempt.
struct StatsCounts {
    std::uint64_t recorded = 0;
    std::uint64_t written = 0;
    std::uint64_t dropped_ring = 0;
    std::uint64_t dropped_slots = 0;
    std::uint64_t dropped_pool = 0;
    std::uint64_t dropped_file = 0;
    std::uint64_t dropped_io = 0;
    std::uint64_t dropped_meta = 0;  // spans without their metadata: not lost
    std::uint64_t capture_skipped = 0;
    std::uint64_t cuda_errors = 0;
    std::uint64_t abandoned = 0;
    double self_ms = 0;     // of the profiler's own threads
    double trainer_ms = 0;  // of the trainer's threads in its calls
};

/// The values of a "stats" row.
struct StatsRow : StatsCounts {
    std::optional<std::int64_t> attempt;
    std::uint64_t open = 0;
};

/// How the library changed its stride, which it says in a mark: one change, or all of an attempt.
struct StrideChange {
    std::int64_t from = 1;  // before the first
    std::int64_t to = 1;    // after the last
    std::int64_t longest = 1;
    std::int64_t first_step = 0;
    std::int64_t step = 0;   // of the last
    double max_percent = 0;  // the bound of its cost

    /// Joins another change of the same attempt.
    void add(const StrideChange& other) {
        if (other.first_step < first_step) from = other.from;
        if (other.step >= step) to = other.to;
        longest = std::max(longest, other.longest);
        first_step = std::min(first_step, other.first_step);
        step = std::max(step, other.step);
    }
    friend bool operator==(const StrideChange&, const StrideChange&) = default;
};

/// A span that began and, according to its file, never ended.
struct OpenSpan {
    std::string name;
    std::int64_t rank = 0;
    std::int64_t step = 0;
    std::int64_t attempt = 1;
    std::optional<std::int64_t> start_ns;
    double elapsed_ms = 0;
    std::uint64_t line = 0;
};

}  // namespace cep::tool
