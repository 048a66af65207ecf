// SPDX-License-Identifier: Apache-2.0
#include "verdict/verdict_document.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "advice/ledger_document.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "verdict/causes.hpp"
#include "verdict/slow_rank_text.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t max_shown = 5;
constexpr std::size_t max_losses = 3;
constexpr double worth_acting = 0.05;  // of the time
constexpr double good_mfu = 0.5;
constexpr double share_of_most = 0.5;
constexpr double worth_a_headline = 0.03;  // of the time

/// `chance`: that noise alone makes a rank of the job look as slow as that.
std::string describe_chance(double chance) {
    constexpr double certain = 1e-4;
    constexpr double likely = 1e-2;
    if (chance <= certain)
        return "almost certain: chance alone makes a rank look like this in fewer than 1 of 10,000 jobs";
    return fmt::format("{}: chance alone makes a rank look like this in 1 of {} jobs",
                       chance <= likely ? "very likely" : "likely",
                       format_count(static_cast<std::uint64_t>(std::lround(1 / std::min(chance, 1.0)))));
}

std::string describe_replay(const Replay& replay) {
    const double percent = 100 * std::abs(replay.error);
    if (replay.holds())
        return fmt::format("replayed from its rows, a step takes as long as it did{}",
                           percent < 0.1 ? "" : fmt::format(" to within {:.1f} %", percent));
    return fmt::format("approximate: replayed from its rows, a step takes {:.0f} % {} than it did", percent,
                       replay.error < 0 ? "less" : "more");
}

/// How sure the headline is: "almost certain: …"; "" where it names nothing, or nothing is known of it.
std::string describe_certainty(const Verdict& verdict) {
    if (verdict.abstained) return "";
    if (const Findings slow = verdict.stragglers(); !slow.empty() && slow.front()->confidence > 0)
        return describe_chance(1 - slow.front()->confidence);
    if (headline_cause(verdict) != nullptr && verdict.replay.is_usable()) return describe_replay(verdict.replay);
    return "";
}

/// Puts a verdict into sentences.
class Sentences {
  public:
    explicit Sentences(const Verdict& verdict) : verdict_(verdict) {}

    Document write() {
        document_.headline = headline();
        document_.tone = tone();
        document_.certainty = describe_certainty(verdict_);
        add_early_end();
        const bool is_of_cause = headline_cause(verdict_) != nullptr;
        if (is_of_cause) add_causes(document_, verdict_);
        add_groups();
        add_stragglers();
        if (!is_of_cause) add_causes(document_, verdict_);  // behind what the headline rests on
        add_stages();
        add_history();
        add_shares();
        if (verdict_.abstained && !verdict_.to_do.empty()) document_.next.push_back(verdict_.to_do);
        add_losses();
        for (const std::string& text : verdict_.impossible) document_.evidence.push_back(text);
        if (verdict_.steps_used < verdict_.all_steps)
            document_.notes.push_back(
                fmt::format("the verdict is from {} of the {} steps, chosen by a hash of their number",
                            format_count(verdict_.steps_used), format_count(verdict_.all_steps)));
        if (verdict_.replay.is_possible && verdict_.replay.steps < verdict_.replay.all_steps)
            document_.notes.push_back(fmt::format("what causes cost is from {} of the steps, of all lengths",
                                                  format_count(verdict_.replay.steps)));
        if (verdict_.folded_phases > 0) document_.notes.push_back(describe_folded_phases(verdict_));
        return std::move(document_);
    }

  private:
    [[nodiscard]] std::string headline() const {
        if (const std::string text = headline_of_cause(verdict_); !text.empty()) return text;
        if (verdict_.first_of(FindingKind::late) != nullptr) return capitalised(verdict_.reason) + ".";
        if (verdict_.steps_of_hint) return headline_of_hint();
        if (verdict_.abstained) return "No verdict on slow ranks: " + verdict_.reason + ".";
        if (has_costlier_group()) return group_headline();
        if (!stragglers_.empty()) return straggler_headline();
        if (verdict_.ranks == 1) return headline_of_one_rank() + worst_of_history(" But ");
        if (verdict_.takes_turns)
            return fmt::format("No single rank is slow, but {} of a step is waiting for whichever rank is last in it.",
                               format_percent(lateness_of(*verdict_.shares))) +
                   worst_of_history(" And ");
        std::string text = verdict_.ranks == 2
                               ? "No straggler: neither rank is slower than the other by more than chance"
                               : "No straggler: no rank is slower than its peers by more than chance";
        for (const Finding* const straggler : harmless_) {
            if (straggler->keeps_waiting) {
                text = "No straggler: no slow rank costs 1 % of the time";
                break;
            }
            if (straggler->pattern == Pattern::persistent)
                text = verdict_.ranks == 2 ? "No straggler: neither rank keeps the other waiting"
                                           : "No straggler: no rank keeps the others waiting";
        }
        return text + "." + worst_of_history(" But ");
    }

