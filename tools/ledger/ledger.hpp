// SPDX-License-Identifier: Apache-2.0
//
// Ledger: where the time of a job went. Each nanosecond of each rank, from its first row to its last, is counted once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ledger/piece.hpp"
#include "ledger/rank_timeline.hpp"
#include "model/job.hpp"

namespace cep::tool {

/// One recorded step, over the ranks that recorded it.
struct LedgerStep {
    std::int64_t step = 0;
    std::uint32_t ranks = 0;     // of which the length of the iteration is known
    std::uint32_t recorded = 0;  // all
    // Integers, so that sums do not depend on the number of threads.
    std::int64_t length_ns = 0;  // sum over `ranks`: to the next recorded step
    std::int64_t steps = 0;      // sum over `ranks`: of so many steps
    std::int64_t rows_ns = 0;    // sum over `recorded`: from the first row to the last

    [[nodiscard]] double length_ms() const { return static_cast<double>(length_ns) * 1e-6; }
    [[nodiscard]] double rows_ms() const { return static_cast<double>(rows_ns) * 1e-6; }
    /// A step of the mean rank, whether it was recorded or not, up to the next recorded one; what it recorded, if no
    /// step follows.
    [[nodiscard]] double mean_ms() const {
        if (ranks > 0 && steps > 0) return length_ms() / static_cast<double>(steps);
        return recorded > 0 ? rows_ms() / recorded : 0;
    }
    /// The recorded step itself on the mean rank.
    [[nodiscard]] double own_ms() const {
        return ranks > 0 && steps == ranks ? length_ms() / ranks : recorded > 0 ? rows_ms() / recorded : 0;
    }
};

struct RankLedger {
    std::int64_t rank = 0;
    std::int64_t elapsed_ns = 0;
    std::int64_t iteration_ns = 0;  // of elapsed: in steps, also those that were not recorded
    std::int64_t steps = 0;         // also those that were not recorded
    std::int64_t recorded = 0;
    PieceTimes pieces;        // add up to elapsed_ns
    double recorded_ms = 0;   // in recorded steps
    double step_span_ms = 0;  // of spans that enclose the others
    struct Visible {
        std::uint32_t phase;  // index into Ledger::phases
        double ms;
    };
    std::vector<Visible> visible;  // see PhaseLedger
};

/// What is seen of a phase: time in which nothing earlier in the order of TimeKind ran beside it.
struct PhaseLedger {
    std::string name;
    schema::Kind kind = schema::Kind::other;
    TimeKind piece = TimeKind::other;  // as which most of it is counted
    double visible_ms = 0;             // sum over ranks
    std::vector<double>
        own_ms{};  // by rank: a step without what it waits for, mean; NaN where it has none. Of local ones
};

/// Steps of a job, and what it did a second in them. What is not known is none.
struct Throughput {
    double elapsed_ms = 0;  // mean over ranks
    double steps = 0;       // mean over ranks
    double step_ms = 0;     // elapsed_ms / steps
    std::optional<double> tokens_per_s;
    std::optional<double> mfu;
    std::optional<double> hfu;
};

/// The time of steps of a mean rank.
struct StepTimes {
    double mean_ms = 0;     // elapsed time a step: what is paid
    double typical_ms = 0;  // median of the recorded steps
    double sd_ms = 0;
    double p90_ms = 0;
    double p99_ms = 0;
    double max_ms = 0;
};

/// At a stride: what recorded steps and the others take.
struct SamplingFact {
    double recorded_ms = 0;
    double other_ms = 0;
};

struct Ledger {
    std::vector<RankLedger> ranks;    // ascending
    std::vector<LedgerStep> steps;    // ascending
    std::vector<PhaseLedger> phases;  // by name
    PieceTimes pieces;                // sums over ranks
    std::int64_t elapsed_ns = 0;      // sum over ranks
    double recorded_ms = 0;           // sum over ranks: in recorded steps
    double step_span_ms = 0;          // sum over ranks: of spans that enclose the others
    double comm_ms = 0;               // sum over ranks: in any communication, hidden or not
    double hidden_comm_ms = 0;        // of comm_ms
    double matched_comm = 0;          // the share of spans of communication that was matched with other ranks
    bool waits_inside = false;        // phases contain waiting, of which it is an estimate what was beside work
    bool is_timed = true;             // rows have starts; else only recorded steps are counted, by their durations
    Throughput run;                   // of all of its time
    Throughput steady;                // without start-up, restarts, steps done again, such a last step, and checkpoints
                                      // and evaluation as far as most ranks do them
    StepTimes step_times;
    std::vector<std::int64_t>
        startup_steps;                      // ascending: the first ones after a start, if far longer than a typical one
    std::optional<std::int64_t> last_step;  // if it is no steady training, as something else is done behind
    std::optional<std::int64_t> stride;     // of the recorded steps
    std::optional<SamplingFact> sampling;   // where steps were not recorded
    std::string device_without_peak;        // of a rank whose FLOPs are known; "" for none
    std::optional<double> other_reading_ms;  // of rows without starts: a step, if the step span held the rows before it
                                             // or, where it is taken to hold them, if it did not

