// SPDX-License-Identifier: Apache-2.0
#include "verdict/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/freed_memory.hpp"
#include "base/units.hpp"
#include "ledger/table_quantiles.hpp"
#include "verdict/causes.hpp"
#include "verdict/own_work.hpp"
#include "verdict/step_picture.hpp"

namespace cep::tool {
namespace {

constexpr double too_much_lost = 0.6;     // of all spans
constexpr double little_comm = 0.05;      // of a step: no unseen rank can hold the others up for longer
constexpr double least_matched = 0.5;     // of the time in communication
constexpr double stage_floor = 1.1;       // a stage with this much more work than a typical one
constexpr double slow_host_share = 0.75;  // of a host's ranks
constexpr double much_waiting = 0.1;      // of a step: no job that waits so long is called healthy
constexpr double nearly_all_steps = 0.9;  // in which the same rank is the last
constexpr double unexplained = 1.5;       // waiting than what is timed explains

class Judge {
  public:
    Judge(const Job& job, const JudgeOptions& options) : job_(job), options_(options) {
        return_freed_memory();
        JobTime time = find_job_time(job, {options.peak_flops, options.threads});
        return_freed_memory();
        table_ = std::move(time.table);
        verdict_.ledger = std::move(time.ledger);
    }

    Verdict judge() {
        verdict_.folded_phases = table_.folded_phases;
        verdict_.ranks = table_.ranks.size();
        verdict_.steps_used = table_.steps.size();
        verdict_.all_steps = table_.all_steps;
        verdict_.is_waiting_known = table_.has_comm;
        if (table_.steps.empty()) {
            can_compare();
            return std::move(verdict_);
        }
        verdict_.early_end = find_early_end(job_.ranks, all_steps(job_.ranks));
        if (verdict_.early_end) {
            seen_waits_ms_ = {table_.wait_ms, table_.group_wait_ms};
            forget_waits(*verdict_.early_end, table_);
        }
        groups_ = find_peers(table_, only_send(job_.ranks));
        own_ms_ = own_work(table_, groups_);
        slow_.resize(table_.ranks.size());
        saved_ms_.resize(table_.steps.size());
        explained_ms_ = saved_ms_;
        const bool all_phases = !job_.choice.keeps_none() && !job_.filter.has_phases();
        if (all_phases) {
            verdict_.losses = find_losses(job_, verdict_.ledger);
            verdict_.shares = find_shares(verdict_.ledger);
            if (verdict_.shares) find_bound();
            verdict_.step_ms = verdict_.ledger.step_times.typical_ms;
            verdict_.uncovered_ms = typical_ms(table_.uncovered_ms);
            verdict_.efficiency = find_efficiency(table_, verdict_.ledger);
            find_impossible();
            find_stage_imbalance();  // of timed work: stragglers add time that no phase covers to it
        }
        if (can_compare()) name_stragglers();
        find_late_hosts();
        if (all_phases) describe_history();
        if (options_.draws && !job_.choice.keeps_none()) draw();
        return std::move(verdict_);
    }

    /// For who looks at it after the verdict.
    [[nodiscard]] JobTable take_table() {
        if (seen_waits_ms_) std::tie(table_.wait_ms, table_.group_wait_ms) = std::move(*seen_waits_ms_);
        return std::move(table_);
    }

  private:
    void abstain(std::string reason, std::string to_do) {
        verdict_.abstained = true;
        verdict_.reason = std::move(reason);
        verdict_.to_do = std::move(to_do);
    }

    void draw() {
        StepNotes notes{marked_steps(), {}, {}};
        for (const ChangeFact& change : verdict_.changes) notes.changes.push_back(change.step);
        for (const StragglerFact& straggler : verdict_.stragglers) notes.phases.push_back(straggler.phase);
        for (const GroupFact& group : verdict_.groups) notes.phases.push_back(group.typical.phase);
        verdict_.picture = draw_steps(table_, own_ms_, groups_, notes);
    }

    void find_bound() {
        const std::uint64_t seen = table_.ranks.size();
        verdict_.shares->hides_comm = !table_.has_comm && job_.coverage.ranks_expected.value_or(seen) > 1;
        verdict_.bound = bound_of(*verdict_.shares);
    }

