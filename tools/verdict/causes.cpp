// SPDX-License-Identifier: Apache-2.0
#include "verdict/causes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/units.hpp"

namespace cep::tool {
namespace {

constexpr double least_slowdown = 1.03;  // of what is worth a headline
constexpr std::size_t most_described = 3;
constexpr double errors_of_doubt = 3;  // of a replay that is not exact
constexpr double least_share = 0.1;    // of what a balanced job would gain

bool is_of_ranks(const Finding& cause) {
    return cause.kind == FindingKind::ranks || cause.kind == FindingKind::host;
}

/// Whether the verdict names slow ranks by themselves, which this cause is the sum of.
bool is_named(const Finding& cause, const Verdict& verdict) {
    return is_of_ranks(cause) && verdict.names_ranks();
}

/// Time of the steps / what it would be without this.
double gain_of(const Finding& cause) {
    return 1 / (1 - cause.cost_share.value_or(0));
}

/// Less than the replay is off.
bool is_noise(const Finding& cause, const Replay& replay) {
    return !replay.holds() && cause.cost_share.value_or(0) < std::abs(replay.error);
}

/// Jitter and the network have no one to name. Who is slow is known by more than the replay, which only has the price.
bool is_worth_headline(const Finding& cause, const Verdict& verdict) {
    if (cause.kind == FindingKind::jitter || cause.kind == FindingKind::communication) return false;
    const Replay& replay = verdict.replay;
    if (is_of_ranks(cause) && !verdict.abstained) return gain_of(cause) >= least_slowdown && !is_noise(cause, replay);
    return gain_of(cause) >= least_slowdown + (replay.holds() ? 0 : errors_of_doubt * std::abs(replay.error));
}

/// "as long as they were", "0.5 % longer than they were".
std::string describe_error(double error) {
    const std::string percent = fmt::format("{:.1f}", 100 * std::abs(error));
    return percent == "0.0" ? "as long as they were"
                            : percent + " % " + (error < 0 ? "shorter" : "longer") + " than they were";
}

std::string describe(const Finding& cause, const Verdict& verdict, std::string_view between) {
    const std::string without = between == ". " ? capitalised(cause.text.without) : cause.text.without;
    const double step_ms = verdict.mean_step_ms.value_or(verdict.replay.observed_ms);
    const bool is_exact = verdict.replay.holds() && !cause.is_approximate;
    const Precision precision = is_exact                  ? Precision::exact
                                : verdict.ledger.is_timed ? Precision::about
                                                          : Precision::at_most;
    return cause.text.what + std::string(between) +
           describe_saving(verdict, without, precision, verdict.saved_ms(cause.cost_share.value_or(0)) / step_ms);
}

// GPUs at their power limit run faster after they have waited, and lose that where they wait less. Their power goes
// with the square of their clock, or more, so the clock gains at most the root of what is left of the time to work in.
std::string describe_least_saving(const Verdict& verdict) {
    const bool names_ranks = verdict.names_ranks() && headline_cause(verdict) == nullptr && verdict.job_slowdown;
    const bool is_replayed = verdict.replay.holds() && verdict.saving_precision != Precision::about;
    if (!verdict.has_devices || !names_ranks || !is_replayed || verdict.saving_is_waiting || !verdict.shares) return "";
    const double left_share = 1 / *verdict.job_slowdown;
    const double lost_share = std::min(verdict.shares->compute, left_share) * (std::sqrt(*verdict.job_slowdown) - 1);
    if (lost_share < Replay::most_error) return "";
    return fmt::format("GPUs at their power limit run slower once they wait less; the saving is then {} at least",
                       format_percent(1 - left_share - lost_share));
}

std::string why_no_cost(const Replay& replay) {
    if (!replay.is_possible) return replay.reason.empty() ? "the steps were not replayed" : replay.reason;
    if (replay.row_coverage < Replay::least_coverage)
        return fmt::format("{} of the rows were lost", format_percent(1 - replay.row_coverage));
    if (!replay.is_matched())
        return fmt::format("of the communication, {} could be matched between ranks", format_percent(replay.matched));
    return replay.is_usable() ? "whether the others wait for it is not known"
                              : "a replay of the steps from their rows is " + describe_error(replay.error);
}

/// Why the saving is not exact, or may be less, or is not known. "" if it is exact, or if the error of the replay says
/// why.
std::string why_bound(const Verdict& verdict) {
    const Replay& replay = verdict.replay;
    if (verdict.names_ranks() && !verdict.job_slowdown && verdict.is_waiting_known)
        return "what that costs is not known: " + why_no_cost(replay);
    if (verdict.saving_precision == Precision::exact) return describe_least_saving(verdict);
    const Finding* const cause = top_cause(verdict);
    if (cause != nullptr && cause->kind == FindingKind::pauses && cause->is_approximate)
        return "the saving is approximate: pauses may also be in work whose rows were lost";
    if (verdict.saving_is_waiting)
        return fmt::format(
            "the saving is a bound: devices already wait for their hosts {} of the time, and would wait "
            "longer without the difference",
            format_percent(verdict.shares->host));
    if (!replay.is_possible)
        return fmt::format("the saving is {}, as the steps cannot be replayed: {}",
                           verdict.ledger.is_timed ? "approximate" : "a bound", replay.reason);
    if (verdict.saving_precision == Precision::at_most && replay.holds()) {
        const std::string least = describe_least_saving(verdict);
        return "the saving is a bound: " +
               (least.empty() ? "part of the difference may be that GPUs that wait run faster at their power limit"
                              : least);
    }
    if (replay.holds() && is_up_to_hosts(verdict))
        return "the saving is approximate: the others wait longer than their hosts run ahead, so it depends on how "
               "fast the hosts are";
    if (replay.holds())
        return "the saving is approximate: ranks wait inside of their work, where no row tells waiting from work";
    if (!replay.is_matched())
        return fmt::format("the saving is approximate: of the communication, {} could be matched between ranks",
                           format_percent(replay.matched));
    return "";
}

}  // namespace

const Finding* top_cause(const Verdict& verdict) {
    const Replay& replay = verdict.replay;
    // A replay that is not exact says nothing against an abstention, but a job is not healthy where it sees a large
    // cause.
    if (!replay.holds() && (!replay.is_usable() || verdict.abstained)) return nullptr;
    for (const Finding* const cause : verdict.causes())
        if (is_worth_headline(*cause, verdict)) return cause;
    return nullptr;
}

const Finding* headline_cause(const Verdict& verdict) {
    if (verdict.abstained) return nullptr;
    const Finding* const cause = top_cause(verdict);
    return cause == nullptr || is_named(*cause, verdict) ? nullptr : cause;
}

std::string headline_of_cause(const Verdict& verdict) {
    const Finding* const cause = headline_cause(verdict);
    if (cause == nullptr) return "";
    return capitalised(describe(*cause, verdict, ". ")) + ".";
}

std::string describe_saving(const Verdict& verdict, std::string_view without, Precision precision, double share) {
    constexpr std::array<std::string_view, 3> words = {"", "about ", "up to "};
    std::string text = fmt::format("{}, steps would take {}{} less time", without,
                                   words[static_cast<std::size_t>(precision)], format_percent(share));
    const double step_ms = verdict.mean_step_ms.value_or(verdict.replay.observed_ms);
    return step_ms > 0 ? text + " (" + format_times_ms(step_ms, step_ms * (1 - share)) + ")" : text;
}

std::string capitalised(std::string text) {
    if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
}

void add_causes(Document& document, const Verdict& verdict) {
    const Replay& replay = verdict.replay;
    const Finding* const in_headline = headline_cause(verdict);
    std::size_t described = 0;
    const Findings causes = verdict.causes();
    for (const Finding* const cause : causes) {
        if (described == most_described) break;
        if (is_noise(*cause, replay) && !is_named(*cause, verdict)) continue;
        if (gain_of(*cause) < least_slowdown &&
            !(cause->loss_share >= least_share && replay.slowdown >= least_slowdown))
            continue;
        ++described;
        const bool is_certain = cause->kind == FindingKind::link || cause->kind == FindingKind::special;
        if ((cause == in_headline || is_certain) && !cause->text.next.empty())
            document.next.push_back(cause->text.next);
        if (cause == in_headline || (in_headline == nullptr && is_named(*cause, verdict))) continue;
        std::string text = describe(*cause, verdict, "; ");
        if (causes.size() > 1 && cause->loss_share >= 0.005)
            text += fmt::format("; that is {} of what an even job would gain", format_percent(cause->loss_share));
        document.evidence.push_back(std::move(text));
    }
    if (in_headline != nullptr) {
        std::string text = "a replay of the steps from their rows is " + describe_error(replay.error);
        if (replay.holds() && in_headline->kind != FindingKind::pauses && in_headline->kind != FindingKind::routing)
            text += fmt::format("; with the same work spread evenly, they take {} less time",
                                format_percent(1 - 1 / replay.slowdown));
        document.evidence.push_back(std::move(text));
    }
    if (const std::string why = why_bound(verdict); !why.empty()) document.notes.push_back(why);
    if (replay.coverage < replay.row_coverage && (in_headline != nullptr || verdict.names_ranks()) && replay.holds())
        document.notes.push_back(
            fmt::format("ranks that were not recorded can cost at most {} a step: transfers take no longer; but a rank "
                        "may wait for one of them inside of a phase",
                        format_duration_ms(replay.unseen_ms)));
    if (replay.is_possible && replay.row_coverage >= Replay::least_coverage && replay.is_matched() && !replay.holds())
        document.notes.push_back(fmt::format(
            "a replay of the steps from their rows is {}, so {}", describe_error(replay.error),
            replay.is_usable() ? "what it says of the cost of causes is approximate" : "the verdict does not use it"));
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
    json.objects("causes", verdict.causes(), [&](const Finding* cause) {
        json.members("kind", kind_name(*cause), "ranks", cause->ranks, "host",
                     text_or_null(cause->hosts.empty() ? "" : cause->hosts.front()), "stage", cause->stage, "phase",
                     text_or_null(cause->phase), "cost_ms", cause->cost_share.value_or(0) * replay.observed_ms,
                     "slowdown", gain_of(*cause), "share", cause->loss_share, "usual_ms", cause->usual_ms, "slow_ms",
                     cause->slow_ms, "every_steps", cause->every_steps, "step_fraction",
                     cause->step_fraction > 0 ? std::optional(cause->step_fraction) : std::nullopt);
    });
}

}  // namespace cep::tool
