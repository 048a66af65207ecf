// SPDX-License-Identifier: Apache-2.0
#include "verdict/judged_job.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/units.hpp"
#include "ledger/table_quantiles.hpp"
#include "verdict/slow_rank_text.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {
namespace {

constexpr double little_comm = 0.05;  // of a step: no unseen rank can hold the others up for longer
constexpr double much_waiting = 0.1;  // of a step: no job that waits so long is called healthy
constexpr double unexplained = 1.5;   // waiting than what is timed explains

/// Of a step: in collectives, beside which no work runs, that were not matched with those of other ranks.
double unmatched_share(const JobTable& table, const Ledger& ledger) {
    return (1 - ledger.matched_comm) * typical_ms(table.exposed_ms) / typical_ms(table.step_ms);
}

/// What the rank with the least communication spends in it.
double least_comm_share(const JobTable& table) {
    std::vector<double> shares = quantiles_over_ranks(table.comm_ms, 0);
    for (std::size_t step = 0; step < shares.size(); ++step) shares[step] /= table.median_step_ms[step];
    return median_of(shares);
}

/// Whether ranks wait clearly longer than for the slowest one of each step, as far as their work is timed. Means
/// nothing where collectives run beside work: how much of the waiting holds up the work is not known.
bool waits_more_than_work_explains(const JudgedJob& judged, double wait_ms) {
    const JobTable& table = judged.table;
    StepMatrix work_ms = judged.own_ms;
    for (std::size_t rank = 0; rank < work_ms.ranks(); ++rank)
        for (std::size_t step = 0; step < work_ms.steps(); ++step)
            work_ms.set(rank, step, work_ms.at(rank, step) + table.uncovered_ms.at(rank, step));
    const std::vector<std::size_t>& ranks = judged.groups.front().ranks;  // all, in one group
    std::vector<std::vector<double>> quantiles_ms = quantiles_over_ranks(work_ms, ranks, std::array{0.5, 1.0});
    std::vector<double>& explained_ms = quantiles_ms[1];
    for (std::size_t step = 0; step < explained_ms.size(); ++step) explained_ms[step] -= quantiles_ms[0][step];
    return wait_ms > unexplained * typical_ms(explained_ms);
}

/// All ranks but one that they may wait for.
struct Waiters {
    std::string wait = "the others wait";
    std::string them = "them";
    double wait_ms = 0;  // a step
};

Waiters waiters_for(std::int64_t rank, const JobTable& table) {
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < table.ranks.size(); ++i)
        if (table.ranks[i].rank != rank) others.push_back(i);
    Waiters waiters;
    waiters.wait_ms = typical_ms(quantiles_over_ranks(table.wait_ms, others, 0.5));
    if (others.size() == 1) {
        waiters.them = fmt::format("rank {}", table.ranks[others.front()].rank);
        waiters.wait = waiters.them + " waits";
    }
    return waiters;
}

void abstain_on_late(const JobTable& table, std::vector<Finding> late, double wait_ms, Verdict& verdict) {
    if (const std::vector<std::int64_t> together = late_together(late); together.size() > 1)
        return verdict.abstain(
            fmt::format("the others wait {} a step for ranks {}, which come late together, though no "
                        "phase of them is clearly longer",
                        format_duration_ms(wait_ms), format_ranges(together, 4)),
            "compare the links between these ranks with those of others, and time what they do "
            "before their collectives");
    const std::int64_t rank = late.front().ranks.front();
    verdict.findings.push_back(std::move(late.front()));
    const Waiters waiters = waiters_for(rank, table);
    verdict.abstain(fmt::format("{} {} a step for rank {}, but no phase of it is clearly longer than on {}",
                                waiters.wait, format_duration_ms(waiters.wait_ms), rank, waiters.them),
                    fmt::format("time what rank {} does before its collectives, with phases around it", rank));
}

// Nobody is slow in any phase. Who waits, then, and for whom?
void abstain_on_waiting(const JudgedJob& judged, Verdict& verdict) {
    const double wait_ms = typical_ms(judged.table.wait_ms);
    if (wait_ms < StragglerRules::late * typical_ms(judged.table.median_step_ms)) return;
    std::vector<Finding> late = find_late(judged.table, judged.groups);
    std::erase_if(late, [&](const Finding& one) { return one.excess_ms * one.step_fraction < wait_ms / 2; });
    if (!late.empty()) return abstain_on_late(judged.table, std::move(late), wait_ms, verdict);
    if (const auto likely = find_most_likely_late(judged.table, judged.groups);
        likely && likely->excess_ms >= wait_ms / 2)
        return verdict.abstain(
            fmt::format(
                "{} {} a step longer than rank {}, perhaps for it; but steps vary so much that this may be chance",
                waiters_for(likely->ranks.front(), judged.table).wait, format_duration_ms(likely->excess_ms),
                likely->ranks.front()),
            "record more steps");
    if (judged.groups.size() != 1) return;
    if (!verdict.ledger.waits_inside && waits_more_than_work_explains(judged, wait_ms))
        return verdict.abstain(
            fmt::format("ranks wait {} a step for each other, and what they do before does not explain it",
                        format_duration_ms(wait_ms)),
            "time more phases between the collectives, and check that collectives have their group and coll");
    verdict.takes_turns = verdict.shares && lateness_of(*verdict.shares) >= much_waiting;
}

