// SPDX-License-Identifier: Apache-2.0
#include "verdict/causes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {
namespace {

constexpr double least_slowdown = 1.03;      // of what is worth a headline
constexpr double least_of_ranks = 1.05;      // of ranks that are not stragglers by themselves
constexpr std::size_t most_named_ranks = 4;  // ranges of them
constexpr std::size_t most_described = 3;
constexpr double errors_of_doubt = 3;     // of a replay that is not exact
constexpr double least_share = 0.1;       // of what an even job would gain
constexpr double least_unawaited = 0.03;  // of a step, of a rank that nobody seems to wait for

bool is_of_ranks(const Cause& cause) {
    return cause.kind == CauseKind::ranks || cause.kind == CauseKind::host;
}

bool names_ranks(const Verdict& verdict) {
    return !verdict.stragglers.empty() || !verdict.groups.empty();
}

/// Whether the comparison of ranks found each of these to be slow, whatever that costs.
bool are_slow(const Cause& cause, const Verdict& verdict) {
    return std::all_of(cause.ranks.begin(), cause.ranks.end(), [&verdict](std::int64_t rank) {
        const auto is_rank = [rank](const StragglerFact& straggler) { return straggler.rank == rank; };
        return std::any_of(verdict.stragglers.begin(), verdict.stragglers.end(), is_rank) ||
               std::any_of(verdict.harmless.begin(), verdict.harmless.end(), is_rank) ||
               std::any_of(verdict.groups.begin(), verdict.groups.end(), [rank](const GroupFact& group) {
                   return std::binary_search(group.slow_ranks.begin(), group.slow_ranks.end(), rank);
               });
    });
}

/// Jitter and the network have no one to name.
bool is_worth_headline(const Cause& cause, const Verdict& verdict) {
    if (cause.kind == CauseKind::jitter || cause.kind == CauseKind::communication) return false;
    // What the job would gain if it were even says nothing of what all ranks wait for together.
    const Replay& replay = verdict.replay;
    const bool is_rare = cause.kind == CauseKind::loader || cause.kind == CauseKind::pauses;
    if (!is_rare && replay.slowdown < least_slowdown) return false;
    const double least = is_of_ranks(cause) && !are_slow(cause, verdict) ? least_of_ranks : least_slowdown;
    return cause.slowdown >= least + (replay.holds() ? 0 : errors_of_doubt * std::abs(replay.error));
}

const Cause* top_cause(const Verdict& verdict) {
    const Replay& replay = verdict.replay;
    // A replay that is not exact says nothing against a verdict, but a job is not healthy where it sees a large cause.
    if (!replay.holds() && (!replay.is_usable() || verdict.abstained || names_ranks(verdict))) return nullptr;
    for (const Cause& cause : replay.causes)
        if (is_worth_headline(cause, verdict)) return &cause;
    return nullptr;
}

/// "as long as they were", "0.5 % longer than they were".
std::string describe_error(double error) {
    const std::string percent = fmt::format("{:.1f}", 100 * std::abs(error));
    return percent == "0.0" ? "as long as they were"
                            : percent + " % " + (error < 0 ? "shorter" : "longer") + " than they were";
}

std::string ranks_of(const Cause& cause) {
    if (cause.kind == CauseKind::host) return "host " + cause.host;
    const std::string host = cause.host.empty() ? "" : " (" + cause.host + ")";
    return (cause.ranks.size() == 1 ? "rank " : "ranks ") + format_ranges(cause.ranks, most_named_ranks) + host;
}

std::string in_phase(const Cause& cause) {
    return cause.phase.empty() ? "" : " in " + cause.phase;
}

std::pair<std::string, std::string> slow_and_usual(const Cause& cause) {
    const DurationFormat duration(*cause.usual_ms, *cause.slow_ms);
    return {duration(*cause.slow_ms), duration(*cause.usual_ms)};
}

/// What it is, and how steps would be without it: "Rank 9 is slow in backward. Without it, steps".
std::pair<std::string, std::string> name_cause(const Cause& cause) {
    switch (cause.kind) {
        case CauseKind::ranks:
            if (cause.ranks.size() > 1) return {ranks_of(cause) + " are slow" + in_phase(cause), "without them"};
            [[fallthrough]];
        case CauseKind::host:
            return {ranks_of(cause) + " is slow" + in_phase(cause), "without it"};
        case CauseKind::stage:
            if (cause.ranks.size() == 1)  // rows cannot tell which
                return {
                    fmt::format("pipeline stage {} takes longer than the others{}: it has more work, or its rank {} "
                                "is slow",
                                cause.stage.value_or(0), cause.phase.empty() ? "" : ", most of it" + in_phase(cause),
                                cause.ranks.front()),
                    "evenly divided"};
            return {fmt::format("pipeline stage {} has more work than the others{}", cause.stage.value_or(0),
                                cause.phase.empty() ? "" : ", most of it" + in_phase(cause)),
                    "evenly divided"};
        case CauseKind::micro_batches:
            return {"micro-batches are uneven: the same ones are long in forward and backward", "evenly filled"};
        case CauseKind::link:
            return {fmt::format("the link of {} is slow: {} takes {} there, {} in {}", ranks_of(cause), cause.phase,
                                slow_and_usual(cause).first, slow_and_usual(cause).second,
                                format_plural(cause.other_groups, "other group")),
                    "as fast as theirs"};
        case CauseKind::loader:
            return {fmt::format("all ranks wait for {} every {} {}steps, {} instead of {}", cause.phase,
                                *cause.every_recorded, cause.every_recorded == cause.every_steps ? "" : "recorded ",
                                slow_and_usual(cause).first, slow_and_usual(cause).second),
                    "without that"};
        case CauseKind::routing:
            return {fmt::format("work that ranks send each other is uneven: {} has {} of it a step, the mean is {}",
                                ranks_of(cause), slow_and_usual(cause).first, slow_and_usual(cause).second),
                    "with the same work spread evenly"};
        case CauseKind::pauses:
            return {fmt::format("any rank pauses now and then, for {}, most often{}",
                                format_duration_ms(*cause.slow_ms), in_phase(cause)),
                    "without that"};
        case CauseKind::jitter:
            return {"the same work" + in_phase(cause) + " takes longer now and then, on any rank", "without that"};
        default:
            return {"transfers" + in_phase(cause) + " take longer now and then", "at their usual times"};
    }
}

/// "22 % less time (130.0 → 101.4 ms)".
std::string describe_saving(double slowdown, double step_ms) {
    return fmt::format("{} less time ({})", format_percent(1 - 1 / slowdown),
                       format_times_ms(step_ms, step_ms / slowdown));
}

std::string describe(const Cause& cause, const Verdict& verdict, std::string_view between) {
    auto [what, without] = name_cause(cause);
    if (between == ". ") without = capitalised(without);
    return fmt::format("{}{}{}, steps would take {}{}", what, between, without, verdict.replay.holds() ? "" : "about ",
                       describe_saving(cause.slowdown, verdict.replay.observed_ms));
}

std::string_view what_to_do(CauseKind kind) {
    switch (kind) {
        case CauseKind::routing:
            return "spread tokens over the experts: a capacity factor, a loss that balances the load, or other places "
                   "of "
                   "the experts";
        case CauseKind::pauses:
            return "look for what stops ranks: garbage collection, page cache and swap, other processes, checkpoints "
                   "of "
                   "other jobs";
        case CauseKind::micro_batches:
            return "fill micro-batches evenly: sort or pack sequences by length, and balance their sum over ranks";
        case CauseKind::jitter:
            return "look for what interrupts ranks: garbage collection, other processes, clocks (nvidia-smi -q -d "
                   "CLOCK)";
        case CauseKind::link:
            return "compare the links of these ranks with those of other groups: errors and speed (ibstat, ethtool, "
                   "nvidia-smi nvlink -e), and the transports in NCCL_DEBUG=INFO";
        case CauseKind::loader:
            return "give the data loader more workers, let each prefetch more batches, or read from faster storage: "
                   "its buffer of batches runs empty";
        default:
            return "";
    }
}

// With few peers, ranks are not compared; the graph of the steps shows more than comparing does. The only rank of a
// stage may have more work, or be slow.
bool settles_abstention(const Verdict& verdict, const Cause& cause) {
    constexpr std::size_t least_steps = 8;
    const bool is_lone_rank = is_of_ranks(cause) && cause.stage && verdict.replay.ranks_a_stage == 1;
    return verdict.replay.steps >= least_steps && !is_lone_rank;
}

/// The ranks that were found to be slow: each one alone, and each group.
std::vector<Suspects> suspects_of(const Verdict& verdict) {
    constexpr std::size_t most_suspects = 64;
    std::vector<Suspects> suspects;
    for (const StragglerFact& fact : verdict.stragglers) suspects.push_back({{fact.rank}, true});
    for (const StragglerFact& fact : verdict.harmless) suspects.push_back({{fact.rank}});
    for (const GroupFact& group : verdict.groups) suspects.push_back({group.slow_ranks, true});
    if (suspects.size() > most_suspects) suspects.clear();
    return suspects;
}

void set_slowdown(double slowdown, Verdict& verdict) {
    if (verdict.gpu_hours_lost && verdict.job_slowdown && *verdict.job_slowdown > 1)
        *verdict.gpu_hours_lost *= (1 - 1 / slowdown) / (1 - 1 / *verdict.job_slowdown);
    verdict.job_slowdown = slowdown;
    verdict.mean_step_ms = verdict.replay.observed_ms;
    verdict.slowdown_is_bound = false;
}

// The replay knows what is in the way of what; but where ranks wait inside of their work and no row shows it, it takes
// that for work, and says too little. Then what the comparison of ranks says is a bound.
bool is_seen(double replayed_saving, double compared_saving) {
    constexpr double least_agreement = 0.5;
    return replayed_saving >= least_agreement * compared_saving;
}

void price_together(bool any_is_new, Verdict& verdict) {
    constexpr double same = 0.005;  // of a step
    const Replay& replay = verdict.replay;
    const double compared = 1 - 1 / verdict.job_slowdown.value_or(1);
    const double replayed = replay.suspects_saving;
    if (!any_is_new && std::abs(replayed - compared) <= same) {
        verdict.slowdown_is_bound = false;
    } else if (any_is_new || (replay.stages > 1 && !replay.stages_are_inferred) || is_seen(replayed, compared)) {
        set_slowdown(1 / (1 - replayed), verdict);
    } else {
        verdict.slowdown_is_bound = true;
    }
}

// Time that no phase covers is in no graph.
bool is_in_graphs(const StragglerFact& fact) {
    return fact.phase != uncovered_name;
}

bool has_cause(const Replay& replay, CauseKind kind) {
    return std::any_of(replay.causes.begin(), replay.causes.end(),
                       [kind](const Cause& cause) { return cause.kind == kind; });
}

// A rank to which more work was sent, or a stage that has more, is not slow. The cause names it.
void drop_loaded(Verdict& verdict) {
    std::vector<Suspects>& suspects = verdict.replay.suspects;
    const bool has_stage = has_cause(verdict.replay, CauseKind::stage);
    const auto is_loaded = [has_stage](const Suspects& one) { return one.are_routed || (has_stage && one.are_stage); };
    std::size_t place = 0;
    const auto drops = [&](const auto&) { return is_loaded(suspects[place++]); };
    const std::size_t dropped = std::erase_if(verdict.stragglers, drops) + std::erase_if(verdict.harmless, drops) +
                                std::erase_if(verdict.groups, drops);
    std::erase_if(suspects, is_loaded);
    if (dropped == 0 || names_ranks(verdict)) return;
    verdict.job_slowdown = 1;
    if (has_stage || has_cause(verdict.replay, CauseKind::routing)) return;
    verdict.abstained = true;
    verdict.reason = "work that ranks send each other is uneven, and not all ranks were recorded";
    verdict.to_do = "record the other ranks too";
}

// What slow ranks cost is what the replay says, if it holds, also of those that nobody seems to wait for.
void price(Verdict& verdict) {
    const Replay& replay = verdict.replay;
    if (!replay.holds()) return;
    drop_loaded(verdict);
    std::size_t place = 0;
    bool all_in_graphs = true;
    const auto price_one = [&](StragglerFact& fact) {
        const double saving = replay.suspects[place++].saving;
        all_in_graphs &= is_in_graphs(fact);
        if (is_in_graphs(fact) && is_seen(saving, fact.cost_share.value_or(0))) fact.cost_share = saving;
    };
    for (StragglerFact& fact : verdict.stragglers) price_one(fact);
    std::vector<StragglerFact> harmless;
    for (StragglerFact& fact : verdict.harmless) {
        const double saving = replay.suspects[place++].saving;
        const bool costs = is_in_graphs(fact) && saving >= (fact.keeps_waiting ? Replay::least_cost : least_unawaited);
        if (costs) fact.cost_share = saving;
        (costs ? verdict.stragglers : harmless).push_back(std::move(fact));
    }
    const bool any_is_new = harmless.size() < verdict.harmless.size();
    verdict.harmless = std::move(harmless);
    for (GroupFact& group : verdict.groups) price_one(group.typical);
    std::stable_sort(verdict.stragglers.begin(), verdict.stragglers.end(),
                     [](const auto& a, const auto& b) { return a.cost_share.value_or(0) > b.cost_share.value_or(0); });
    if (all_in_graphs && names_ranks(verdict)) price_together(any_is_new, verdict);
}

// Where the steps take as long without time that no phase covers, that time is waiting: nobody is slow in it.
void clear_uncovered(Verdict& verdict) {
    if (!verdict.replay.holds() || verdict.replay.has_delays) return;
    const auto is_uncovered = [](const StragglerFact& fact) { return fact.phase == uncovered_name; };
    std::erase_if(verdict.harmless, is_uncovered);
    const auto cleared =
        std::erase_if(verdict.stragglers, is_uncovered) +
        std::erase_if(verdict.groups, [&](const GroupFact& group) { return is_uncovered(group.typical); });
    if (cleared == 0) return;
    std::erase_if(verdict.slow_hosts, [&verdict](const SlowHost& host) {
        return std::none_of(verdict.stragglers.begin(), verdict.stragglers.end(),
                            [&host](const StragglerFact& fact) { return fact.host == host.host; });
    });
    if (names_ranks(verdict)) return;
    if (verdict.job_slowdown) verdict.job_slowdown = 1;
    if (verdict.gpu_hours_lost) verdict.gpu_hours_lost = 0;
}

}  // namespace

