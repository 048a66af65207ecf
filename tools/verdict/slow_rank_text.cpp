// SPDX-License-Identifier: Apache-2.0
#include "verdict/slow_rank_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"

namespace cep::tool {
namespace {

std::string times(double ratio) {
    return ratio < 9.95 ? fmt::format("{:.2f} times", ratio) : fmt::format("{:.0f} times", ratio);
}

std::string range_of(const Finding& straggler) {
    return fmt::format("steps {} to {}", format_integer(straggler.first_step), format_integer(straggler.last_step));
}

/// "any 8 steps": so many that one of them is most likely slow.
std::string steps_to_look_at(const Finding& straggler) {
    constexpr double missed = 0.05;  // of all such stretches of steps
    if (straggler.pattern == Pattern::window) return range_of(straggler);
    if (straggler.pattern == Pattern::persistent) return "any step";
    if (straggler.every_steps) return fmt::format("any {} steps", format_integer(*straggler.every_steps));
    const double fraction = std::clamp(straggler.step_fraction, 1e-6, 0.95);
    return fmt::format("any {} steps",
                       format_integer(std::lround(std::ceil(std::log(missed) / std::log1p(-fraction)))));
}

bool is_uncovered(const Finding& straggler) {
    return straggler.phase == uncovered_name;
}

std::string how_slow(const Finding& straggler) {
    const std::string excess = format_duration_ms(straggler.excess_ms);
    if (is_uncovered(straggler))
        return fmt::format("it spends {} more a step than its peers in time that no phase covers", excess);
    if (std::isinf(straggler.slowdown))
        return fmt::format("{} takes {} a step, and {} do not have it", straggler.phase, excess,
                           straggler.is_alone ? "its peers" : "most of its peers");
    return fmt::format("{} takes {} as long as on its peers, {} more a step", straggler.phase,
                       times(straggler.slowdown), excess);
}

std::string tool_for(const Finding& straggler) {
    if (straggler.late_host)
        return "look at its host (other processes, CPU affinity, Python between launches), then at its GPU's "
               "clocks (nvidia-smi -q),";
    switch (straggler.phase_kind) {
        case schema::Kind::data:
            return "look at the data loader, its workers, storage and CPU load (py-spy, iostat)";
        case schema::Kind::compute:
            return "compare its GPU's clocks and ECC errors with a peer's (nvidia-smi -q), then run torch.profiler "
                   "or Nsight Systems";
        default:
            return "run torch.profiler or Nsight Systems";
    }
}

/// " (slow as well: backward)"; "" if only one phase is.
std::string also_slow(const Finding& straggler) {
    std::string text;
    for (const std::string& phase : straggler.also) text += (text.empty() ? " (slow as well: " : ", ") + phase;
    return text.empty() ? text : text + ")";
}

}  // namespace

std::string when(const Finding& straggler) {
    switch (straggler.pattern) {
        case Pattern::persistent:
            return "in nearly every step";
        case Pattern::window:
            return "in " + range_of(straggler);
        default:
            if (straggler.every_steps)
                return fmt::format("every {} {}steps, in {}", straggler.every_recorded,
                                   *straggler.every_steps == straggler.every_recorded ? "" : "recorded ",
                                   range_of(straggler));
            return fmt::format("now and then, in {} of the {}", format_percent(straggler.step_fraction),
                               range_of(straggler));
    }
}

std::string describe_straggler(const Finding& straggler) {
    std::string text =
        fmt::format("{}: {}, {}{}{}", name_of({straggler.typical_rank}, {straggler.typical_host}), how_slow(straggler),
                    when(straggler), straggler.grows ? ", and it grows" : "", also_slow(straggler));
    if (straggler.waiters_median_wait_ms)
        text += fmt::format("; meanwhile the others wait {} a step in collectives",
                            format_duration_ms(*straggler.waiters_median_wait_ms));
    if (straggler.late_host)
        text += fmt::format("; its host may be late: collectives begin {} after their launch, {} on its peers",
                            format_duration_ms(straggler.late_host->lag_ms),
                            format_duration_ms(straggler.late_host->peers_lag_ms));
    return text;
}

std::string compare_groups(const Finding& group) {
    const double usual_ms = group.usual_ms.value_or(0);
    const double slow_ms = usual_ms + group.excess_ms;
    const DurationFormat duration(usual_ms > 0 ? usual_ms : slow_ms, slow_ms);
    const std::string slow = name_of(group.ranks, group.hosts);
    const std::string fast = name_of(group.fast_ranks, group.fast_hosts);
    if (is_uncovered(group))
        return fmt::format("{} spend{} {} more a step in time that no phase covers than {}", slow,
                           group.ranks.size() == 1 ? "s" : "", format_duration_ms(group.excess_ms), fast);
    if (std::isinf(group.slowdown))
        return fmt::format("{} takes {} on {}, and {} {} not have it", group.phase, duration(slow_ms), slow, fast,
                           group.fast_ranks.size() == 1 ? "does" : "do");
    return fmt::format("{} takes {} on {}, {} on {} ({} as long)", group.phase, duration(slow_ms), slow,
                       duration(usual_ms), fast, times(group.slowdown));
}

std::string describe_group(const Finding& group) {
    const std::string text = fmt::format("{}, {}{}", compare_groups(group), when(group), also_slow(group));
    return group.stage ? fmt::format("pipeline stage {}: {}", *group.stage, text) : text;
}

std::vector<std::string> next_steps_at(const Finding& worst, bool is_on_slow_host) {
    if (is_on_slow_host)
        return {fmt::format("look at {}: {}, its CPUs and other processes, its network", worst.typical_host,
                            worst.phase_kind == schema::Kind::data ? "its storage (iostat)"
                                                                   : "cooling and power of its GPUs (nvidia-smi -q)")};
    std::vector<std::string> next;
    if (is_uncovered(worst)) {
        next.push_back(
            fmt::format("time what rank {} does outside of its phases: logging, evaluation, garbage "
                        "collection, other processes",
                        worst.typical_rank));
    } else {
        next.push_back(
            fmt::format("{} on rank {} in {}", tool_for(worst), worst.typical_rank, steps_to_look_at(worst)));
    }
    if (worst.grows)
        next.push_back(
            fmt::format("it grows: look at temperature and clocks of rank {} (nvidia-smi -q -d "
                        "PERFORMANCE,TEMPERATURE), and at memory that fills up",
                        worst.typical_rank));
    return next;
}

}  // namespace cep::tool
