// SPDX-License-Identifier: Apache-2.0
#include "verdict/verdict.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/units.hpp"
#include "ledger/table_quantiles.hpp"
#include "stats/robust.hpp"
#include "verdict/judged_job.hpp"
#include "verdict/own_work.hpp"

namespace cep::tool {
namespace {

constexpr double too_much_lost = 0.6;     // of all spans
constexpr double stage_floor = 1.1;       // a stage with this much more work than a typical one
constexpr double slow_host_share = 0.75;  // of a host's ranks

constexpr double host_is_ahead_ms = 0.2;    // a host that is less ahead paces its device
constexpr double much_less = 0.5;           // of what its peers' devices are behind
constexpr std::size_t least_launches = 50;  // of collectives
constexpr std::size_t most_peers = 64;      // that are looked at

/// NaN if too few rows say.
double median_lag_ms(const std::vector<RunSeries>& rank) {
    std::vector<double> lags_ms;
    for (const RunSeries& run : rank)
        for (const PhaseSeries& phase : run.phases) {
            if (phase.kind != schema::Kind::comm || phase.clock != Clock::gpu) continue;
            for (const Sample& sample : phase.samples)
                if (!std::isnan(sample.lag_ms)) lags_ms.push_back(sample.lag_ms);
        }
    return lags_ms.size() < least_launches ? NAN : median_of(lags_ms);
}

/// Whether a rank's device is far less behind its host than those of its peers. A rank with a slow device is further
/// behind. None if rows do not say, or hosts of peers are not ahead.
std::optional<LateHost> find_late_host(const RankSeries& ranks, std::int64_t rank,
                                       const std::vector<std::int64_t>& peers) {
    const auto found = ranks.find(rank);
    if (found == ranks.end()) return std::nullopt;
    LateHost late{median_lag_ms(found->second), 0};
    if (std::isnan(late.lag_ms)) return std::nullopt;
    std::vector<double> of_peers;
    const std::size_t stride = peers.size() / most_peers + 1;
    for (std::size_t i = 0; i < peers.size(); i += stride) {
        const auto peer = ranks.find(peers[i]);
        if (peer == ranks.end()) continue;
        if (const double lag_ms = median_lag_ms(peer->second); !std::isnan(lag_ms)) of_peers.push_back(lag_ms);
    }
    if (of_peers.empty()) return std::nullopt;
    late.peers_lag_ms = median_of(of_peers);
    if (late.peers_lag_ms < host_is_ahead_ms || late.lag_ms > much_less * late.peers_lag_ms) return std::nullopt;
    return late;
}

constexpr double clearly = 1.1;        // times the median of the peers
constexpr double share_worth_saying = 0.01;  // of a step
constexpr std::size_t fewest_ranks = 3;

/// By how much a rank exceeds its peers in the step in which it does so least; below 0 where it does not in all.
double least_excess_ms(std::span<const float> own, const std::vector<double>& usual) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t step = 0; step < usual.size(); ++step) {
        if (!(own[step] > clearly * usual[step])) return -1;
        least = std::min(least, own[step] - usual[step]);
    }
    return least;
}

/// Of the ranks that in every step take clearly longer in a phase than the median of at least two peers, the one that
/// exceeds it most. Chance does that too: it is no verdict.
std::optional<Finding> find_hint(const JobTable& table, const std::vector<PeerGroup>& groups) {
    std::optional<Finding> found;
    double most = share_worth_saying * median_of(table.median_step_ms);
    for (const PeerGroup& group : groups) {
        if (group.ranks.size() < fewest_ranks) continue;
        for (const LocalPhase& phase : table.local) {
            const std::vector<double> usual = quantiles_over_ranks(phase.own_ms, group.ranks, 0.5);
            for (const std::size_t rank : group.ranks) {
                const std::span<const float> own = phase.own_ms.of_rank(rank);
                const double excess_ms = least_excess_ms(own, usual);
                if (!(excess_ms > most)) continue;
                most = excess_ms;
                found = Finding{.kind = FindingKind::hint,
                                .ranks = {table.ranks[rank].rank},
                                .hosts = {table.ranks[rank].host},
                                .phase = phase.name};
                found->slow_ms = median_of(std::vector<double>(own.begin(), own.end()));
                found->usual_ms = median_of(usual);
            }
        }
    }
    return found;
}