void explain(const Job& job, std::size_t threads, Verdict& verdict) {
    verdict.replay = replay(job, threads, suspects_of(verdict));
    if (!verdict.replay.is_usable()) verdict.replay.causes.clear();
    price(verdict);
    clear_uncovered(verdict);
    const Cause* const cause = top_cause(verdict);
    if (cause == nullptr) return;
    if (verdict.abstained && (cause->kind == CauseKind::loader || !settles_abstention(verdict, *cause))) return;
    const bool is_alone = cause->kind != CauseKind::stage && cause->kind != CauseKind::micro_batches;
    if (!is_of_ranks(*cause) || !names_ranks(verdict))
        set_slowdown(is_alone ? cause->slowdown : verdict.replay.slowdown, verdict);
    verdict.abstained = false;
    verdict.late.reset();
    verdict.reason.clear();
    verdict.to_do.clear();
}

const Cause* headline_cause(const Verdict& verdict) {
    if (verdict.abstained) return nullptr;
    const Cause* const cause = top_cause(verdict);
    if (cause == nullptr || (is_of_ranks(*cause) && names_ranks(verdict))) return nullptr;
    return cause;
}

std::string headline_of_cause(const Verdict& verdict) {
    const Cause* const cause = headline_cause(verdict);
    if (cause == nullptr) return "";
    return capitalised(describe(*cause, verdict, ". ")) + ".";
}

