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
constexpr double unexplained = 1.5;       // waiting than what is timed explains
constexpr double most_saving = 0.99;      // that is said: a step takes some time

class Judge {
  public:
    Judge(const Job& job, const JudgeOptions& options) : job_(job), options_(options) {
        return_freed_memory();
        JobTime time = find_job_time(job, {options.peak_flops, options.threads});
        return_freed_memory();
        table_ = std::move(time.table);
        verdict_.ledger = std::move(time.ledger);
    }

    Judgement judge() {
        verdict_.folded_phases = table_.folded_phases;
        verdict_.ranks = table_.ranks.size();
        verdict_.steps_used = table_.steps.size();
        verdict_.all_steps = table_.all_steps;
        verdict_.is_waiting_known = table_.has_comm;
        if (table_.steps.empty()) {
            can_compare();
            return finish();
        }
        verdict_.early_end = find_early_end(job_.ranks, all_steps(job_.ranks));
        if (verdict_.early_end) {
            seen_waits_ms_ = {table_.wait_ms, table_.group_wait_ms};
            forget_waits(*verdict_.early_end, table_);
        }
        operations_ = operations_of(job_.ranks);
        // If ranks only send to and receive from each other, each is a pipeline stage, and has no peers.
        groups_ = find_peers(table_, operations_ == std::set{Operation::send_recv});
        own_ms_ = own_work(table_, groups_);
        const bool all_phases = !job_.filter.has_phases();
        if (all_phases) {
            verdict_.losses = find_losses(job_, verdict_.ledger);
            verdict_.shares = find_shares(verdict_.ledger);
            if (verdict_.shares) find_bound();
            verdict_.step_ms = verdict_.ledger.step_times.typical_ms;
            verdict_.uncovered_ms = typical_ms(table_.uncovered_ms);
            verdict_.efficiency = find_efficiency(table_, verdict_.ledger);
            find_impossible();
            find_stage_imbalance();
        }
        const bool compares = can_compare();
        if (compares) search();
        for (LocalPhase& phase : table_.local) phase.duration_ms = {};  // the search alone looks at them
        if (!options_.only_ranks || std::any_of(verdict_.findings.begin(), verdict_.findings.end(), is_of_slow_ranks))
            verdict_.replay = replay(job_, options_.threads, verdict_.findings);
        price();
        if (compares && !verdict_.names_ranks()) doubt();
        settle();
        if (all_phases) describe_history();
        if (options_.draws) draw();
        return finish();
    }

  private:
    Judgement finish() {
        if (seen_waits_ms_) std::tie(table_.wait_ms, table_.group_wait_ms) = std::move(*seen_waits_ms_);
        return {std::move(verdict_), std::move(table_)};
    }

    void abstain(std::string reason, std::string to_do) {
        verdict_.abstained = true;
        verdict_.reason = std::move(reason);
        verdict_.to_do = std::move(to_do);
    }