class Judge {
  public:
    Judge(const Job& job, const JudgeOptions& options) : judged_{job}, options_(options) {
        JobTime time = find_job_time(job, {options.peak_flops, options.threads});
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
        verdict_.early_end = job_.early_end;
        untrained_ = steps_without_training(job_, table_, verdict_.ledger);
        if (verdict_.early_end || !untrained_.empty()) {
            seen_waits_ms_ = table_.wait_ms;
            forget_waits([this](std::int64_t step) { return says_no_wait(step); }, table_);
        }
        if (verdict_.early_end) leave_out_ended(*verdict_.early_end);
        judged_.operations = operations_of(job_.ranks);
        // If ranks only send to and receive from each other, each is a pipeline stage, and has no peers.
        groups_ = find_peers(table_, judged_.operations == std::set{Operation::send_recv});
        const AbsentRows absent(table_);
        judged_.own_ms = own_work(table_, absent, groups_);
        const bool all_phases = !job_.filter.has_phases();
        if (all_phases) {
            verdict_.losses = find_losses(job_, verdict_.ledger, options_.threads);
            verdict_.shares = find_shares(verdict_.ledger);
            if (verdict_.shares) find_bound();
            verdict_.step_ms = verdict_.ledger.step_times.typical_ms;
            verdict_.uncovered_ms = typical_ms(table_.uncovered_ms);
            find_stage_imbalance();
        }
        of_other_steps_ = of_other_steps();
        without_comm_ = without_comm();
        const bool compares = can_compare();
        if (compares) search(absent);
        const bool any_slow = std::any_of(verdict_.findings.begin(), verdict_.findings.end(), is_of_slow_ranks);
        if (of_other_steps_.empty() && without_comm_.empty() && (any_slow || !options_.only_ranks))
            verdict_.replay = replay(job_, options_.threads, untrained_, verdict_.findings);
        set_saving(judged_, verdict_);
        abstain_on_loaded();
        find_slow_hosts();
        if (all_phases) find_efficiency();
        if (compares && !verdict_.names_ranks()) find_reasons_to_abstain(judged_, verdict_);
        settle(judged_, verdict_);
        if (all_phases)
            verdict_.events =
                find_history(table_, explained_ms(judged_, verdict_), marked_steps(job_), verdict_.findings);
        return finish();
    }

  private:
    Judgement finish() {
        if (seen_waits_ms_) table_.wait_ms = std::move(*seen_waits_ms_);
        return {std::move(verdict_), std::move(table_), std::move(groups_), std::move(judged_.own_ms)};
    }

