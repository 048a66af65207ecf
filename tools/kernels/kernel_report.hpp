// SPDX-License-Identifier: Apache-2.0
//
// Kernel report: what all ranks' GPUs did, which rank stands out, and what the traces lacked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rank_trace.hpp"
#include "read/coverage.hpp"
#include "read/inputs.hpp"
#include "show/document.hpp"
#include "show/json_writer.hpp"
#include "show/table.hpp"

namespace cep::kernels {

struct TraceCounts {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;  // decompressed
    std::uint64_t events = 0;
    std::uint64_t gpu_events = 0;
    std::uint64_t skipped_events = 0;
    std::uint64_t truncated_files = 0;
    std::uint64_t unreadable_files = 0;
    std::uint64_t repeated_files = 0;
    std::uint64_t duplicate_traces = 0;
    std::uint64_t empty_traces = 0;     // without a GPU event
    std::vector<std::string> messages;  // what is wrong and where: "file: why", "file:byte 123: why"

    /// Whether all traces are whole, and no GPU did anything in them.
    [[nodiscard]] bool are_of_cpus() const {
        return gpu_events == 0 && empty_traces > 0 && events > 0 && unreadable_files + truncated_files == 0;
    }
    [[nodiscard]] bool complete() const {
        return skipped_events + truncated_files + unreadable_files + duplicate_traces + empty_traces == 0;
    }
};

/// How far the ranks' times of one kind of work lie apart.
struct RankSpread {
    std::string what;  // "own work", "matmul", "comm", "memory", "other" or "idle"
    std::int64_t longest_rank = 0;
    double longest_ms = 0;
    std::int64_t shortest_rank = 0;
    double shortest_ms = 0;
    double median_ms = 0;
    std::optional<double> excess;  // of the longest over the median of the others, as a fraction of it
    double deficit_ms = 0;         // of the shortest under the median of the others
    // Chances of such a rank among as many that are alike, from how steps vary; none where steps are not known, or one.
    std::optional<double> longest_chance{};
    std::optional<double> shortest_chance{};
};

struct KernelReport {
    TraceCounts inputs;
    std::vector<RankTrace> ranks;  // in order
    tool::Coverage coverage;
    RankTrace total;                  // of all ranks; its window, steps and paths are not used
    bool per_step = false;            // spreads are of a mean step, not of the trace
    std::size_t compared_steps = 0;   // that every rank has
    std::vector<RankSpread> spreads;  // none for a single rank

    /// nullptr for a single rank.
    [[nodiscard]] const RankSpread* spread_of(std::string_view what) const;
};

/// One trace, read and added up.
struct TraceOutcome {
    TraceData data;  // without its events
    RankTrace trace;

    [[nodiscard]] bool has_gpu_events() const { return trace.time.gpus > 0; }
};

/// Reads a trace and adds it up.
[[nodiscard]] TraceOutcome read_and_analyze(const tool::InputFile& file, tool::Progress& progress);

/// `outcomes` are in the order of the inputs' files.
[[nodiscard]] KernelReport make_report(std::vector<TraceOutcome> outcomes, const tool::InputSet& inputs);

[[nodiscard]] double to_ms(std::int64_t time_ns);

/// The document for one format. JSON has schema cep.kernels/3, and at most `rendering.limit` kernels of each rank; 0:
/// all. CSV has a line for each rank and one for all.
[[nodiscard]] tool::Document make_document(KernelReport report, const tool::Rendering& rendering);

/// What the traces lacked, in one line; "" for nothing.
[[nodiscard]] std::string describe_gaps(const KernelReport& report);

/// How long the GPUs were busy.
[[nodiscard]] std::string describe_busy(const KernelReport& report);
/// Which classes of kernels took the time, how much communication was exposed, how long kernels are, which matrix
/// products run on Tensor Cores, and copies from pageable memory.
[[nodiscard]] std::vector<std::string> describe_work(const KernelReport& report);

/// Whether the other ranks wait for one of them.
struct RankVerdict {
    bool stands_out = false;
    std::string text;    // "" for a single rank
    std::string advice;  // ""; where to look next
};
[[nodiscard]] RankVerdict judge_ranks(const KernelReport& report);

/// What to do, by thresholds that cep-kernels(1) lists.
[[nodiscard]] std::vector<std::string> advise(const KernelReport& report);

}  // namespace cep::kernels