    bool can_compare() {
        if (table_.all_steps == 0) {
            abstain("there are no spans", "");
        } else if (job_.filter.has_phases()) {
            abstain("only some phases were asked for", "leave --phases out");
        } else if (!job_.choice.keeps_all() && table_.steps.size() < StragglerRules::least_steps) {
            abstain("there are more durations than were kept", "choose --steps, or raise --max-samples");
        } else if (table_.ranks.size() < 2 && job_.coverage.ranks_expected.value_or(1) > 1) {
            abstain(fmt::format("one of {} ranks was recorded, and nothing to compare it with",
                                format_count(*job_.coverage.ranks_expected)),
                    "record more ranks");
        } else if (table_.ranks.size() < 2) {
            return false;
        } else if (largest_group() < 2) {
            abstain("no two ranks have the same work: each pipeline stage has one rank",
                    "record more ranks of the same pipeline stage");
        } else if (table_.steps.size() < StragglerRules::least_steps) {
            verdict_.steps_of_hint = table_.steps.size();
            verdict_.hint = find_hint(table_, groups_);
            abstain(fmt::format("{} {} too few; at least {} are needed",
                                format_plural(table_.steps.size(), "recorded step"),
                                table_.steps.size() == 1 ? "is" : "are", StragglerRules::least_steps),
                    "record more steps");
        } else if (table_.local.empty()) {
            abstain("no phases of a step are timed", "time data loading, forward, backward and optimizer");
        } else if (lost_share() > too_much_lost) {
            abstain(fmt::format("{:.0f} % of the spans were lost", 100 * lost_share()), "see cep check for the cause");
        } else {
            return true;
        }
        return false;
    }

    [[nodiscard]] std::size_t largest_group() const {
        std::size_t largest = 0;
        for (const PeerGroup& group : groups_) largest = std::max(largest, group.ranks.size());
        return largest;
    }

    [[nodiscard]] double lost_share() const {
        const auto lost = static_cast<double>(job_.loss.dropped() + job_.loss.abandoned);
        return job_.loss.recorded == 0 ? 0 : lost / static_cast<double>(job_.loss.recorded);
    }

    void name_stragglers() {
        Stragglers found = find_stragglers(table_, groups_, own_ms_, options_.threads);
        const double all_ms = sum_ms(table_.median_step_ms);
        verdict_.slowdown_is_bound = found.waits_inside;
        slow_ = std::move(found.slow);
        for (const Straggler& straggler : found.costly) verdict_.stragglers.push_back(fact_of(straggler, all_ms));
        for (const SlowGroup& group : found.groups) verdict_.groups.push_back(fact_of(group, all_ms));
        for (const Straggler& straggler : found.harmless) verdict_.harmless.push_back(fact_of(straggler, all_ms));
        find_slow_hosts(found.costly);
        if (table_.has_comm) {
            find_savings(found.harmless);
            find_slowdown(all_ms);
        }
        if (verdict_.stragglers.empty() && verdict_.groups.empty()) doubt();
    }

    // Nobody is slow among those that were seen: is that all there is to know?
    void doubt() {
        if (!table_.has_comm)
            return abstain("no phase is a collective, so waiting for other ranks is hidden in the other phases",
                           "time the collectives, as phases of kind comm with group and coll");
        if (verdict_.early_end && least_comm_share() > little_comm)
            return abstain(fmt::format("{}, and until then no rank was slow", describe_early_end(*verdict_.early_end)),
                           "find out why the files of these ranks end (cep check), and record all ranks");
        const Coverage& coverage = job_.coverage;
        const auto expected = coverage.ranks_expected.value_or(coverage.ranks_seen);
        if (coverage.is_whole() || least_comm_share() <= little_comm) return doubt_of_seen();
        if (expected > coverage.ranks_seen) {
            const std::string who = coverage.missing_ranks.empty() ? "ranks that were not recorded"
                                                                   : "rank " + format_ranges(coverage.missing_ranks, 4);
            abstain(fmt::format("no slow rank is among the {} of {} ranks seen, and all of them wait: it may be {}",
                                format_count(coverage.ranks_seen), format_count(expected), who),
                    "record the other ranks too");
        } else {
            abstain(
                fmt::format("no slow rank is among the {} that were chosen, and all of them wait: it may be another",
                            format_plural(coverage.ranks_seen, "rank")),
                "choose all ranks: leave --ranks out");
        }
    }

