// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"

namespace cep::kernels {
namespace {

// A rank whose own work is this much longer than the others' stands out.
constexpr double notable_excess = 0.05;
constexpr double mostly_idle = 0.5;
// From which share of the time of all kernels a class is spoken of.
constexpr double bound_by_compute = 0.5;
constexpr double much_comm = 0.2;
constexpr double much_other = 0.4;
constexpr double much_pageable = 0.02;
constexpr double few_tensor_cores = 0.5;  // of matmul
// A host launches a kernel in some 5 to 10 µs: a GPU with shorter ones waits for it.
constexpr double much_idle = 0.2;
constexpr double short_kernel_ms = 0.02;
// The chance that any rank stands out where all are alike.
constexpr double false_alarms = 0.01;

double ratio(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string percent(double fraction) {
    return fmt::format("{:.1f} %", 100 * fraction);
}

std::string describe_classes(const GpuTime& time) {
    const std::int64_t all_ns = time.all().time_ns;
    std::vector<std::string> shares;
    for (std::size_t i = 0; i < class_names.size(); ++i)
        shares.push_back(fmt::format("{} {}", class_names[i], percent(ratio(time.classes[i].time_ns, all_ns))));
    return fmt::format("of the kernels' time, {}", join(shares, ", "));
}

std::string describe_exposed(const GpuTime& time) {
    if (time.comm_union_ns == 0) return "There was no communication.";
    return fmt::format("{} of the communication was exposed: no compute ran beside it",
                       percent(ratio(time.exposed_comm_ns(), time.comm_union_ns)));
}

double mean_kernel_ms(const KernelReport& report) {
    const ClassTime all = report.total.time.all();
    return all.count == 0 ? 0 : to_ms(all.time_ns) / static_cast<double>(all.count);
}

std::string describe_lengths(const KernelReport& report) {
    std::uint64_t steps = 0;
    for (const RankTrace& rank : report.ranks) steps += rank.steps.size();
    const std::uint64_t count = report.total.time.all().count;
    const std::string mean = tool::format_duration_ms(mean_kernel_ms(report));
    if (steps == 0) return fmt::format("{} take {} on average", tool::format_plural(count, "GPU event"), mean);
    return fmt::format("{} a step and rank take {} on average", tool::format_plural(count / steps, "GPU event"), mean);
}

struct TensorCores {
    std::int64_t matmul_ns = 0;
    std::int64_t tensor_ns = 0;  // of it
};
TensorCores find_tensor_cores(const KernelTotals& kernels) {
    TensorCores cores;
    for (const auto& [key, total] : kernels) {
        if (key.second != KernelClass::matmul) continue;
        for (const auto& [name, time_ns] : total.full_names) {
            add_ns(cores.matmul_ns, time_ns);
            if (uses_tensor_cores(name)) add_ns(cores.tensor_ns, time_ns);
        }
    }
    return cores;
}

std::int64_t pageable_copies_ns(const KernelTotals& kernels) {
    std::int64_t sum_ns = 0;
    for (const auto& [key, total] : kernels)
        if (key.second == KernelClass::memory && is_pageable_copy(key.first)) add_ns(sum_ns, total.total_ns);
    return sum_ns;
}

/// "softmax 12.0 ms, gelu 8.1 ms": of the class `other`, those with the most time.
std::string longest_of(const KernelTotals& kernels) {
    constexpr std::size_t most = 10;
    std::vector<std::pair<std::int64_t, std::string>> longest;
    for (const auto& [key, total] : kernels)
        if (key.second == KernelClass::other) longest.emplace_back(-total.total_ns, key.first);
    std::sort(longest.begin(), longest.end());
    longest.resize(std::min(most, longest.size()));
    std::vector<std::string> words;
    for (const auto& [minus_ns, name] : longest)
        words.push_back(name + " " + tool::format_duration_ms(to_ms(-minus_ns)));
    return join(words, ", ");
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
    const std::string what = fmt::format("rank {} has the {}", rank, is_longer ? "most own work" : "least comm");
    if (report.compared_steps < 2)
        return {false, what + ", but one step cannot tell a slow rank from chance", "trace several steps of all ranks"};
    return {false, fmt::format("{}, but in {} steps that may be chance", what, report.compared_steps),
            "trace more steps to tell a slow rank from chance"};
}

}  // namespace

std::string describe_busy(const KernelReport& report) {
    const double idle = idle_fraction(report);
    return fmt::format("{} busy {} of the time and idle {}.",
                       report.total.time.gpus == 1 ? "The GPU was" : "The GPUs were", percent(1 - idle), percent(idle));
}

std::vector<std::string> describe_work(const KernelReport& report) {
    std::vector<std::string> sentences = {describe_classes(report.total.time), describe_exposed(report.total.time),
                                          describe_lengths(report)};
    const TensorCores cores = find_tensor_cores(report.total.kernels);
    if (cores.matmul_ns > 0)
        sentences.push_back(fmt::format("{} of matmul's time is in kernels whose names say Tensor Cores",
                                        percent(ratio(cores.tensor_ns, cores.matmul_ns))));
    if (const std::int64_t pageable_ns = pageable_copies_ns(report.total.kernels); pageable_ns > 0)
        sentences.push_back(fmt::format("copies between the device and pageable memory of the host take {}",
                                        tool::format_duration_ms(to_ms(pageable_ns))));
    return sentences;
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
            fmt::format("no rank stands out: the longest own work (all but comm) is {} above the others' median",
                        percent(own->excess.value_or(0))),
            ""};
}

std::vector<std::string> advise(const KernelReport& report) {
    std::vector<std::string> advice;
    const GpuTime& time = report.total.time;
    const std::int64_t all_ns = time.all().time_ns;
    const auto share = [&](KernelClass one) { return ratio(time.of(one).time_ns, all_ns); };
    const TensorCores cores = find_tensor_cores(report.total.kernels);
    if (idle_fraction(report) > mostly_idle)
        advice.emplace_back("look first at what the host does between kernels, because the GPUs are mostly idle");
    if (idle_fraction(report) > much_idle && mean_kernel_ms(report) < short_kernel_ms)
        advice.push_back(
            fmt::format("bound by launches: kernels take {} on average and the GPUs are idle {}: fuse them "
                        "(torch.compile), launch them as one (CUDA graphs), or take a larger batch",
                        tool::format_duration_ms(mean_kernel_ms(report)), percent(idle_fraction(report))));
    if (share(KernelClass::matmul) + share(KernelClass::attention) > bound_by_compute)
        advice.emplace_back(
            ratio(cores.tensor_ns, cores.matmul_ns) < few_tensor_cores
                ? "bound by compute, and little of matmul runs on Tensor Cores: bf16 or TF32, and sizes "
                  "that are multiples of 8"
                : "bound by compute: compare with the peak (MFU of cep summarize); a larger batch, fp8, "
                  "or less recomputation");
    if (share(KernelClass::comm) > much_comm)
        advice.push_back(
            fmt::format("communication is {}: overlap it, or less tensor parallelism, or a larger batch for "
                        "each transfer",
                        percent(share(KernelClass::comm))));
    if (share(KernelClass::other) > much_other)
        advice.push_back(
            fmt::format("other kernels are {}: small shapes or operations that are not fused "
                        "(torch.compile, fused norms and optimizers): {}",
                        percent(share(KernelClass::other)), longest_of(report.total.kernels)));
    if (ratio(pageable_copies_ns(report.total.kernels), all_ns) > much_pageable)
        advice.emplace_back("copies go from or to pageable memory: pin_memory=True, with non_blocking=True");
    return advice;
}

}  // namespace cep::kernels
