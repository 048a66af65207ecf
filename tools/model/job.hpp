// SPDX-License-Identifier: Apache-2.0
//
// Job: all that is known of a training job from its inputs. load() makes it; analyses read it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_ranges.hpp"
#include "model/collectives.hpp"
#include "model/phase_series.hpp"
#include "read/coverage.hpp"
#include "read/filter.hpp"
#include "read/loss.hpp"
#include "read/run_choice.hpp"

namespace cep::tool {

/// One start of the trainer, over all ranks that took part.
struct JobRun {
    std::string run_id;
    std::int64_t attempt = 1;
    std::uint64_t ranks = 0;
    std::int64_t start_unix_ns = std::numeric_limits<std::int64_t>::max();
    std::optional<std::int64_t> first_step;
    std::optional<std::int64_t> last_step;
};

/// The recorded steps.
struct StepWindow {
    std::optional<std::int64_t> first;
    std::optional<std::int64_t> last;
    std::uint64_t count = 0;
    std::optional<std::int64_t> stride;
};

struct MarkCount {
    NumberRanges ranks;
    NumberRanges steps;
    std::uint64_t count = 0;
};

/// Ranks that recorded no more steps while others went on for long.
struct EarlyEnd {
    std::vector<std::int64_t> ranks;  // ascending
    std::int64_t last_step = 0;       // that all of them have
    bool is_compared = false;         // up to that step there are enough steps to compare ranks in

    /// Whether it is behind the last step in which ranks are compared.
    [[nodiscard]] bool is_behind(std::int64_t step) const { return is_compared && step > last_step; }
};

struct Job {
    InputCounts inputs;
    RunSelection selection;  // the run that it is, for those who read its rows again
    Coverage coverage;
    Loss loss;
    Filter filter;             // that spans have passed
    std::vector<JobRun> runs;  // in the order of their starts
    std::uint64_t hosts = 0;
    StepWindow steps;
    RankSeries ranks;            // repeated steps and rows are removed
    Collectives collectives{1};  // only number 0 if LoadOptions say so
    std::vector<OpenSpan> open_spans;
    std::map<std::string, MarkCount> marks;
    std::uint64_t duplicate_rows = 0;   // the same row in two files
    std::uint64_t superseded_rows = 0;  // of steps that a later attempt repeated
    StepChoice choice;                  // of steps with samples, where there are more than max_samples
    bool repeats_unresolved = false;    // of these, steps of several attempts count several times
    std::optional<EarlyEnd> early_end;
};

/// Of the spans that began, as far as ranks count them: those that no row is of.
[[nodiscard]] double lost_share(const Loss& loss);
/// Those with a mark row.
[[nodiscard]] NumberRanges marked_steps(const Job& job);

/// load() does this.
void number_collectives(Job& job, std::size_t threads);

/// One series, and whose it is.
struct SeriesOfRank {
    std::int64_t rank = 0;
    const RunSeries* series = nullptr;
};
/// Rank by rank.
[[nodiscard]] std::vector<SeriesOfRank> all_series(const RankSeries& ranks);

[[nodiscard]] bool any_phase(const RankSeries& ranks, bool (*is_one)(const PhaseSeries& phase));

/// One phase of one series.
struct SeriesOfPhase {
    std::int64_t rank = 0;
    const RunSeries* series = nullptr;
    const PhaseSeries* phase = nullptr;
};

/// Calls `use` with those of each rank, which come rank by rank.
template <typename Series, typename Use>
void for_each_rank(std::span<const Series> series, Use use) {
    for (std::size_t first = 0, next = 0; first < series.size(); first = next) {
        while (next < series.size() && series[next].rank == series[first].rank) ++next;
        use(series.subspan(first, next - first));
    }
}

/// The numbers of the steps of all ranks, each once, ascending.
[[nodiscard]] std::vector<std::int64_t> all_steps(const RankSeries& ranks);
/// Those of which all durations were kept.
[[nodiscard]] std::vector<std::int64_t> kept_steps(const Job& job);

[[nodiscard]] std::optional<EarlyEnd> find_early_end(const RankSeries& ranks);

/// By index in `steps`, which ascend: whether only some ranks recorded the step, because the library lengthened the
/// stride of others. Empty: there is none. What compares ranks leaves such steps out: a job that waits for a rank that
/// has no row would seem to wait for nobody.
[[nodiscard]] std::vector<bool> find_partial_steps(const RankSeries& ranks, const std::vector<std::int64_t>& steps);

/// The phase whose spans are whole steps: of step spans inside step spans the outermost, which take the most time.
struct StepPhase {
    bool found = false;
    std::string_view name;  // of equals, the first by name
    double total_ms = 0;
};
[[nodiscard]] StepPhase find_step_phase(std::span<const SeriesOfRank> all_series);

/// From the rank's last run row.
[[nodiscard]] RankRole role_of(std::int64_t rank, const std::vector<RunSeries>& of_rank);

}  // namespace cep::tool