    /// A sentence, after a conjunction, of what makes the time of everyone longer. Empty if nothing does.
    [[nodiscard]] std::string worst_of_history(std::string_view conjunction) const {
        const std::string text = clause_of_history();
        return text.empty() ? "" : fmt::format("{}{}.", conjunction, text);
    }

    [[nodiscard]] std::string clause_of_history() const {
        if (const Finding* const change = verdict_.worst_change()) return headline_of_change(*change);
        if (imbalance_ != nullptr)
            return fmt::format("pipeline stage {} has {:.2f} times the work of a typical one",
                               imbalance_->stage.value_or(0), imbalance_->slowdown);
        if (verdict_.events.unmarked_share >= worth_a_headline)
            return fmt::format("{} of the time is in {} over 1.5 times as long as {}",
                               format_percent(verdict_.events.unmarked_share),
                               format_plural(verdict_.events.unmarked_steps.size(), "step"),
                               verdict_.events.unmarked_steps.size() == 1 ? "its neighbours" : "their neighbours");
        if (has_long_steps())
            return fmt::format("{} of the time is in long steps, {} in those that were not recorded",
                               format_percent(share_of_long_steps()),
                               format_percent(verdict_.ledger.share(TimeKind::unrecorded)));
        return "";
    }

    [[nodiscard]] std::string headline_of_hint() const {
        const std::string text = format_plural(*verdict_.steps_of_hint, "step") + ": a hint, not a verdict. ";
        const Finding* const hint = verdict_.first_of(FindingKind::hint);
        if (hint == nullptr) return text + "No rank stands out in all of them.";
        const DurationFormat duration(*hint->usual_ms, *hint->slow_ms);
        return text + capitalised(fmt::format("{} takes longest in {}: {} a step, its peers {}.",
                                              name_of(hint->ranks, hint->hosts), hint->phase, duration(*hint->slow_ms),
                                              duration(*hint->usual_ms)));
    }

    /// Recorded or not.
    [[nodiscard]] double share_of_long_steps() const {
        return verdict_.events.unmarked_share + verdict_.ledger.share(TimeKind::unrecorded);
    }
    [[nodiscard]] bool has_long_steps() const { return share_of_long_steps() >= worth_a_headline; }

    [[nodiscard]] Tone tone() const {
        if (headline_cause(verdict_) != nullptr) return Tone::bad;
        if (verdict_.names_ranks()) return Tone::bad;
        const bool is_doubtful =
            verdict_.abstained || verdict_.worst_change() != nullptr || imbalance_ != nullptr || has_long_steps();
        return is_doubtful ? Tone::warning : Tone::neutral;
    }

    [[nodiscard]] std::string straggler_headline() const {
        const Finding& worst = *stragglers_.front();
        const bool one = stragglers_.size() == 1;
        std::string text;
        if (!verdict_.slow_hosts.empty() && verdict_.slow_hosts.front().ranks == stragglers_.size()) {
            text = fmt::format("Host {} is slow in {}: {} of its ranks, {}", worst.typical_host, worst.phase_text(),
                               verdict_.slow_hosts.front().ranks, when(worst));
        } else if (one) {
            text = fmt::format("{} is slow in {}, {}", name_of({worst.typical_rank}, {worst.typical_host}),
                               worst.phase_text(), when(worst));
        } else {
            text = fmt::format("{} ranks are slow; worst is {} in {}, {}", stragglers_.size(),
                               name_of({worst.typical_rank}, {worst.typical_host}), worst.phase_text(), when(worst));
        }
        if (!verdict_.is_waiting_known) text += ". Whether the others wait is not known: no collective is timed";
        return capitalised(text) + describe_saving(one ? "it" : "these") + ".";
    }

