// SPDX-License-Identifier: Apache-2.0
//
// Finding: something that makes steps longer than they need be. Who and what it is about, in which steps, what it
// costs, and what shows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/phase_series.hpp"
#include "stats/change_points.hpp"

namespace cep::tool {

enum class FindingKind : std::uint8_t {
    straggler,      // a rank that is slower than its peers
    group,          // ranks of one role that fall into two populations
    difference,     // the same, but the faster ones do not wait for the others
    late,           // a rank for which others wait, though no phase of it is longer
    hint,           // of steps that are too few for a verdict, the rank that stands out in all of them
    change,         // of everyone's steps, from some step on; costly if to longer ones
    ranks,          // all stragglers and groups that cost something, together
    host,           // the same, if they are a host
    stage,          // a pipeline stage that works longer than the others; a cause only if that costs something
    micro_batches,  // the same ones are long in forward and backward
    jitter,
    communication,
    link,
    routing,
    pauses,
    special  // one that shows by itself: see special_causes.hpp
};

enum class Pattern : std::uint8_t { persistent, intermittent, window };
inline constexpr std::array<std::string_view, 3> pattern_names = {"persistent", "intermittent", "window"};

/// The name of time that no phase covers.
inline constexpr std::string_view uncovered_name = "uncovered";

/// From the launch of a collective until its device begins it, median.
struct LateHost {
    double lag_ms = 0;
    double peers_lag_ms = 0;  // median over the peers
};

/// Whether a saving is the stated one, about that, or at most that.
enum class Precision : std::uint8_t { exact, about, at_most };

/// How a cause is said.
struct CauseText {
    std::string what;                      // "uneven work is …"
    std::string without = "without that";  // how steps would be
    std::string label;                     // of a chart
    std::string next{};                    // what to do
};

/// "ranks 4–7 (node1)".
[[nodiscard]] std::string name_of(const std::vector<std::int64_t>& ranks, const std::vector<std::string>& hosts);

struct Finding {
    FindingKind kind = FindingKind::straggler;
    std::string_view special_name{};    // in JSON, of the special kind
    std::vector<std::int64_t> ranks{};  // group: the slow ones; late, straggler: one
    std::vector<std::string> hosts{};   // group: those on which no rank is fast; else the one on which all are, if any
    std::optional<std::int64_t> stage{};
    std::optional<std::int64_t> tp{};
    std::string phase{};  // where most of it is; "" if not known
    schema::Kind phase_kind = schema::Kind::other;
    std::vector<std::string> also{};  // further phases of the rank that are slow

    // Stragglers, groups and late ranks, compared with their peers. Of a group, of a typical slow rank.
    std::int64_t typical_rank = 0;
    std::string typical_host{};
    Pattern pattern = Pattern::persistent;
    bool grows = false;  // from step to step
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::vector<bool> slow{};                        // by step of the table
    double slowdown = 1;                             // of the phase, in slow steps: own time / that of a usual rank,
                                                     // infinite where that does not do it
    double excess_ms = 0;                            // a slow step, median
    double all_excess_ms = 0;                        // a slow step, mean, in all phases that are slow
    double step_fraction = 0;                        // of all steps that are slow; 0: not known
    std::optional<std::int64_t> every_steps{};       // slow steps are so many steps apart
    std::int64_t every_recorded = 0;                 // the same in recorded steps; 0 if they are not regularly spaced
    std::optional<double> waiters_median_wait_ms{};  // in slow steps; none if waiting is unknown
    double confidence = 0;                           // 1 − the chance that noise alone makes any rank look like this
    bool is_of_some = false;                         // some ranks do not do the phase
    bool is_alone = false;                           // no other rank does it
    std::vector<std::int64_t> fast_ranks{};
    std::vector<std::string> fast_hosts{};  // on which no rank is slow
    std::optional<LateHost> late_host{};

    bool keeps_waiting = true;           // the others wait for it, as far as that is known
    bool may_keep_waiting = false;       // else: they may wait for it where no row shows it
    bool is_waiting_known = true;        // else: its collectives, or those of the others, are matched with nobody's
    bool is_costly = true;               // else it is a note: nobody waits, or what it costs is too little
    std::optional<double> cost_share{};  // of the time of the steps, if nothing else were the matter; none if unknown
    double waited_share = 0;             // of the time of the steps: what the others wait for it; 0 if unknown
    bool is_up_to_hosts = false;         // the others wait much longer for it than their hosts are ahead
    double least_wait_share = 0;         // of the time of the steps: what each of the others waits at least
    bool is_approximate = false;         // it costs about that: the replay does not see all waiting for it
    double loss_share = 0;  // of what would be gained if the job were balanced, its sources evened out in turn

    // group: the phase on the fast ones, and on the slow. stage: work of a typical stage, and of this. link: a
    // transfer of other groups, and there. special: without it, and with it. routing: routed work of a rank, the
    // mean, and that of the rank with the most. pauses: 0, and a pause. change: a step before, and after: what is
    // typical, or the mean. hint: own work of the median peer, and of the rank, medians. Of a change, `excess_ms` is
    // that of its phase.
    std::optional<double> usual_ms{};
    std::optional<double> slow_ms{};
    std::optional<ChangePoint> change{};
    CauseText text{};
    /// "forward", "time that no phase covers".
    [[nodiscard]] std::string phase_text() const;
    /// " in forward"; "" if its phase is not known.
    [[nodiscard]] std::string in_phase() const { return phase.empty() ? "" : " in " + phase_text(); }
    /// Whether it takes longer in time that no phase covers, if only beside phases.
    [[nodiscard]] bool is_slow_uncovered() const;
};

/// The kind of a cause in JSON.
[[nodiscard]] inline std::string_view kind_name(const Finding& cause) {
    constexpr std::array<std::string_view, 9> names = {"ranks",         "host", "stage",   "micro_batches", "jitter",
                                                       "communication", "link", "routing", "jitter"};
    const auto number = static_cast<std::size_t>(cause.kind) - static_cast<std::size_t>(FindingKind::ranks);
    return cause.kind == FindingKind::special ? cause.special_name : names[number];
}

[[nodiscard]] inline bool is_of_slow_ranks(const Finding& finding) {
    return finding.kind == FindingKind::straggler || finding.kind == FindingKind::group;
}

/// What else makes steps longer, and all slow ranks together: what the replay finds.
[[nodiscard]] inline bool is_cause(const Finding& finding) {
    return finding.kind >= FindingKind::ranks && finding.cost_share.has_value();
}

}  // namespace cep::tool
