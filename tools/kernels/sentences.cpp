// SPDX-License-Identifier: Apache-2.0
#include "kernels/sentences.hpp"

#include <fmt/format.h>

#include "base/units.hpp"

namespace cep::kernels {
namespace {

// A rank whose own work is this much longer than the others' stands out.
constexpr double notable_excess = 0.05;
constexpr double mostly_idle = 0.5;
// Of any rank standing out where all are alike.
constexpr double false_alarms = 0.01;

double ratio(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string percent(double fraction) {
    return fmt::format("{:.1f} %", 100 * fraction);
}

double idle_fraction(const KernelReport& report) {
    return ratio(report.total.time.idle_ns(), report.total.time.window_ns);
}

// The window of a rank, or of its mean step.
double mean_window_ms(const KernelReport& report) {
    std::size_t steps = 0;
    for (const RankTrace& rank : report.ranks) steps += rank.steps.size();
    const std::size_t count = report.per_step ? steps : report.ranks.size();
    return to_ms(report.total.time.window_ns) / static_cast<double>(count);
}

RankVerdict longest_work(const KernelReport& report, const RankSpread& own) {
    const double excess = own.excess.value_or(0);
    return {true,
            fmt::format("Rank {} stands out: its own work (all but comm) takes {} more time than the others' median, "
                        "{} instead of {}{}.{}",
                        own.longest_rank, percent(excess), tool::format_duration_ms(own.longest_ms),
                        tool::format_duration_ms(own.longest_ms / (1 + excess)), report.per_step ? " a step" : "",
                        report.total.time.comm_union_ns > 0 ? " The others wait for it in their communication." : ""),
            ""};
}

// The last rank to come to a collective waits least.
RankVerdict least_comm(const KernelReport& report, const RankSpread& comm) {
    return {true,
            fmt::format("Rank {} stands out: its kernels take no longer, but it has {} of comm{} where the others have "
                        "{}. They wait for it, and what makes it late is not on its GPU.",
                        comm.shortest_rank, tool::format_duration_ms(comm.shortest_ms),
                        report.per_step ? " a step" : "", tool::format_duration_ms(comm.shortest_ms + comm.deficit_ms)),
            fmt::format("look at the host of rank {}", comm.shortest_rank)};
}

RankVerdict cannot_tell(const KernelReport& report, std::int64_t rank, bool is_longer) {
    const std::string what = fmt::format("Rank {} has the {}", rank, is_longer ? "most own work" : "least comm");
    if (report.compared_steps < 2)
        return {false, what + ", but one step cannot tell a slow rank from chance.",
                "trace several steps of all ranks"};
    return {false, fmt::format("{}, but in {} steps that may be chance.", what, report.compared_steps),
            "trace more steps to tell a slow rank from chance"};
}

}  // namespace

std::string describe_busy(const KernelReport& report) {
    const double idle = idle_fraction(report);
    return fmt::format("{} busy {} of the time and idle {}.",
                       report.total.time.gpus == 1 ? "The GPU was" : "The GPUs were", percent(1 - idle), percent(idle));
}

std::string describe_classes(const GpuTime& time) {
    const std::int64_t all_ns = time.all().time_ns;
    const auto share = [&](const ClassTime& one) { return percent(ratio(one.time_ns, all_ns)); };
    std::string matmul = "matmul " + share(time.of(KernelClass::matmul));
    if (time.attention.count > 0) matmul += fmt::format(" (attention {})", share(time.attention));
    return fmt::format("Of the kernels' time, {}, comm {}, memory {}, other {}.", matmul,
                       share(time.of(KernelClass::comm)), share(time.of(KernelClass::memory)),
                       share(time.of(KernelClass::other)));
}

std::string describe_exposed(const GpuTime& time) {
    if (time.comm_union_ns == 0) return "There was no communication.";
    return fmt::format("{} of the communication was exposed: no compute ran beside it.",
                       percent(ratio(time.exposed_comm_ns(), time.comm_union_ns)));
}

RankVerdict judge_ranks(const KernelReport& report) {
    const RankSpread* const own = report.spread_of("own work");
    const RankSpread* const comm = report.spread_of("comm");
    if (own == nullptr || comm == nullptr) return {};
    const bool is_longer = own->excess.value_or(0) >= notable_excess;
    const bool waits_less = comm->deficit_ms >= notable_excess * mean_window_ms(report);
    if (is_longer && own->longest_chance.value_or(1) < false_alarms) return longest_work(report, *own);
    if (waits_less && comm->shortest_chance.value_or(1) < false_alarms) return least_comm(report, *comm);
    if (is_longer || waits_less)
        return cannot_tell(report, is_longer ? own->longest_rank : comm->shortest_rank, is_longer);
    return {false,
            fmt::format("No rank stands out: the longest own work (all but comm) is {} above the others' median.",
                        percent(own->excess.value_or(0))),
            ""};
}

std::string advise_on_idle(const KernelReport& report) {
    if (idle_fraction(report) <= mostly_idle) return "";
    return "look first at what the host does between kernels, because the GPUs are mostly idle";
}

}  // namespace cep::kernels