    [[nodiscard]] bool has_costlier_group() const {
        if (groups_.empty() || stragglers_.empty()) return !groups_.empty();
        return groups_.front()->cost_share.value_or(0) >= stragglers_.front()->cost_share.value_or(0);
    }

    [[nodiscard]] std::string group_headline() const {
        const Finding& group = *groups_.front();
        std::string text = group.stage ? fmt::format("The ranks of pipeline stage {} are two groups", *group.stage)
                                       : "The ranks are two groups";
        if (verdict_.ranks == 2 && group.waiters_median_wait_ms)
            text = fmt::format("Rank {} waits {} a step for rank {}", group.fast_ranks.front(),
                               format_duration_ms(*group.waiters_median_wait_ms), group.ranks.front());
        else if (verdict_.ranks == 2)
            text = "The two ranks differ";
        text += fmt::format(": {}, {}", compare_groups(group), when(group));
        if (!verdict_.is_waiting_known)
            text += ". Whether one waits for the other is not known: no collective is timed";
        return text + describe_saving("the difference") + ".";
    }

    [[nodiscard]] std::string headline_of_one_rank() const {
        if (!verdict_.shares) return "One rank: there is no other to compare it with.";
        const std::string step = format_duration_ms(verdict_.step_ms.value_or(0));
        switch (verdict_.bound) {
            case Bound::compute:
                return fmt::format("One rank, bound by compute: {} of a step of {}.",
                                   format_percent(verdict_.shares->compute), step);
            case Bound::comm:
                return fmt::format("One rank, bound by communication: {} of a step of {}.",
                                   format_percent(verdict_.shares->comm), step);
            case Bound::data:
                return fmt::format("One rank, bound by its input: {} of a step of {} is loading and copying data.",
                                   format_percent(verdict_.shares->data), step);
            case Bound::host:
                return fmt::format("One rank, bound by its host: the device waits for it in {} of a step of {}.",
                                   format_percent(verdict_.shares->host), step);
            default:
                return headline_of_no_bound(step);
        }
    }

    [[nodiscard]] std::string headline_of_no_bound(std::string_view step) const {
        std::string text =
            fmt::format("One rank: a step takes {}, {} of it compute", step, format_percent(verdict_.shares->compute));
        if (verdict_.losses.empty()) return text + ".";
        const TimeLoss& loss = verdict_.losses.front();
        return text + fmt::format("; the largest loss is {}, {} of the time.", facts_of(loss.piece).meaning,
                                  format_percent(loss.share));
    }

    /// ". Without it, steps would take 22 % less time (130.0 → 101.4 ms)".
    [[nodiscard]] std::string describe_saving(std::string_view without) const {
        if (!verdict_.job_slowdown || !(*verdict_.job_slowdown > 1.0005)) return "";
        return ". " + tool::describe_saving(verdict_, fmt::format("Without {}", without), verdict_.saving_precision,
                                            1 - 1 / *verdict_.job_slowdown);
    }

    [[nodiscard]] bool is_on_slow_host(const Finding& straggler) const {
        return std::any_of(verdict_.slow_hosts.begin(), verdict_.slow_hosts.end(),
                           [&](const SlowHost& host) { return host.host == straggler.typical_host; });
    }

    void add_early_end() {
        if (!verdict_.early_end) return;
        document_.evidence.push_back(describe_early_end(*verdict_.early_end) +
                                     (verdict_.early_end->is_compared ? ": ranks are compared in the steps until then"
                                                                      : ", too early to compare it with the others"));
    }