    void doubt_of_seen() {
        if (verdict_.shares && verdict_.shares->wait > little_comm && table_.matched_comm < least_matched) {
            abstain("most collectives could not be matched between ranks", "give collectives their group and coll");
        } else {
            explain_waiting();
        }
    }

    // Nobody is slow in any phase. Who waits, then, and for whom?
    void explain_waiting() {
        if (typical_ms(table_.wait_ms) < StragglerRules::late * typical_ms(table_.median_step_ms)) return;
        const std::string waiting = format_duration_ms(typical_ms(table_.wait_ms));
        std::vector<Straggler> late = find_late(table_, groups_);
        std::erase_if(late, [&](const Straggler& one) {
            return one.excess_ms * one.step_fraction < typical_ms(table_.wait_ms) / 2;
        });
        if (!late.empty()) {
            const RankRole& rank = table_.ranks[late.front().rank];
            if (blame_harmless(rank.rank, late.front().excess_ms)) return;
            if (const std::vector<std::int64_t> together = late_together(table_, late); together.size() > 1)
                return abstain(
                    fmt::format("the others wait {} a step for ranks {}, which come late together, though no "
                                "phase of them is longer",
                                waiting, format_ranges(together, 4)),
                    "compare the links between these ranks with those of others, and time what they do "
                    "before their collectives");
            verdict_.late = LateRank{rank.rank, rank.host, late.front().excess_ms, late.front().step_fraction};
            abstain(fmt::format("the others wait {} a step for rank {}, but no phase of it is longer than on them",
                                waiting, rank.rank),
                    fmt::format("time what rank {} does before its collectives, with phases around it", rank.rank));
        } else if (groups_.size() == 1 && !verdict_.slowdown_is_bound && waits_more_than_work_explains()) {
            abstain(fmt::format("ranks wait {} a step for each other, and what they do before does not explain it",
                                waiting),
                    "time more phases between the collectives, and check that collectives have their group and coll");
        } else if (const auto last = groups_.size() == 1 ? find_last() : std::nullopt; last) {
            const RankRole& rank = table_.ranks[last->rank];
            verdict_.late = LateRank{rank.rank, rank.host, last->excess_ms, last->step_fraction};
            abstain(
                fmt::format("the others wait {} a step for rank {}, which has work that they do not have", waiting,
                            rank.rank),
                fmt::format("see in the table which phases only rank {} has: spread them over the ranks, or let the "
                            "others go on meanwhile",
                            rank.rank));
        } else if (groups_.size() == 1) {
            verdict_.takes_turns = typical_ms(table_.wait_ms) >= much_waiting * typical_ms(table_.median_step_ms);
        }
    }

    /// The rank that is the last one to have done its work, if that is the same in nearly all steps.
    [[nodiscard]] std::optional<Straggler> find_last() const {
        std::vector<std::size_t> times(table_.ranks.size());
        std::vector<double> excess_ms;
        const std::vector<double> most_ms = quantiles_over_ranks(own_ms_, 1);
        const std::vector<double> median_ms = quantiles_over_ranks(own_ms_, 0.5);
        for (std::size_t step = 0; step < most_ms.size(); ++step) {
            excess_ms.push_back(most_ms[step] - median_ms[step]);
            for (std::size_t rank = 0; rank < times.size(); ++rank)
                times[rank] += own_ms_.at(rank, step) >= most_ms[step];
        }
        const auto most = std::max_element(times.begin(), times.end());
        Straggler last;
        last.rank = static_cast<std::size_t>(most - times.begin());
        last.excess_ms = typical_ms(excess_ms);
        last.step_fraction = static_cast<double>(*most) / static_cast<double>(most_ms.size());
        if (last.step_fraction < nearly_all_steps || last.excess_ms < typical_ms(table_.wait_ms) / 2) return {};
        return last;
    }