std::string label_of(const Cause& cause) {
    switch (cause.kind) {
        case CauseKind::ranks:
        case CauseKind::host:
            return ranks_of(cause);
        case CauseKind::stage:
            return fmt::format("pipeline stage {}", cause.stage.value_or(0));
        case CauseKind::micro_batches:
            return "uneven micro-batches";
        case CauseKind::jitter:
            return "jitter";
        case CauseKind::link:
            return "the link of " + ranks_of(cause);
        case CauseKind::loader:
            return "waiting";
        case CauseKind::routing:
            return "uneven routing";
        case CauseKind::pauses:
            return "pauses";
        default:
            return "slow transfers";
    }
}

std::string capitalised(std::string text) {
    if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
}

void add_causes(Document& document, const Verdict& verdict) {
    const Replay& replay = verdict.replay;
    const Cause* const in_headline = headline_cause(verdict);
    std::size_t described = 0;
    for (const Cause& cause : replay.causes) {
        if (described == most_described) break;
        if (cause.slowdown < least_slowdown && !(cause.share >= least_share && replay.slowdown >= least_slowdown))
            continue;
        ++described;
        const bool is_certain = cause.kind == CauseKind::link || cause.kind == CauseKind::loader;
        if ((&cause == in_headline || is_certain) && !what_to_do(cause.kind).empty())
            document.next.emplace_back(what_to_do(cause.kind));
        const bool is_said =
            &cause == in_headline || (in_headline == nullptr && is_of_ranks(cause) && are_slow(cause, verdict));
        if (is_said) continue;
        std::string text = describe(cause, verdict, "; ");
        if (replay.causes.size() > 1 && cause.share >= 0.005)
            text += fmt::format("; that is {} of what an even job would gain", format_percent(cause.share));
        document.evidence.push_back(std::move(text));
    }
    if (in_headline != nullptr) {
        std::string text = "a replay of the steps from their rows is " + describe_error(replay.error);
        if (in_headline->kind != CauseKind::pauses && in_headline->kind != CauseKind::routing)
            text += fmt::format("; with the same work spread evenly, they take {} less time",
                                format_percent(1 - 1 / replay.slowdown));
        document.evidence.push_back(std::move(text));
    }
    if (replay.coverage < replay.row_coverage && (in_headline != nullptr || names_ranks(verdict)) && replay.holds())
        document.notes.push_back(
            fmt::format("ranks that were not recorded can cost at most {} a step: transfers take no longer; but a rank "
                        "may wait for one of them inside of a phase",
                        format_duration_ms(replay.unseen_ms)));
    if (replay.is_possible && replay.row_coverage >= Replay::least_coverage &&
        replay.matched >= Replay::least_matched && !replay.holds())
        document.notes.push_back(fmt::format(
            "a replay of the steps from their rows is {}, so {}", describe_error(replay.error),
            replay.is_usable() ? "what it says that causes cost is approximate" : "the verdict does not use it"));
}