    // That ranks are missing from a step on is no change of the others.
    void leave_out_ended(const EarlyEnd& end) {
        std::vector<std::size_t> others;
        for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank)
            if (!std::binary_search(end.ranks.begin(), end.ranks.end(), table_.ranks[rank].rank))
                others.push_back(rank);
        if (!others.empty()) table_.median_step_ms = quantiles_over_ranks(table_.step_ms, others, 0.5);
    }

    void find_bound() {
        const std::uint64_t seen = table_.ranks.size();
        verdict_.shares->hides_comm = !table_.has_comm && job_.coverage.ranks_expected.value_or(seen) > 1;
        verdict_.bound = bound_of(*verdict_.shares);
    }

    bool can_compare() {
        if (table_.all_steps == 0) {
            verdict_.abstain("there are no spans", "");
        } else if (job_.filter.has_phases()) {
            verdict_.abstain("only some phases were asked for", "leave --phases out");
        } else if (!job_.choice.keeps_all() && table_.steps.size() < StragglerRules::least_steps) {
            verdict_.abstain("there are more durations than were kept", "choose --steps, or raise --max-samples");
        } else if (table_.ranks.size() < 2 && job_.coverage.ranks_expected.value_or(1) > 1) {
            verdict_.abstain(fmt::format("one of {} ranks was recorded, and nothing to compare it with",
                                         format_count(*job_.coverage.ranks_expected)),
                             "record more ranks");
        } else if (table_.ranks.size() < 2) {
            return false;
        } else if (largest_group() < 2) {
            verdict_.abstain("no two ranks have the same work: each pipeline stage has one rank",
                             "record more ranks of the same pipeline stage");
        } else if (table_.steps.size() < StragglerRules::least_steps) {
            verdict_.steps_of_hint = table_.steps.size();
            if (auto hint = find_hint(table_, groups_)) verdict_.findings.push_back(std::move(*hint));
            verdict_.abstain(fmt::format("{} {} too few; at least {} are needed",
                                         format_plural(table_.steps.size(), "recorded step"),
                                         table_.steps.size() == 1 ? "is" : "are", StragglerRules::least_steps),
                             "record more steps");
        } else if (!of_other_steps_.empty()) {
            verdict_.abstain(fmt::format("{} {} recorded in other steps than the others", name_of(of_other_steps_, {}),
                                         of_other_steps_.size() == 1 ? "was" : "were"),
                             "record the same steps on all ranks, and number them alike");
        } else if (!without_comm_.empty()) {
            verdict_.abstain(fmt::format("{} {} no rows of collectives, and others have: who waits is not known",
                                         name_of(without_comm_, {}), without_comm_.size() == 1 ? "has" : "have"),
                             "time the collectives on all ranks");
        } else if (table_.local.empty()) {
            verdict_.abstain("no phases of a step are timed", "time data loading, forward, backward and optimizer");
        } else if (lost_share(job_.loss) > too_much_lost) {
            verdict_.abstain(fmt::format("{:.0f} % of the spans were lost", 100 * lost_share(job_.loss)),
                             "see cep check for the cause");
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

    /// Ranks that have steps enough, but hardly any of them in common with another.
    [[nodiscard]] std::vector<std::int64_t> of_other_steps() const {
        const std::vector<std::size_t> ranks_of_step = count_ranks(table_.step_ms);
        std::vector<std::int64_t> ranks;
        for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank) {
            const std::span<const float> step_ms = table_.step_ms.of_rank(rank);
            std::size_t common = 0;
            for (std::size_t step = 0; step < ranks_of_step.size(); ++step)
                common += !is_missing(step_ms[step]) && ranks_of_step[step] > 1;
            if (common < StragglerRules::least_steps && count_values(step_ms) >= StragglerRules::least_steps)
                ranks.push_back(table_.ranks[rank].rank);
        }
        return ranks;
    }

    /// Ranks of a role in which others have collectives.
    [[nodiscard]] std::vector<std::int64_t> without_comm() const {
        std::vector<std::int64_t> ranks;
        for (const PeerGroup& group : groups_) {
            std::vector<std::int64_t> silent;
            for (const std::size_t rank : group.ranks) {
                const std::span<const float> comm_ms = table_.comm_ms.of_rank(rank);
                if (std::none_of(comm_ms.begin(), comm_ms.end(), [](float ms) { return ms > 0; }))
                    silent.push_back(table_.ranks[rank].rank);
            }
            if (silent.size() < group.ranks.size()) ranks.insert(ranks.end(), silent.begin(), silent.end());
        }
        return ranks;
    }

    void search(const AbsentRows& absent) {
        std::vector<Finding> found = find_stragglers(table_, absent, groups_, options_.threads);
        std::move(found.begin(), found.end(), std::back_inserter(verdict_.findings));
        for (Finding& one : verdict_.findings)
            if (one.kind == FindingKind::straggler && one.phase_kind == schema::Kind::compute)
                one.late_host = find_late_host(job_.ranks, one.typical_rank, peers_of(one.typical_rank));
    }

    void abstain_on_loaded() {
        if (verdict_.replay.any_loaded && !verdict_.names_ranks() && !verdict_.first_of(FindingKind::stage) &&
            !verdict_.first_of(FindingKind::routing))
            verdict_.abstain("work that ranks send each other is uneven, and not all ranks were recorded",
                             "record the other ranks too");
    }

    void find_efficiency() {
        verdict_.efficiency =
            tool::find_efficiency(table_, verdict_.ledger, verdict_.shares, verdict_.replay.pipeline_length);
        for (const auto& [name, value, flops] : {std::tuple("MFU", verdict_.efficiency.mfu, "flops_per_step"),
                                                 {"HFU", verdict_.efficiency.hfu, "hardware_flops_per_step"}})
            if (value && *value > 1)
                verdict_.impossible.push_back(fmt::format(
                    "{} of {:.0f} % cannot be: no device does more than its peak; check {} (of one step of one "
                    "rank) and the peak (--peak-flops)",
                    name, 100 * *value, flops));
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
        for (Finding& one : verdict_.findings)
            if (one.kind == FindingKind::ranks && verdict_.slow_hosts.size() == 1 &&
                verdict_.slow_hosts.front().ranks == one.ranks.size()) {
                one.kind = FindingKind::host;
                one.hosts = {verdict_.slow_hosts.front().host};
                one.text.label = "host " + one.hosts.front();
            }
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
            works.emplace_back(median_of(quantiles_over_ranks(judged_.own_ms, ranks, 0.5)), stage);
            all_ms.push_back(works.back().first);
        }
        const auto [slowest_ms, slowest] = *std::max_element(works.begin(), works.end());
        const double typical = median_of(all_ms);
        const double reference_ms = stages.size() == 2 ? *std::min_element(all_ms.begin(), all_ms.end()) : typical;
        if (!(slowest_ms > stage_floor * reference_ms)) return;
        Finding& imbalance = verdict_.findings.emplace_back(Finding{.kind = FindingKind::stage});
        imbalance.stage = slowest;
        imbalance.slowdown = slowest_ms / reference_ms;
        imbalance.slow_ms = slowest_ms;
        imbalance.usual_ms = reference_ms;
        imbalance.is_alone =
            std::all_of(stages.begin(), stages.end(), [](const auto& stage) { return stage.second.size() == 1; });
    }

    [[nodiscard]] bool says_no_wait(std::int64_t step) const {
        return (verdict_.early_end && verdict_.early_end->is_behind(step)) ||
               std::binary_search(untrained_.begin(), untrained_.end(), step);
    }

    JudgedJob judged_;
    const Job& job_ = judged_.job;
    JobTable& table_ = judged_.table;
    std::vector<PeerGroup>& groups_ = judged_.groups;
    const JudgeOptions& options_;
    std::optional<StepMatrix> seen_waits_ms_;   // before forget_waits()
    std::vector<std::int64_t> untrained_;       // steps, ascending, that are no steady training
    std::vector<std::int64_t> of_other_steps_;  // ranks
    std::vector<std::int64_t> without_comm_;    // ranks
    Verdict verdict_;
};

}  // namespace

const Finding* Verdict::first_of(FindingKind kind) const {
    const auto found =
        std::find_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.kind == kind; });
    return found == findings.end() ? nullptr : &*found;
}

const Finding* Verdict::worst_change() const {
    const Findings longer = findings_of(FindingKind::change, true);
    const auto worst = std::max_element(longer.begin(), longer.end(),
                                        [](const Finding* a, const Finding* b) { return a->slowdown < b->slowdown; });
    return worst == longer.end() ? nullptr : *worst;
}

void Verdict::abstain(std::string why, std::string how_to_answer) {
    abstained = true;
    reason = std::move(why);
    to_do = std::move(how_to_answer);
}

double Verdict::saved_ms(double share) const {
    return share * std::min(replay.replayed_ms, mean_step_ms.value_or(replay.replayed_ms));
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
        judgement.verdict.abstain("a rank was started over 1,000 times", "choose --attempt or --steps");
        return judgement;
    }
    return Judge(job, options).judge();
}

}  // namespace cep::tool