    // By its own work in a whole step it costs nothing, but the others wait about as long as it exceeds them: it is
    // late at one collective and early at another.
    bool blame_harmless(std::int64_t rank, double late_ms) {
        const auto found = std::find_if(verdict_.harmless.begin(), verdict_.harmless.end(), [&](const auto& one) {
            return one.rank == rank && one.keeps_waiting && one.excess_ms > late_ms / 2;
        });
        if (found == verdict_.harmless.end()) return false;
        found->cost_share.reset();
        verdict_.stragglers.push_back(std::move(*found));
        verdict_.harmless.erase(found);
        verdict_.job_slowdown.reset();
        verdict_.gpu_hours_lost.reset();
        return true;
    }

    /// Whether ranks wait clearly longer than for the slowest one of each step, as far as their work is timed. Means
    /// nothing where collectives run beside work: how much of the waiting holds up the work is not known.
    [[nodiscard]] bool waits_more_than_work_explains() const {
        StepMatrix work_ms = own_ms_;
        for (std::size_t rank = 0; rank < work_ms.ranks(); ++rank)
            for (std::size_t step = 0; step < work_ms.steps(); ++step)
                work_ms.set(rank, step, own_ms_.at(rank, step) + table_.uncovered_ms.at(rank, step));
        std::vector<double> explained_ms = quantiles_over_ranks(work_ms, 1);
        const std::vector<double> median_ms = quantiles_over_ranks(work_ms, 0.5);
        for (std::size_t step = 0; step < explained_ms.size(); ++step) explained_ms[step] -= median_ms[step];
        return typical_ms(table_.wait_ms) > unexplained * typical_ms(explained_ms);
    }

    void find_impossible() {
        for (const auto& [name, value, flops] : {std::tuple("MFU", verdict_.efficiency.mfu, "flops_per_step"),
                                                 {"HFU", verdict_.efficiency.hfu, "hardware_flops_per_step"}})
            if (value && *value > 1)
                verdict_.impossible.push_back(fmt::format(
                    "{} of {:.0f} % cannot be: no device does more than its peak; check {} (of one step of one "
                    "rank) and the peak (--peak-flops)",
                    name, 100 * *value, flops));
    }

    /// What the rank with the least communication spends in it.
    [[nodiscard]] double least_comm_share() const {
        std::vector<double> shares = quantiles_over_ranks(table_.comm_ms, 0);
        for (std::size_t step = 0; step < shares.size(); ++step) shares[step] /= table_.median_step_ms[step];
        return median_of(shares);
    }

    void find_savings(const std::vector<Straggler>& harmless) {
        if (!verdict_.stragglers.empty() || !verdict_.groups.empty()) saved_ms_ = saved_without(slow_);
        explained_ms_ = saved_ms_;
        SlowSteps slow = slow_;
        for (const Straggler& one : harmless)
            if (one.keeps_waiting) slow[one.rank] = one.slow;
        if (slow != slow_) explained_ms_ = saved_without(slow);
    }

    /// By step.
    [[nodiscard]] std::vector<double> saved_without(const SlowSteps& slow) const {
        const WhatIf what_if(table_, own_ms_, groups_, slow, verdict_.slowdown_is_bound);
        std::vector<double> saved_ms;
        for (std::size_t step = 0; step < table_.steps.size(); ++step) saved_ms.push_back(what_if.saved_ms(step));
        return saved_ms;
    }