void write_causes(JsonWriter& json, const Verdict& verdict) {
    const Replay& replay = verdict.replay;
    json.object_or_null("replay", replay.is_possible ? &replay : nullptr, [&](const Replay&) {
        json.members("error", replay.error, "coverage", replay.coverage, "unseen_ms", replay.unseen_ms, "matched",
                     replay.matched, "holds", replay.holds(), "steps", replay.steps, "all_steps", replay.all_steps,
                     "stages_inferred", replay.stages_are_inferred, "observed_ms", replay.observed_ms, "ideal_ms",
                     replay.ideal_ms, "slowdown", replay.slowdown);
        json.object("shares", [&] {
            json.members("communication", replay.shares.communication, "within_ranks", replay.shares.within_ranks,
                         "ranks", replay.shares.ranks, "stages", replay.shares.stages);
        });
        json.members("slowest_ranks_share", replay.slowest_ranks_share, "slowest_stage_share",
                     replay.slowest_stage_share);
    });
    json.objects("causes", replay.causes, [&](const Cause& cause) {
        json.members("kind", cause_name(cause.kind), "ranks", cause.ranks, "host", text_or_null(cause.host), "stage",
                     cause.stage, "phase", text_or_null(cause.phase), "cost_ms", cause.cost_ms, "slowdown",
                     cause.slowdown, "share", cause.share, "usual_ms", cause.usual_ms, "slow_ms", cause.slow_ms,
                     "every_steps", cause.every_steps);
    });
}

}  // namespace cep::tool
