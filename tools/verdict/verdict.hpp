// SPDX-License-Identifier: Apache-2.0
//
// Verdict: what slows a job, or that nothing does, or why the rows cannot show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "advice/losses.hpp"
#include "ledger/job_table.hpp"
#include "ledger/ledger.hpp"
#include "model/job.hpp"
#include "replay/replay.hpp"
#include "verdict/changes.hpp"
#include "verdict/efficiency.hpp"
#include "verdict/peers.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {

/// A host all of whose ranks are slow.
struct SlowHost {
    std::string host;
    std::uint64_t ranks = 0;
};

using Findings = std::vector<const Finding*>;

struct Verdict {
    Ledger ledger;
    std::vector<TimeLoss> losses;  // the largest first
    Bound bound = Bound::unknown;
    std::optional<StepShares> shares;
    std::optional<double> step_ms;  // typical
    std::optional<double> mean_step_ms;
    std::vector<Finding> findings;  // the costliest first
    std::optional<EarlyEnd> early_end;
    bool takes_turns = false;      // ranks wait long for each other, but no rank is late more often than chance
    bool is_waiting_known = true;  // else: no collective is timed
    std::uint64_t ranks = 0;
    std::optional<double> uncovered_ms;  // of a usual step of the median rank
    std::uint64_t steps_used = 0;        // of all_steps, chosen at random
    std::uint64_t all_steps = 0;
    std::vector<std::string> impossible;  // what cannot be, and which input to check
    std::vector<SlowHost> slow_hosts;
    std::optional<std::size_t> steps_of_hint;  // that are too few for a verdict
    EventFacts events;
    std::optional<double> job_slowdown;  // time of the steps / what it would be without what the headline names
    Precision saving_precision = Precision::exact;
    bool has_devices = false;              // run rows name them: ranks run on GPUs
    bool saving_is_waiting = false;        // what the others wait: hosts may take back some of the saving
    std::optional<double> gpu_hours_lost;  // in the window, unrecorded steps being like recorded ones
    Efficiency efficiency;
    bool abstained = false;           // from naming stragglers, or saying that there are none
    std::string reason;               // why
    std::string to_do;                // how to get an answer
    Replay replay;                    // what makes steps longer, and by how much
    std::uint64_t folded_phases = 0;  // that the verdict takes as one

    /// Nullptr if there is none.
    [[nodiscard]] const Finding* first_of(FindingKind kind) const;
    /// A pipeline stage with more work than the others, as far as that is measured; nullptr if there is none.
    [[nodiscard]] const Finding* stage_imbalance() const {
        const Finding* const stage = first_of(FindingKind::stage);
        return stage != nullptr && stage->slow_ms ? stage : nullptr;
    }
    /// Slow ranks, and groups, that cost something.
    [[nodiscard]] Findings stragglers() const { return findings_of(FindingKind::straggler, true); }
    [[nodiscard]] Findings groups() const { return findings_of(FindingKind::group, true); }
    /// Slow ranks that cost nothing, and what ranks differ in: nobody waits for them, or for too short a time.
    [[nodiscard]] Findings harmless() const {
        return findings_that([](const Finding& one) {
            return (one.kind == FindingKind::straggler && !one.is_costly) || one.kind == FindingKind::difference;
        });
    }
    /// Of everyone's steps, in their order.
    [[nodiscard]] Findings changes() const {
        return findings_that([](const Finding& one) { return one.kind == FindingKind::change; });
    }
    /// The largest to longer steps; nullptr if there is none.
    [[nodiscard]] const Finding* worst_change() const;
    /// What else makes steps longer, and all slow ranks together.
    [[nodiscard]] Findings causes() const { return findings_that(is_cause); }
    /// What a mean step saves, by a share of the replayed steps. These may be slower than the others, or have time
    /// between them.
    [[nodiscard]] double saved_ms(double share) const;
    [[nodiscard]] bool names_ranks() const { return !stragglers().empty() || !groups().empty(); }
    void abstain(std::string why, std::string how_to_answer);

  private:
    template <typename Use>
    [[nodiscard]] Findings findings_that(Use use) const {
        Findings found;
        for (const Finding& one : findings)
            if (use(one)) found.push_back(&one);
        return found;
    }
    [[nodiscard]] Findings findings_of(FindingKind kind, bool are_costly) const {
        return findings_that([=](const Finding& one) { return one.kind == kind && one.is_costly == are_costly; });
    }
};

/// A verdict, and what it was made from.
struct Judgement {
    Verdict verdict;
    JobTable table;
    std::vector<PeerGroup> groups{};
    StepMatrix own_ms{};  // what each rank does in a step
};

struct JudgeOptions {
    std::optional<double> peak_flops;  // of every rank's device, whatever its run row says
    std::size_t threads = 1;
    bool only_ranks = false;  // looks for slow ranks, and for nothing else that makes steps longer
};

/// Whether the others wait for a slow rank for much longer than their hosts are ahead.
[[nodiscard]] bool is_up_to_hosts(const Verdict& verdict);

/// "rank 6 stopped recording after step 49".
[[nodiscard]] std::string describe_early_end(const EarlyEnd& end);

/// Whether a rank was started so often that its steps are not looked at.
[[nodiscard]] bool starts_too_often(const RankSeries& ranks);

[[nodiscard]] Judgement judge(const Job& job, const JudgeOptions& options);

}  // namespace cep::tool