    void find_slowdown(double all_ms) {
        if (all_ms <= 0) return;
        verdict_.mean_step_ms = verdict_.ledger.steady.step_ms;
        double saved = 0;
        for (const double ms : saved_ms_) saved += ms;
        const double saved_of_step = saved / static_cast<double>(count_values(table_.median_step_ms));
        double step_ms = *verdict_.mean_step_ms;
        // Without starts nobody knows what ran beside what: a step took at least as long as its slowest rank worked.
        if (!verdict_.ledger.is_timed && saved > 0) {
            const std::vector<double> slowest_ms = quantiles_over_ranks(own_ms_, 1);
            step_ms = std::min(step_ms, sum_ms(slowest_ms) / static_cast<double>(count_values(slowest_ms)));
            verdict_.slowdown_is_bound = true;
            verdict_.mean_step_ms.reset();
        }
        verdict_.job_slowdown = step_ms / std::max(step_ms - saved_of_step, 1e-6 * step_ms);
        constexpr double ms_per_hour = 3.6e6;
        const double thinned = static_cast<double>(table_.all_steps) / static_cast<double>(table_.steps.size());
        verdict_.gpu_hours_lost = saved * thinned * static_cast<double>(job_.steps.stride.value_or(1)) *
                                  static_cast<double>(job_.coverage.ranks_expected.value_or(table_.ranks.size())) /
                                  ms_per_hour;
    }

    [[nodiscard]] StragglerFact fact_of(const Straggler& straggler, double all_ms) const {
        StragglerFact fact;
        static_cast<Slowness&>(fact) = straggler;
        fact.rank = table_.ranks[straggler.rank].rank;
        fact.host = table_.ranks[straggler.rank].host;
        fact.kind = kind_of(straggler.phase);
        fact.first_step = table_.steps[straggler.steps.first];
        fact.last_step = table_.steps[straggler.steps.last];
        fact.every_steps = find_every_steps(straggler);
        if (!is_missing(straggler.cost_ms)) fact.cost_share = all_ms > 0 ? straggler.cost_ms / all_ms : 0;
        return fact;
    }

    /// Between the numbers of its slow steps, if that is always the same.
    [[nodiscard]] std::optional<std::int64_t> find_every_steps(const Straggler& straggler) const {
        if (straggler.every_recorded < 2) return std::nullopt;
        const std::size_t second = straggler.steps.first + static_cast<std::size_t>(straggler.every_recorded);
        const std::int64_t first_step = table_.steps[straggler.steps.first];
        const std::int64_t every = table_.steps[second] - first_step;
        const auto slow = std::count(straggler.slow.begin(), straggler.slow.end(), true);
        const bool is_even = table_.steps[straggler.steps.last] - first_step == every * (slow - 1);
        return is_even ? std::optional(every) : std::nullopt;
    }

    void find_late_hosts() {
        for (StragglerFact& straggler : verdict_.stragglers)
            if (straggler.kind == schema::Kind::compute)
                straggler.late_host = find_late_host(job_.ranks, straggler.rank, peers_of(straggler.rank));
    }

    /// The other ranks of its role.
    [[nodiscard]] std::vector<std::int64_t> peers_of(std::int64_t rank) const {
        for (const PeerGroup& group : groups_) {
            std::vector<std::int64_t> peers;
            for (const std::size_t index : group.ranks) peers.push_back(table_.ranks[index].rank);
            if (std::erase(peers, rank) > 0) return peers;
        }
        return {};
    }

    [[nodiscard]] GroupFact fact_of(const SlowGroup& group, double all_ms) const {
        GroupFact fact;
        fact.typical = fact_of(group.typical, all_ms);
        fact.pp = group.role->pp;
        fact.tp = group.role->tp;
        fact.fast_ms = group.fast_ms;
        std::set<std::string> slow_hosts;
        std::set<std::string> fast_hosts;
        for (const Straggler& one : group.slow) {
            fact.slow_ranks.push_back(table_.ranks[one.rank].rank);
            slow_hosts.insert(table_.ranks[one.rank].host);
        }
        for (const std::size_t rank : group.fast) {
            fact.fast_ranks.push_back(table_.ranks[rank].rank);
            fast_hosts.insert(table_.ranks[rank].host);
        }
        std::sort(fact.slow_ranks.begin(), fact.slow_ranks.end());
        std::set_difference(slow_hosts.begin(), slow_hosts.end(), fast_hosts.begin(), fast_hosts.end(),
                            std::back_inserter(fact.slow_hosts));
        std::set_difference(fast_hosts.begin(), fast_hosts.end(), slow_hosts.begin(), slow_hosts.end(),
                            std::back_inserter(fact.fast_hosts));
        return fact;
    }

