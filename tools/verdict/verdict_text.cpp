// SPDX-License-Identifier: Apache-2.0
#include "verdict/verdict_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/failure.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t max_told = 5;

std::string percent(double share) {
    return share < 0.0995 ? fmt::format("{:.1f} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

std::string times(double ratio) {
    return ratio < 9.95 ? fmt::format("{:.2f} times", ratio) : fmt::format("{:.0f} times", ratio);
}

std::string range_of(const StragglerFact& straggler) {
    return fmt::format("steps {} to {}", format_integer(straggler.first_step), format_integer(straggler.last_step));
}

std::string when(const StragglerFact& straggler) {
    switch (straggler.pattern) {
        case Pattern::persistent:
            return "in nearly every step";
        case Pattern::window:
            return "in " + range_of(straggler);
        default:
            return fmt::format("now and then, in {} of the {}", percent(straggler.step_fraction), range_of(straggler));
    }
}

std::string name_of(const StragglerFact& straggler) {
    std::string name = fmt::format("rank {}", straggler.rank);
    return straggler.host.empty() ? name : name + " (" + printable(straggler.host) + ")";
}

std::string also_slow(const StragglerFact& straggler) {
    std::string text;
    for (const std::string& phase : straggler.also)
        text += (text.empty() ? " (slow as well: " : ", ") + printable(phase);
    return text.empty() ? text : text + ")";
}

std::string describe(const StragglerFact& straggler) {
    std::string text =
        fmt::format("{}: {} takes {} as long as on its peers, {} more a step, {}{}{}", name_of(straggler),
                    printable(straggler.phase), times(straggler.slowdown), format_duration_ms(straggler.excess_ms),
                    when(straggler), straggler.grows ? ", and it grows" : "", also_slow(straggler));
    if (straggler.waiters_median_wait_ms)
        text += fmt::format("; meanwhile the others wait {} a step for collectives",
                            format_duration_ms(*straggler.waiters_median_wait_ms));
    return text;
}

class Teller {
  public:
    explicit Teller(const Verdict& verdict) : verdict_(verdict) {}

    VerdictText tell() {
        text_.headline = headline();
        tell_stragglers();
        tell_stages();
        tell_history();
        tell_shares();
        if (verdict_.abstained && !verdict_.to_do.empty()) text_.next.push_back(verdict_.to_do);
        tell_bound();
        return std::move(text_);
    }

  private:
    [[nodiscard]] std::string headline() const {
        if (verdict_.abstained) return "No verdict on slow ranks: " + verdict_.reason + ".";
        if (!verdict_.stragglers.empty()) return straggler_headline();
        std::string text = "No straggler: no rank is slower than its peers beyond chance";
        for (const StragglerFact& straggler : verdict_.harmless)
            if (straggler.pattern == Pattern::persistent) text = "No straggler: no rank keeps the others waiting";
        if (const ChangeFact* change = worst_change())
            return fmt::format("{}. But every step from {} on takes {:.0f} % longer.", text,
                               format_integer(change->step), 100 * (change->after_ms / change->before_ms - 1));
        if (verdict_.stage_imbalance)
            return fmt::format("{}. But pipeline stage {} has {:.2f} times the work of {}.", text,
                               verdict_.stage_imbalance->stage, verdict_.stage_imbalance->ratio, "a typical one");
        return text + ".";
    }

    [[nodiscard]] std::string straggler_headline() const {
        const StragglerFact& worst = verdict_.stragglers.front();
        const bool one = verdict_.stragglers.size() == 1;
        std::string text;
        if (!verdict_.slow_hosts.empty() && verdict_.slow_hosts.front().ranks == verdict_.stragglers.size()) {
            text = fmt::format("Host {} is slow in {}: {} of its ranks, {}", printable(worst.host),
                               printable(worst.phase), verdict_.slow_hosts.front().ranks, when(worst));
        } else if (one) {
            text = fmt::format("{} is slow in {}, {}", name_of(worst), printable(worst.phase), when(worst));
        } else {
            text = fmt::format("{} ranks are slow; worst is {} in {}, {}", verdict_.stragglers.size(), name_of(worst),
                               printable(worst.phase), when(worst));
        }
        text[0] = static_cast<char>(text[0] == 'r' ? 'R' : text[0]);
        if (verdict_.job_slowdown && *verdict_.job_slowdown > 1.0005)
            text += fmt::format(". Without {}, the job would be {}{} faster", one ? "it" : "these",
                                verdict_.slowdown_is_bound ? "up to " : "", percent(1 - 1 / *verdict_.job_slowdown));
        return text + ".";
    }

    [[nodiscard]] const ChangeFact* worst_change() const {
        const ChangeFact* worst = nullptr;
        for (const ChangeFact& change : verdict_.changes) {
            const double ratio = change.after_ms / change.before_ms;
            if (ratio > 1 && (worst == nullptr || ratio > worst->after_ms / worst->before_ms)) worst = &change;
        }
        return worst;
    }

    void tell_stragglers() {
        const std::size_t told = std::min(max_told, verdict_.stragglers.size());
        for (std::size_t i = 0; i < told; ++i) text_.evidence.push_back(describe(verdict_.stragglers[i]));
        if (verdict_.stragglers.size() > told)
            text_.evidence.push_back(fmt::format("and {} more (--json has all)", verdict_.stragglers.size() - told));
        for (const SlowHost& host : verdict_.slow_hosts)
            text_.evidence.push_back(fmt::format("{} of the ranks on {} are slow: the host, or what it shares",
                                                 host.ranks, printable(host.host)));
        for (const StragglerFact& straggler : verdict_.harmless)
            if (straggler.pattern == Pattern::persistent)
                text_.evidence.push_back("nobody waits for " + describe(straggler));
        if (verdict_.gpu_hours_lost && !verdict_.stragglers.empty() && *verdict_.gpu_hours_lost >= 0.1)
            text_.evidence.push_back(
                fmt::format("{:.1f} GPU-hours were lost to slow ranks in these steps", *verdict_.gpu_hours_lost));
        if (verdict_.stragglers.empty()) return;
        const StragglerFact& worst = verdict_.stragglers.front();
        text_.next.push_back(fmt::format("{} on rank {} in {}", tool_for(worst.kind), worst.rank, range_of(worst)));
        if (worst.grows)
            text_.next.push_back(
                fmt::format("it grows: look at temperature and clocks of rank {} (nvidia-smi -q -d "
                            "PERFORMANCE,TEMPERATURE), and at memory that fills up",
                            worst.rank));
    }

    [[nodiscard]] static std::string tool_for(schema::Kind kind) {
        switch (kind) {
            case schema::Kind::data:
                return "look at the data loader, its workers, storage and CPU load (py-spy, iostat)";
            case schema::Kind::compute:
                return "compare its GPU's clocks and ECC errors with a peer's (nvidia-smi -q), then run torch.profiler "
                       "or Nsight Systems";
            default:
                return "run torch.profiler or Nsight Systems";
        }
    }

    void tell_stages() {
        if (!verdict_.stage_imbalance) return;
        const StageImbalance& imbalance = *verdict_.stage_imbalance;
        text_.evidence.push_back(
            fmt::format("pipeline stage {} works {} a step, a typical stage {}{}", imbalance.stage,
                        format_duration_ms(imbalance.own_ms), format_duration_ms(imbalance.typical_ms),
                        imbalance.one_rank ? "; with one rank a stage, this may be its work or its device"
                                           : ": that is the division of layers, not a slow rank"));
        text_.next.push_back(fmt::format("move layers away from stage {}", imbalance.stage));
    }

    void tell_history() {
        const std::size_t told = std::min(max_told, verdict_.changes.size());
        for (std::size_t i = 0; i < told; ++i) {
            const ChangeFact& change = verdict_.changes[i];
            std::string text =
                fmt::format("from step {} on everyone's step takes {} instead of {} ({:+.1f} %)",
                            format_integer(change.step), format_duration_ms(change.after_ms),
                            format_duration_ms(change.before_ms), 100 * (change.after_ms / change.before_ms - 1));
            if (!change.phase.empty())
                text += fmt::format(", most of it in {} ({}{})", printable(change.phase),
                                    change.phase_change_ms > 0 ? "+" : "−",
                                    format_duration_ms(std::abs(change.phase_change_ms)));
            text_.evidence.push_back(text);
        }
        if (const ChangeFact* change = worst_change(); change != nullptr && verdict_.stragglers.empty())
            text_.next.push_back(
                fmt::format("ask what changed at step {}: sequence length, data, power cap, other jobs",
                            format_integer(change->step)));
        const EventFacts& events = verdict_.events;
        if (!events.marked_steps.empty())
            text_.evidence.push_back(fmt::format(
                "{} {} longer for what its marks name, {} in all", format_plural(events.marked_steps.size(), "step"),
                events.marked_steps.size() == 1 ? "is" : "are", format_duration_ms(events.marked_excess_ms)));
        if (!events.unmarked_steps.empty())
            text_.evidence.push_back(fmt::format(
                "{} took over 1.5 times as long as {} neighbours without a mark to say "
                "why: {} {}",
                format_plural(events.unmarked_steps.size(), "step"),
                events.unmarked_steps.size() == 1 ? "its" : "their",
                events.unmarked_steps.size() == 1 ? "step" : "steps", format_ranges(events.unmarked_steps, 4)));
    }

    void tell_shares() {
        if (!verdict_.shares) return;
        const StepShares& shares = *verdict_.shares;
        constexpr double worth_telling = 0.005;
        std::string text;
        for (const auto& [share, what] :
             {std::pair(shares.compute, shares.hides_comm ? "compute with hidden communication" : "compute"),
              {shares.comm, "exposed communication"},
              {shares.data, "data"},
              {shares.host, "idle waiting for the host"},
              {shares.rest, "other"}})
            if (share >= worth_telling) text += fmt::format("{} {} {}", text.empty() ? ":" : ",", percent(share), what);
        text_.evidence.push_back(
            fmt::format("a step of {} on the median rank{}", format_duration_ms(verdict_.step_ms.value_or(0)), text));
        if (shares.wait >= 0.02 && shares.wait <= shares.comm * 1.05)
            text_.evidence.push_back(
                fmt::format("{} of the step is waiting for other ranks inside collectives, the rest "
                            "of communication is transfer",
                            percent(shares.wait)));
        const Efficiency& efficiency = verdict_.efficiency;
        if (efficiency.mfu) text_.evidence.push_back("MFU " + percent(*efficiency.mfu));
        if (efficiency.bubble_fraction && efficiency.theoretical_bubble_fraction)
            text_.evidence.push_back(fmt::format("pipeline: {} of a step without own work; the schedule alone needs {}",
                                                 percent(*efficiency.bubble_fraction),
                                                 percent(*efficiency.theoretical_bubble_fraction)));
    }

    void tell_bound() {
        if (!verdict_.shares) return;
        const bool waits = verdict_.shares->wait > verdict_.shares->comm / 2;
        switch (verdict_.bound) {
            case Bound::compute:
                text_.next.emplace_back(
                    "the job is compute-bound: to make it faster, look at its kernels "
                    "(torch.profiler on any rank, then cep kernels)");
                break;
            case Bound::comm:
                text_.next.emplace_back(waits ? "the job is bound by communication, and most of that is waiting for "
                                                "slower ranks: even out their work first"
                                              : "the job is bound by communication: overlap it with backward, make "
                                                "messages larger or fewer, and check the links (cep comm)");
                break;
            case Bound::data:
                text_.next.emplace_back(
                    "the job is bound by its input: more loader workers, prefetching, pinned memory, "
                    "faster storage");
                break;
            case Bound::host:
                text_.next.emplace_back(
                    "the job is bound by its hosts: devices wait for launches; look for "
                    "synchronising calls, Python overhead, small kernels (CUDA graphs, torch.compile)");
                break;
            case Bound::mixed:
                text_.next.emplace_back("no single thing bounds the job");
                break;
            default:
                text_.next.emplace_back(verdict_.shares->hides_comm
                                            ? "what bounds the job is not known: no communication is timed, and what "
                                              "looks like compute has it inside"
                                            : "what bounds the job is not known: too little of a step is in phases of "
                                              "a known kind; time more of them");
        }
    }

    const Verdict& verdict_;
    VerdictText text_;
};

}  // namespace

VerdictText verdict_text(const Verdict& verdict) {
    return Teller(verdict).tell();
}

FailCondition FailCondition::parse(std::string_view text) {
    constexpr std::string_view prefix = "bound:";
    bool known = text == "straggler" || text == "imbalance" || text == "change" || text == "abstained";
    if (text.starts_with(prefix))
        for (const Bound bound : {Bound::unknown, Bound::compute, Bound::comm, Bound::data, Bound::host, Bound::mixed})
            known |= text.substr(prefix.size()) == bound_name(bound);
    if (!known)
        throw UsageError(fmt::format("--fail-on: not straggler, imbalance, change, abstained or bound:NAME: {}", text));
    FailCondition finding;
    finding.name_ = text;
    return finding;
}

bool FailCondition::is_in(const Verdict& verdict) const {
    if (name_ == "straggler") return !verdict.stragglers.empty();
    if (name_ == "imbalance") return verdict.stage_imbalance.has_value();
    if (name_ == "abstained") return verdict.abstained;
    if (name_ == "change")
        return std::any_of(verdict.changes.begin(), verdict.changes.end(),
                           [](const ChangeFact& change) { return change.after_ms > change.before_ms; });
    return name_ == "bound:" + std::string(bound_name(verdict.bound));
}

}  // namespace cep::tool