    [[nodiscard]] bool empty() const { return elapsed_ns == 0; }
    /// The share of the elapsed time.
    [[nodiscard]] double share(TimeKind piece) const {
        return empty() ? 0 : static_cast<double>(pieces[piece]) / static_cast<double>(elapsed_ns);
    }
    /// Mean over ranks.
    [[nodiscard]] double mean_ms(TimeKind piece) const {
        return ranks.empty() ? 0 : static_cast<double>(pieces[piece]) * 1e-6 / static_cast<double>(ranks.size());
    }
    [[nodiscard]] double mean_elapsed_ms() const {
        return ranks.empty() ? 0 : static_cast<double>(elapsed_ns) * 1e-6 / static_cast<double>(ranks.size());
    }
    /// Mean over ranks: in steps, also those that were not recorded.
    [[nodiscard]] double iteration_ms() const { return step_times.mean_ms * run.steps; }
    /// The share of the time of recorded steps in which nothing hides it; for spans that enclose others, all of it.
    [[nodiscard]] double share(const PhaseLedger& phase) const {
        return share(phase, {phase.visible_ms, step_span_ms, recorded_ms});
    }
    struct Sums {
        double visible_ms = 0;  // of the phase
        double step_span_ms = 0;
        double recorded_ms = 0;
    };
    /// The same of some of the ranks, of which the sums are given.
    [[nodiscard]] static double share(const PhaseLedger& phase, const Sums& sums) {
        if (sums.recorded_ms <= 0) return 0;
        const bool encloses = phase.kind == schema::Kind::step && phase.visible_ms == 0;
        return (encloses ? sums.step_span_ms : sums.visible_ms) / sums.recorded_ms;
    }
    [[nodiscard]] const PhaseLedger* find(std::string_view phase) const;
    [[nodiscard]] const RankLedger* find_rank(std::int64_t rank) const;
};

/// What is known of one rank, before what is known of all ranks is added.
struct RankTally {
    bool is_timed = false;  // rows have starts
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    double comm_ms = 0;
    double hidden_comm_ms = 0;
    double all_comm_ms = 0;        // of all spans, overlapping or not
    double matched_comm_ms = 0;    // of it
    bool waits_inside = false;     // phases contain waiting
    std::vector<Iteration> first;  // the first ones after each start, without exposures
    Iteration last;                // without exposures
    struct Marked {
        TimeKind piece;
        PieceTimes pieces;
    };
    std::vector<Marked> marked;  // iterations with a mark that names what a phase may not
};

inline constexpr std::uint32_t first_iterations = 10;  // after a start, that may be start-up

/// Completes the ledger of a job from those of its ranks: steps that were not recorded, start-up, marks, throughput.
/// `roles`, `tallies`: of the ledger's ranks, in their order. `peak_flops` precedes what run rows and the table of
/// devices say.
[[nodiscard]] Ledger complete_ledger(Ledger&& ledger, const std::vector<RankRole>& roles,
                                     std::optional<double> peak_flops, const std::vector<RankTally>& tallies);

/// Spreads the time between recorded steps over pieces: as recorded steps have them, as far as that fits.
void spread_unrecorded(const RankOutside& outside, RankLedger& rank);

/// Dense peak of a device, FLOP/s, of 16-bit floats with 32-bit accumulation; none for a device that is not in the
/// table, or a part of one (MIG).
[[nodiscard]] std::optional<double> known_peak_flops(std::string_view device_name);
[[nodiscard]] std::optional<double> peak_of(const RankRole& rank, std::optional<double> given);

}  // namespace cep::tool