    [[nodiscard]] schema::Kind kind_of(const std::string& phase) const {
        for (const LocalPhase& local : table_.local)
            if (local.name == phase) return local.kind;
        return schema::Kind::other;
    }

    void find_slow_hosts(const std::vector<Straggler>& stragglers) {
        std::map<std::string, std::uint64_t> ranks_of;
        std::map<std::string, std::uint64_t> slow_of;
        for (const RankRole& rank : table_.ranks) ++ranks_of[rank.host];
        for (const Straggler& straggler : stragglers) ++slow_of[table_.ranks[straggler.rank].host];
        for (const auto& [host, slow] : slow_of)
            if (!host.empty() && slow >= 2 && ranks_of.size() > 1 &&
                static_cast<double>(slow) >= slow_host_share * static_cast<double>(ranks_of[host]))
                verdict_.slow_hosts.push_back({host, slow});
    }

    // Stages are compared by the median of their ranks: one slow rank does not make a slow stage.
    void find_stage_imbalance() {
        std::map<std::int64_t, std::vector<std::size_t>> stages;
        for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank)
            if (table_.ranks[rank].pp) stages[*table_.ranks[rank].pp].push_back(rank);
        if (stages.size() < 2) return;
        std::vector<std::pair<double, std::int64_t>> works;
        std::vector<double> all_ms;
        bool one_rank = true;
        for (const auto& [stage, ranks] : stages) {
            works.emplace_back(median_of(quantiles_over_ranks(own_ms_, ranks, 0.5)), stage);
            all_ms.push_back(works.back().first);
            one_rank &= ranks.size() == 1;
        }
        const auto [slowest_ms, slowest] = *std::max_element(works.begin(), works.end());
        const double typical = median_of(all_ms);
        const double reference_ms = stages.size() == 2 ? *std::min_element(all_ms.begin(), all_ms.end()) : typical;
        if (!(slowest_ms > stage_floor * reference_ms)) return;
        verdict_.stage_imbalance =
            StageImbalance{slowest, slowest_ms / reference_ms, slowest_ms, reference_ms, one_rank};
    }

    [[nodiscard]] NumberRanges marked_steps() const {
        NumberRanges steps;
        for (const auto& [name, mark] : job_.marks) steps.merge(mark.steps);
        return steps;
    }

    void describe_history() {
        JobHistory history = find_history(table_, explained_ms_, marked_steps());
        verdict_.changes = std::move(history.changes);
        verdict_.events = std::move(history.events);
    }

    const Job& job_;
    const JudgeOptions& options_;
    JobTable table_;
    std::vector<PeerGroup> groups_;
    StepMatrix own_ms_;
    std::optional<std::pair<StepMatrix, StepMatrix>> seen_waits_ms_;  // of all and of groups, before forget_waits()
    SlowSteps slow_;                                                  // of stragglers
    std::vector<double> saved_ms_;                                    // by step: what they cost it
    std::vector<double> explained_ms_;  // the same of all ranks that are slow and waited for, however little that costs
    Verdict verdict_;
};

}  // namespace

std::string describe_early_end(const EarlyEnd& end) {
    constexpr std::size_t most_ranges = 4;
    return fmt::format("{} {} stopped recording after step {}", end.ranks.size() == 1 ? "rank" : "ranks",
                       format_ranges(end.ranks, most_ranges), format_integer(end.last_step));
}

bool starts_too_often(const RankSeries& ranks) {
    constexpr std::size_t max_starts = 1000;  // every step of a rank looks at all of its starts
    for (const auto& [rank, of_rank] : ranks)
        if (of_rank.size() > max_starts) return true;
    return false;
}

Verdict judge(const Job& job, const JudgeOptions& options) {
    if (starts_too_often(job.ranks)) {
        Verdict verdict;
        verdict.abstained = true;
        verdict.reason = "a rank was started over 1,000 times";
        verdict.to_do = "choose --attempt or --steps";
        return verdict;
    }
    Verdict verdict;
    {
        Judge judge(job, options);
        verdict = judge.judge();
        if (options.table != nullptr) *options.table = judge.take_table();
    }
    if (options.replays) explain(job, options.threads, verdict);
    return verdict;
}

}  // namespace cep::tool