/// Whether it is so much longer in a phase that a job which waits for that is not healthy.
bool is_much(const Finding& one, const JobTable& table) {
    return one.excess_ms * one.step_fraction >= little_comm * typical_ms(table.median_step_ms);
}

std::string describe_longer(const Finding& one) {
    return one.kind == FindingKind::difference ? describe_group(one) : describe_straggler(one);
}

// Who is longer in a phase, or waits, may do so for a collective that one of the ranks has no row of.
void abstain_on_unmatched(const JobTable& table, Verdict& verdict) {
    const std::string advice = "give collectives their group and coll, and time them on all ranks";
    const double share = unmatched_share(table, verdict.ledger);
    const bool may_wait = verdict.shares && lateness_of(*verdict.shares) > little_comm;
    if (share > little_comm && verdict.shares && (may_wait || !verdict.harmless().empty()))
        return verdict.abstain(fmt::format("{} of a step is in collectives that could not be matched between ranks",
                                           format_percent(share)),
                               advice);
    if (!verdict.replay.is_possible || verdict.replay.is_matched()) return;
    for (const Finding* const one : verdict.harmless())
        if (is_much(*one, table))
            return verdict.abstain(fmt::format("{}: nobody seems to wait for that, but of the communication only {} "
                                               "could be matched between ranks",
                                               describe_longer(*one), format_percent(verdict.replay.matched)),
                                   advice);
}

// Where not all collectives are timed, ranks wait in time that no phase covers.
void abstain_on_unseen_waits(const JobTable& table, Verdict& verdict) {
    for (const Finding* const one : verdict.harmless()) {
        if (!one->may_keep_waiting || !is_much(*one, table)) continue;
        const bool is_difference = one->kind == FindingKind::difference;
        const bool is_of_one = is_difference && one->fast_ranks.size() == 1;
        return verdict.abstain(
            fmt::format("{}, but {} {} as long in all: {} may wait for that, or do it too, where no row shows it",
                        describe_longer(*one), is_difference ? name_of(one->fast_ranks, one->fast_hosts) : "the others",
                        is_of_one ? "takes" : "take", is_of_one ? "it" : "they"),
            "time all collectives, with their group and coll");
    }
}

void abstain_on_unseen(const Coverage& coverage, Verdict& verdict) {
    const auto expected = coverage.ranks_expected.value_or(coverage.ranks_seen);
    if (expected <= coverage.ranks_seen)
        return verdict.abstain(
            fmt::format("no slow rank is among the {} that were chosen, and all of them wait: it may be another",
                        format_plural(coverage.ranks_seen, "rank")),
            "choose all ranks: leave --ranks out");
    const std::string who = coverage.missing_ranks.empty() ? "ranks that were not recorded"
                                                           : format_one_of("rank", coverage.missing_ranks, 4);
    verdict.abstain(fmt::format("no slow rank is among the {} of {} ranks seen, and all of them wait: it may be {}",
                                format_count(coverage.ranks_seen), format_count(expected), who),
                    "record the other ranks too");
}

}  // namespace

void find_reasons_to_abstain(const JudgedJob& judged, Verdict& verdict) {
    if (!judged.table.has_comm)
        return verdict.abstain(
            "no phase is a collective, so waiting for other ranks is hidden in the other phases",
            "time the collectives: cep.torch.instrument_collectives(prof), or phases of kind comm with group and coll");
    const bool has_much_comm = least_comm_share(judged.table) > little_comm;
    if (verdict.early_end && has_much_comm)
        return verdict.abstain(
            fmt::format("{}, and until then no rank was slow", describe_early_end(*verdict.early_end)),
            "find out why the files of these ranks end (cep check), and record all ranks");
    if (!judged.job.coverage.is_whole() && has_much_comm) return abstain_on_unseen(judged.job.coverage, verdict);
    abstain_on_unmatched(judged.table, verdict);
    if (!verdict.abstained) abstain_on_unseen_waits(judged.table, verdict);
    if (!verdict.abstained) abstain_on_waiting(judged, verdict);
}

}  // namespace cep::tool