    void add_stragglers() {
        for (const SlowHost& host : verdict_.slow_hosts)
            document_.evidence.push_back(
                fmt::format("{} of the ranks on {} are slow: the host, or what it shares", host.ranks, host.host));
        std::set<std::string_view> described;  // slow hosts: by their slowest rank
        std::size_t shown = 0;
        for (const Finding* const straggler : stragglers_)
            if (!is_on_slow_host(*straggler) || described.insert(straggler->typical_host).second)
                if (shown++ < max_shown) document_.evidence.push_back(describe_straggler(*straggler));
        if (shown > max_shown)
            document_.evidence.push_back(fmt::format("and {} more (--json has all)", shown - max_shown));
        std::size_t notes = 0;
        for (const Finding* const straggler : harmless_) {
            if (!straggler->keeps_waiting && straggler->pattern != Pattern::persistent) continue;
            if (notes++ == max_shown) break;
            const bool is_group = straggler->kind == FindingKind::difference;
            const std::string text = is_group ? describe_group(*straggler) : describe_straggler(*straggler);
            if (straggler->keeps_waiting)
                document_.evidence.push_back(fmt::format("{}; that costs {} of the time", text,
                                                         format_percent(straggler->cost_share.value_or(0))));
            else if (straggler->may_keep_waiting)
                document_.evidence.push_back("others may wait for this where no row shows it: " + text);
            else
                document_.evidence.push_back((is_group ? "nobody waits for this: " : "nobody waits for ") + text);
        }
        if (verdict_.gpu_hours_lost && *verdict_.gpu_hours_lost >= 0.1)
            document_.add_minor(
                fmt::format("{:.1f} GPU-hours were lost to slow ranks in these steps", *verdict_.gpu_hours_lost));
        if (stragglers_.empty()) return;
        for (std::string& text : next_steps_at(*stragglers_.front(), is_on_slow_host(*stragglers_.front())))
            document_.next.push_back(std::move(text));
    }

    void add_groups() {
        for (const Finding* const one : groups_) {
            std::string text = describe_group(*one);
            if (one->waiters_median_wait_ms && verdict_.ranks > 2)
                text += fmt::format("; meanwhile the faster ones wait {} a step in collectives",
                                    format_duration_ms(*one->waiters_median_wait_ms));
            document_.evidence.push_back(text);
        }
        if (groups_.empty()) return;
        const Finding& group = *groups_.front();
        document_.next.push_back(
            fmt::format("find what differs between {} and {}: host, type and power limit of the "
                        "device, driver, share of the data",
                        name_of(group.ranks, {}), name_of(group.fast_ranks, {})));
    }

    void add_stages() {
        if (imbalance_ == nullptr) return;
        const std::int64_t stage = imbalance_->stage.value_or(0);
        document_.evidence.push_back(fmt::format(
            "pipeline stage {} works {} a step, a typical stage {}{}", stage,
            format_duration_ms(imbalance_->slow_ms.value_or(0)), format_duration_ms(imbalance_->usual_ms.value_or(0)),
            imbalance_->is_alone ? "; with one rank a stage, this may be its work or its device"
                                 : ": that is the division of layers, not a slow rank"));
        document_.next.push_back(fmt::format("move layers away from stage {}", stage));
    }

    void add_history() {
        Findings changes = verdict_.changes();
        changes.resize(std::min(max_shown, changes.size()));
        for (const Finding* const change : changes) {
            std::string text = describe_change(*change, verdict_.ranks);
            // What a phase waits for is not its own: some may have none of the change, and one may have more than all.
            const double share = change->excess_ms / (*change->slow_ms - *change->usual_ms);
            if (!change->phase.empty() && share >= share_of_most && share <= 1 / share_of_most)
                text += fmt::format(", most of it in {} ({})", change->phase, format_change_ms(change->excess_ms));
            document_.evidence.push_back(text);
        }
        if (const Finding* const change = verdict_.worst_change(); change != nullptr && stragglers_.empty())
            document_.next.push_back(
                fmt::format("ask what changed at step {}: sequence length, data, power cap, other jobs",
                            format_integer(change->first_step)));
        const EventFacts& events = verdict_.events;
        if (!events.marked_steps.empty())
            document_.evidence.push_back(fmt::format(
                "{} {} longer for what its marks name, {} in all", format_plural(events.marked_steps.size(), "step"),
                events.marked_steps.size() == 1 ? "is" : "are", format_duration_ms(events.marked_excess_ms)));
        if (!events.unmarked_steps.empty())
            document_.evidence.push_back(fmt::format(
                "{} took over 1.5 times as long as {} neighbours ({} of the time){}: {} {}",
                format_plural(events.unmarked_steps.size(), "step"),
                events.unmarked_steps.size() == 1 ? "its" : "their", format_percent(events.unmarked_share),
                events.unmarked_phase.empty() ? ", and no mark says why"
                                              : fmt::format(", most of it in {}", events.unmarked_phase),
                events.unmarked_steps.size() == 1 ? "step" : "steps", format_ranges(events.unmarked_steps, 4)));
    }

