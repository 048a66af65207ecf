// SPDX-License-Identifier: Apache-2.0
//
// Summary: the figures of each phase, group and counter of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_ranges.hpp"
#include "model/job.hpp"
#include "read/inputs.hpp"
#include "summary/counter_summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// What the lines of the table are, beside phases.
struct Grouping {
    enum class By : std::uint8_t { phase, rank, host, step };
    By by = By::phase;
    std::int64_t window_steps = 1;  // By::step

    /// "phase", "rank", "host" or "step:N". Throws UsageError.
    [[nodiscard]] static Grouping parse(std::string_view text);
    [[nodiscard]] std::string name() const;
};

struct PhaseSummary {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    Clock clock = Clock::none;
    std::uint64_t count = 0;
    std::uint64_t ranks = 0;
    double mean_ms = 0;
    double p50_ms = 0;  // this and the other quantiles: of the steps that are kept; NaN where these have no span of it
    double p90_ms = 0;
    double p99_ms = 0;
    double min_ms = 0;
    double max_ms = 0;
    double total_ms = 0;
    std::optional<double> sd_ms;  // of the steps that are kept
    std::optional<double> share;
    std::int64_t slowest_rank = 0;
    std::optional<double> skew;
};

/// The quantiles of a phase, ascending.
struct PhaseQuantile {
    double q = 0;
    double PhaseSummary::*member = nullptr;
};
inline constexpr PhaseQuantile phase_quantiles[] = {
    {0.5, &PhaseSummary::p50_ms}, {0.9, &PhaseSummary::p90_ms}, {0.99, &PhaseSummary::p99_ms}};

/// One phase of one rank, host or window of steps.
struct GroupSummary {
    std::int64_t first = 0;  // By::rank: the rank. By::step: the first step of the window
    std::int64_t last = 0;   // By::step: the last one
    std::string host;        // By::host; and of a rank the last one it was on
    PhaseSummary phase;
    double excess_ms = 0;  // of the mean over the median of all groups' means; of ranks, of what they do themselves
    std::optional<double> median_ratio;  // the median over the median of all groups' medians
};

/// What the profiler took of the steps that it recorded, by its own estimate.
struct OwnCost {
    double median_share = 0;  // over ranks: time in calls of the profiler / time of the recorded steps
    double largest_share = 0;
    std::int64_t largest_rank = 0;
};

/// Ranks where the library recorded fewer steps than it was asked for, to keep its cost below a bound: those whose
/// stride was changed alike.
struct StrideChangeGroup {
    std::int64_t from = 1;  // the user's stride
    std::int64_t to = 1;    // after the last change
    double max_percent = 0;
    NumberRanges steps;  // of the last changes
    NumberRanges ranks;
};

/// Paths of the snapshots of memory beside the rank files, by the order of these: cep.torch.snapshot_on_oom() wrote
/// them when a rank ran out of it.
[[nodiscard]] std::vector<std::string> find_oom_snapshots(const InputSet& inputs);

struct Summary {
    std::vector<PhaseSummary> phases;
    Grouping grouping;
    std::vector<GroupSummary> groups;  // ordered by group, then as the phases are
    std::vector<CounterSummary> counters;
    std::optional<MemorySummary> memory;  // none where no memory was counted
    std::vector<std::string> oom_snapshots{};
    std::optional<OwnCost> own_cost;                // none where no rank has both, or where only some steps were read
    std::vector<StrideChangeGroup> stride_changes;  // by strides, without ranks whose stride came back to the user's
};

/// `verdict`: for shares of the time, what ranks do themselves, and which of them it names; nullptr without. Throws
/// UsageError where the job does not hold the durations that the grouping needs.
[[nodiscard]] Summary summarize(const Job& job, const Grouping& grouping, std::size_t threads, const Verdict* verdict);

}  // namespace cep::tool
