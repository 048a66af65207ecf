// SPDX-License-Identifier: Apache-2.0
//
// Verdict: what slows a job, or that nothing does, or why the rows cannot show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advice/losses.hpp"
#include "ledger/job_table.hpp"
#include "ledger/ledger.hpp"
#include "model/job.hpp"
#include "replay/replay.hpp"
#include "show/picture.hpp"
#include "verdict/changes.hpp"
#include "verdict/hint.hpp"
#include "verdict/efficiency.hpp"
#include "verdict/late_host.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {

struct StragglerFact : Slowness {
    std::int64_t rank = 0;
    std::string host;
    schema::Kind kind = schema::Kind::other;  // of the phase
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::optional<std::int64_t> every_steps;  // slow steps are so many steps apart
    std::optional<double> cost_share;         // of the time of all steps, if it were the only straggler
    std::optional<LateHost> late_host;
};

/// Ranks of one role that fall into two populations.
struct GroupFact {
    StragglerFact typical;  // of the slow ones; its cost is that of all of them
    std::vector<std::int64_t> slow_ranks;
    std::vector<std::int64_t> fast_ranks;
    std::vector<std::string> slow_hosts;  // on which no rank is fast
    std::vector<std::string> fast_hosts;
    std::optional<std::int64_t> pp;
    std::optional<std::int64_t> tp;
    double fast_ms = 0;  // of the phase
};

/// A rank for which others wait, though no phase of it is longer.
struct LateRank {
    std::int64_t rank = 0;
    std::string host;
    double late_ms = 0;
    double step_fraction = 0;
};

/// A host all of whose ranks are slow.
struct SlowHost {
    std::string host;
    std::uint64_t ranks = 0;
};

/// A pipeline stage that has more work than the others.
struct StageImbalance {
    std::int64_t stage = 0;
    double ratio = 1;  // its own work / that of a typical stage
    double own_ms = 0;
    double typical_ms = 0;
    bool one_rank = false;  // each stage is one rank, so that it may be the rank
};

struct Verdict {
    Ledger ledger;
    std::vector<TimeLoss> losses;  // the largest first
    Bound bound = Bound::unknown;
    std::optional<StepShares> shares;
    std::optional<double> step_ms;  // typical
    std::optional<double> mean_step_ms;
    std::vector<StragglerFact> stragglers;
    std::vector<StragglerFact> harmless;  // slow, but nobody waits for them, or for too short a time
    std::vector<GroupFact> groups;
    std::optional<LateRank> late;
    std::optional<EarlyEnd> early_end;
    bool takes_turns = false;      // ranks wait long for each other, but no rank is late more often than chance
    bool is_waiting_known = true;  // else: no collective is timed
    std::uint64_t ranks = 0;
    std::optional<double> uncovered_ms;  // of a usual step of the median rank
    std::uint64_t steps_used = 0;        // of all_steps, chosen at random
    std::uint64_t all_steps = 0;
    std::vector<std::string> impossible;  // what cannot be, and which input to check
    std::vector<SlowHost> slow_hosts;
    std::optional<StageImbalance> stage_imbalance;
    std::optional<std::size_t> steps_of_hint;  // that are too few for a verdict
    std::optional<Hint> hint;
    std::vector<ChangeFact> changes;
    EventFacts events;
    std::optional<double> job_slowdown;    // time of the steps / what it would be without the stragglers
    bool slowdown_is_bound = false;        // it is at most that: some of the waiting may be beside work
    std::optional<double> gpu_hours_lost;  // in the window, unrecorded steps being like recorded ones
    Efficiency efficiency;
    bool abstained = false;           // from naming stragglers, or saying that there are none
    std::string reason;               // why
    std::string to_do;                // how to get an answer
    Replay replay;                    // what makes steps longer, and by how much
    std::uint64_t folded_phases = 0;  // that the verdict takes as one
    std::optional<StepPicture> picture;
};

struct JudgeOptions {
    std::optional<double> peak_flops;  // of every rank's device, whatever its run row says
    std::size_t threads = 1;
    bool replays = true;        // the steps, for causes
    bool draws = false;         // a picture of the steps
    JobTable* table = nullptr;  // gets the table that the verdict is made from
};

/// "rank 6 stopped recording after step 49".
[[nodiscard]] std::string describe_early_end(const EarlyEnd& end);

/// Whether a rank was started so often that its steps are not looked at.
[[nodiscard]] bool starts_too_often(const RankSeries& ranks);

[[nodiscard]] Verdict judge(const Job& job, const JudgeOptions& options);

}  // namespace cep::tool