    void add_shares() {
        if (!verdict_.shares) return;
        for (std::string& line : describe_steps(verdict_.ledger)) document_.evidence.push_back(std::move(line));
        const StepShares& shares = *verdict_.shares;
        constexpr double worth_mention = 0.005;
        std::string text;
        const auto add = [&](double share, std::string_view what) {
            if (share >= worth_mention)
                text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_percent(share), what);
        };
        add(shares.compute, shares.hides_comm ? "compute with hidden communication" : "compute");
        add(shares.comm, "exposed communication");
        add(shares.data, "data");
        add(shares.host, "idle waiting for the host");
        const auto [named_share, name] = largest_of_rest();
        add(named_share, name);
        add(shares.rest - named_share, "other");
        document_.evidence.push_back("of the time of steps: " + text);
        if (const double late = lateness_of(shares); late >= 0.02)
            document_.evidence.push_back(
                fmt::format("{} of the time is waiting for other ranks inside collectives, the rest "
                            "of communication is transfer{}",
                            format_percent(late), shares.bubble >= worth_mention ? " and bubble" : ""));
        const Efficiency& efficiency = verdict_.efficiency;
        if (efficiency.mfu && *efficiency.mfu <= 1) document_.add_minor("MFU " + format_percent(*efficiency.mfu));
        if (!efficiency.mfu && !verdict_.ledger.device_without_peak.empty())
            document_.add_minor(fmt::format("no MFU: the peak of {} is not known; --peak-flops gives it",
                                            printable(verdict_.ledger.device_without_peak)));
        if (efficiency.bubble_fraction)
            document_.evidence.push_back(
                fmt::format("pipeline bubble: {} of the time of steps{}", format_percent(*efficiency.bubble_fraction),
                            efficiency.theoretical_bubble_fraction
                                ? fmt::format("; the schedule alone needs {}",
                                              format_percent(*efficiency.theoretical_bubble_fraction))
                                : ""));
    }

    /// The largest part of the time that is neither compute nor communication nor data, if it is much.
    [[nodiscard]] std::pair<double, std::string_view> largest_of_rest() const {
        constexpr double worth_naming = 0.1;
        for (const TimeLoss& loss : verdict_.losses) {
            if (loss.piece < TimeKind::host || loss.piece == TimeKind::host_late || loss.piece == TimeKind::startup ||
                loss.piece == TimeKind::restart || loss.piece == TimeKind::redone)
                continue;
            const double share = std::min(verdict_.shares->rest, loss.ms / verdict_.ledger.iteration_ms());
            if (share >= worth_naming) return {share, facts_of(loss.piece).meaning};
        }
        return {0, ""};
    }

    void add_losses() {
        const Ledger& ledger = verdict_.ledger;
        const double compute_ms = ledger.mean_ms(TimeKind::compute);
        const bool is_largest = verdict_.losses.empty() || compute_ms > verdict_.losses.front().ms;
        const bool is_seen = verdict_.shares && !verdict_.shares->hides_comm;
        if (is_seen && is_largest && compute_ms > 0 && ledger.steady.mfu.value_or(0) < good_mfu)
            document_.next.emplace_back(advice_on(TimeKind::compute).next);
        for (std::size_t i = 0; i < std::min(max_losses, verdict_.losses.size()); ++i)
            if (verdict_.losses[i].share >= worth_acting) document_.next.emplace_back(verdict_.losses[i].next);
        if (verdict_.shares && verdict_.shares->hides_comm)
            document_.evidence.emplace_back("no communication is timed: what looks like compute has it inside");
    }

    const Verdict& verdict_;
    const Findings stragglers_ = verdict_.stragglers();
    const Findings harmless_ = verdict_.harmless();
    const Findings groups_ = verdict_.groups();
    const Finding* const imbalance_ = verdict_.stage_imbalance();
    Document document_;
};

}  // namespace

std::string describe_folded_phases(const Verdict& verdict) {
    if (verdict.folded_phases == 0) return "";
    return fmt::format("the verdict takes the {} with the least time as one, \"other phases\"",
                       format_plural(verdict.folded_phases, "phase"));
}

Document verdict_document(const Verdict& verdict) {
    return Sentences(verdict).write();
}

}  // namespace cep::tool