    void draw() {
        StepNotes notes{marked_steps(), {}, {}};
        for (const ChangeFact& change : verdict_.changes) notes.changes.push_back(change.step);
        for (const Finding& one : verdict_.findings)
            if (is_of_slow_ranks(one) && one.is_costly) notes.phases.push_back(one.phase);
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

    void search() {
        Stragglers found = find_stragglers(table_, groups_, options_.threads);
        waits_inside_ = found.waits_inside;
        std::move(found.findings.begin(), found.findings.end(), std::back_inserter(verdict_.findings));
        for (Finding& one : verdict_.findings)
            if (one.kind == FindingKind::straggler && one.phase_kind == schema::Kind::compute)
                one.late_host = find_late_host(job_.ranks, one.typical_rank, peers_of(one.typical_rank));
    }

    // What the replay says, or what the search bounds.
    void price() {
        if (!verdict_.replay.is_usable() && table_.has_comm) drop_waits();
        const auto cost_of = [](const Finding& one) { return one.cost_share.value_or(-1); };
        std::stable_sort(verdict_.findings.begin(), verdict_.findings.end(),
                         [&](const Finding& a, const Finding& b) { return cost_of(a) > cost_of(b); });
        if (verdict_.replay.any_loaded && !verdict_.names_ranks() && !verdict_.first_of(FindingKind::stage) &&
            !verdict_.first_of(FindingKind::routing))
            abstain("work that ranks send each other is uneven, and not all ranks were recorded",
                    "record the other ranks too");
        find_slow_hosts();
        if (!table_.has_comm) return;
        verdict_.mean_step_ms = verdict_.ledger.steady.step_ms;
        const bool is_bound = std::any_of(verdict_.findings.begin(), verdict_.findings.end(),
                                          [](const Finding& one) { return one.is_bound; });
        if (!verdict_.names_ranks()) {
            set_saving(0);
        } else if (verdict_.replay.is_usable() && !is_bound) {
            set_saving(verdict_.saved_ms(verdict_.replay.most_of(verdict_.replay.saving)));
            verdict_.slowdown_is_bound = !verdict_.replay.holds();
        } else {
            set_bound();
        }
    }

    // If a replay is far from what was observed, ranks wait for others than it matches, and nobody knows what that
    // costs. If many rows were lost, waiting was lost too, so that the work alone is a bound.
    void drop_waits() {
        const Replay& replay = verdict_.replay;
        const bool is_far = std::abs(replay.error) > Replay::most_error_at_all;
        if (!is_far && !(replay.is_possible && replay.row_coverage < Replay::least_coverage)) return;
        for (Finding& one : verdict_.findings) {
            if (!is_of_slow_ranks(one)) continue;
            one.cost_share = one.all_excess_ms * one.step_fraction / typical_ms(table_.median_step_ms);
            one.is_costly = one.keeps_waiting && *one.cost_share > StragglerRules::least_cost;
            if (is_far) one.cost_share.reset();
        }
    }

    // Without starts nobody knows what ran beside what, nor what stages and experts do not wait for: a job
    // took at least as long as the rank that worked longest.
    void set_bound() {
        const auto is_unknown = [](const Finding& one) {
            return is_of_slow_ranks(one) && one.is_costly && !one.cost_share;
        };
        if (std::any_of(verdict_.findings.begin(), verdict_.findings.end(), is_unknown)) return;
        const bool is_conserved =
            operations_.contains(Operation::send_recv) || operations_.contains(Operation::all_to_all);
        if (!verdict_.ledger.is_timed && is_conserved) return;
        double step_ms = *verdict_.mean_step_ms;
        if (!verdict_.ledger.is_timed) {
            double longest_ms = 0;
            for (std::size_t rank = 0; rank < own_ms_.ranks(); ++rank)
                longest_ms = std::max(longest_ms, sum_ms(quantiles_over_ranks(own_ms_, std::span(&rank, 1), 0.5)));
            step_ms = std::min(step_ms, longest_ms / static_cast<double>(table_.steps.size()));
        }
        const double lost_ms = sum_ms(costs_ms([](const Finding& one) { return one.is_costly; }));
        const double saved_ms = lost_ms / static_cast<double>(count_values(table_.median_step_ms));
        set_saving(std::min(saved_ms, most_saving * step_ms) * *verdict_.mean_step_ms / step_ms);
        verdict_.slowdown_is_bound = true;
        if (!verdict_.ledger.is_timed) verdict_.mean_step_ms.reset();
    }

    /// What these ranks cost, by step: of those that are slow in the same one, the one that costs most.
    template <typename Use>
    [[nodiscard]] std::vector<double> costs_ms(Use use) const {
        const double all_ms = sum_ms(table_.median_step_ms);
        std::vector<double> costs_ms(table_.steps.size());
        for (const Finding& one : verdict_.findings) {
            if (!is_of_slow_ranks(one) || !use(one)) continue;
            const auto slow = static_cast<double>(std::count(one.slow.begin(), one.slow.end(), true));
            const double cost_ms = one.cost_share ? *one.cost_share * all_ms / slow : one.excess_ms;
            for (std::size_t step = 0; step < costs_ms.size(); ++step)
                if (one.slow[step]) costs_ms[step] = std::max(costs_ms[step], cost_ms);
        }
        return costs_ms;
    }

    /// Of a mean step of steady training.
    void set_saving(double saved_ms) {
        constexpr double ms_per_hour = 3.6e6;
        const double thinned = static_cast<double>(table_.all_steps) / static_cast<double>(table_.steps.size());
        const double step_ms = verdict_.mean_step_ms.value_or(verdict_.replay.observed_ms);
        verdict_.job_slowdown = step_ms / (step_ms - saved_ms);
        verdict_.gpu_hours_lost = saved_ms * static_cast<double>(count_values(table_.median_step_ms)) * thinned *
                                  static_cast<double>(job_.steps.stride.value_or(1)) *
                                  static_cast<double>(job_.coverage.ranks_expected.value_or(table_.ranks.size())) /
                                  ms_per_hour;
    }

    // With few peers, ranks are not compared; the graph of the steps shows more than comparing does.
    void settle() {
        const Finding* const cause = top_cause(verdict_);
        if (cause == nullptr) return;
        const bool settles = cause->kind != FindingKind::loader && verdict_.replay.steps >= StragglerRules::least_steps;
        if (verdict_.abstained && !settles) return;
        if (cause->kind != FindingKind::ranks && cause->kind != FindingKind::host) {
            set_saving(verdict_.saved_ms(verdict_.replay.most_of(cause->cost_share.value_or(0))));
            verdict_.slowdown_is_bound = !verdict_.replay.holds();
        }
        verdict_.abstained = false;
        verdict_.reason.clear();
        verdict_.to_do.clear();
        std::erase_if(verdict_.findings, [](const Finding& one) { return one.kind == FindingKind::late; });
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
        std::vector<Finding> late = find_late(table_, groups_);
        std::erase_if(late, [&](const Finding& one) {
            return one.excess_ms * one.step_fraction < typical_ms(table_.wait_ms) / 2;
        });
        if (!late.empty()) {
            if (const std::vector<std::int64_t> together = late_together(late); together.size() > 1)
                return abstain(
                    fmt::format("the others wait {} a step for ranks {}, which come late together, though no "
                                "phase of them is longer",
                                waiting, format_ranges(together, 4)),
                    "compare the links between these ranks with those of others, and time what they do "
                    "before their collectives");
            if (blame(late.front())) return;
            verdict_.findings.push_back(std::move(late.front()));
            const std::int64_t rank = verdict_.findings.back().ranks.front();
            abstain(fmt::format("the others wait {} a step for rank {}, but no phase of it is longer than on them",
                                waiting, rank),
                    fmt::format("time what rank {} does before its collectives, with phases around it", rank));
        } else if (groups_.size() == 1 && !waits_inside_ && waits_more_than_work_explains()) {
            abstain(fmt::format("ranks wait {} a step for each other, and what they do before does not explain it",
                                waiting),
                    "time more phases between the collectives, and check that collectives have their group and coll");
        } else if (groups_.size() == 1) {
            verdict_.takes_turns = typical_ms(table_.wait_ms) >= much_waiting * typical_ms(table_.median_step_ms);
        }
    }

    // If a phase of the late rank is longer, that is what they wait for. If the replay holds, it says what that costs.
    bool blame(const Finding& late) {
        const auto slow = std::find_if(verdict_.findings.begin(), verdict_.findings.end(), [&late](const Finding& one) {
            return is_of_slow_ranks(one) && one.ranks == late.ranks;
        });
        if (slow == verdict_.findings.end()) return false;
        if (verdict_.replay.holds()) return true;
        slow->is_costly = true;
        slow->cost_share.reset();
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

    /// The other ranks of its role.
    [[nodiscard]] std::vector<std::int64_t> peers_of(std::int64_t rank) const {
        for (const PeerGroup& group : groups_) {
            std::vector<std::int64_t> peers;
            for (const std::size_t index : group.ranks) peers.push_back(table_.ranks[index].rank);
            if (std::erase(peers, rank) > 0) return peers;
        }
        return {};
    }

    void find_slow_hosts() {
        std::map<std::string, std::uint64_t> ranks_of;
        std::map<std::string, std::uint64_t> slow_of;
        for (const RankRole& rank : table_.ranks) ++ranks_of[rank.host];
        for (const Finding* one : verdict_.stragglers()) ++slow_of[one->typical_host];
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
        for (const auto& [stage, ranks] : stages) {
            works.emplace_back(median_of(quantiles_over_ranks(own_ms_, ranks, 0.5)), stage);
            all_ms.push_back(works.back().first);
        }
        const auto [slowest_ms, slowest] = *std::max_element(works.begin(), works.end());
        const double typical = median_of(all_ms);
        const double reference_ms = stages.size() == 2 ? *std::min_element(all_ms.begin(), all_ms.end()) : typical;
        if (!(slowest_ms > stage_floor * reference_ms)) return;
        Finding& imbalance = verdict_.findings.emplace_back(Finding{.kind = FindingKind::imbalance});
        imbalance.stage = slowest;
        imbalance.slowdown = slowest_ms / reference_ms;
        imbalance.slow_ms = slowest_ms;
        imbalance.usual_ms = reference_ms;
        imbalance.is_alone =
            std::all_of(stages.begin(), stages.end(), [](const auto& stage) { return stage.second.size() == 1; });
    }

    [[nodiscard]] NumberRanges marked_steps() const {
        NumberRanges steps;
        for (const auto& [name, mark] : job_.marks) steps.merge(mark.steps);
        return steps;
    }

    void describe_history() {
        JobHistory history = find_history(table_, explained_ms(), marked_steps());
        verdict_.changes = std::move(history.changes);
        verdict_.events = std::move(history.events);
    }

    /// What ranks cost that are slow and waited for, however little that is, by step.
    [[nodiscard]] std::vector<double> explained_ms() const {
        std::vector<double> all_ms = costs_ms([](const Finding& one) { return one.keeps_waiting; });
        for (const auto& [step, ms] : verdict_.replay.costs_ms)
            if (const auto found = std::lower_bound(table_.steps.begin(), table_.steps.end(), step);
                found != table_.steps.end() && *found == step)
                all_ms[static_cast<std::size_t>(found - table_.steps.begin())] = ms;
        return all_ms;
    }

    const Job& job_;
    const JudgeOptions& options_;
    JobTable table_;
    std::vector<PeerGroup> groups_;
    StepMatrix own_ms_;
    std::optional<std::pair<StepMatrix, StepMatrix>> seen_waits_ms_;  // of all and of groups, before forget_waits()
    std::set<Operation> operations_;
    bool waits_inside_ = false;
    Verdict verdict_;
};

}  // namespace

Findings Verdict::all_of(FindingKind kind) const {
    Findings found;
    for (const Finding& one : findings)
        if (one.kind == kind) found.push_back(&one);
    return found;
}

const Finding* Verdict::first_of(FindingKind kind) const {
    const Findings found = all_of(kind);
    return found.empty() ? nullptr : found.front();
}

Findings Verdict::stragglers() const {
    Findings found = all_of(FindingKind::straggler);
    std::erase_if(found, [](const Finding* one) { return !one->is_costly; });
    return found;
}

Findings Verdict::harmless() const {
    Findings found = all_of(FindingKind::straggler);
    std::erase_if(found, [](const Finding* one) { return one->is_costly; });
    return found;
}

Findings Verdict::groups() const {
    Findings found = all_of(FindingKind::group);
    std::erase_if(found, [](const Finding* one) { return !one->is_costly; });
    return found;
}

double Verdict::saved_ms(double share) const {
    return share * std::min(replay.replayed_ms, mean_step_ms.value_or(replay.replayed_ms));
}

Findings Verdict::causes() const {
    Findings found;
    for (const Finding& one : findings)
        if (is_cause(one)) found.push_back(&one);
    return found;
}

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

Judgement judge(const Job& job, const JudgeOptions& options) {
    if (starts_too_often(job.ranks)) {
        Judgement judgement;
        judgement.verdict.abstained = true;
        judgement.verdict.reason = "a rank was started over 1,000 times";
        judgement.verdict.to_do = "choose --attempt or --steps";
        return judgement;
    }
    return Judge(job, options).judge();
}

}  // namespace cep::tool
