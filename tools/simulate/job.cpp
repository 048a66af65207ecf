// SPDX-License-Identifier: Apache-2.0
#include "simulate/job.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/failure.hpp"
#include "simulate/layout.hpp"

namespace cep::simulation {
namespace {

using tool::UsageError;

void complete_layout(Job& job) {
    const std::int64_t model = job.tp * job.pp;
    if (job.dp == 0 && job.ranks % model == 0) job.dp = job.ranks / model;
    if (model * job.dp != job.ranks)
        throw UsageError(fmt::format("{}tp {} × pp {} × dp {} is not ranks {}", job.where, job.tp, job.pp,
                                     job.dp == 0 ? "?" : std::to_string(job.dp), job.ranks));
    if (job.micro_batches == 0) job.micro_batches = job.pp > 1 ? 4 * job.pp : 1;
    if (job.stage_weights.empty()) job.stage_weights.assign(static_cast<std::size_t>(job.pp), 1.0);
    if (std::cmp_not_equal(job.stage_weights.size(), job.pp))
        throw UsageError(
            fmt::format("{}stage_weights: {} values for pp {}", job.where, job.stage_weights.size(), job.pp));
}

void check_files(Job& job) {
    std::sort(job.missing_ranks.begin(), job.missing_ranks.end());
    job.missing_ranks.erase(std::unique(job.missing_ranks.begin(), job.missing_ranks.end()), job.missing_ranks.end());
    for (const std::int64_t rank : job.missing_ranks)
        if (rank < 0 || rank >= job.ranks)
            throw UsageError(fmt::format("{}missing_ranks: {} is not one of {} ranks", job.where, rank, job.ranks));
    if (std::cmp_equal(job.missing_ranks.size(), job.ranks))
        throw UsageError(job.where + "missing_ranks: no rank is left");
    if (job.gzip && job.zstd) throw UsageError(job.where + "gzip and zstd: only one of them");
}

void expand_victims(const Job& job, const Layout& layout, Fault& fault) {
    if (fault.host && (*fault.host < 0 || std::cmp_greater_equal(*fault.host, layout.hosts())))
        throw UsageError(fmt::format("{}.host: {} is not one of {} hosts", fault.where, *fault.host, layout.hosts()));
    if (fault.stage && (*fault.stage < 0 || *fault.stage >= job.pp))
        throw UsageError(fmt::format("{}.stage: {} is not one of {} stages", fault.where, *fault.stage, job.pp));
    for (const std::int64_t rank : fault.ranks)
        if (rank < 0 || rank >= job.ranks)
            throw UsageError(fmt::format("{}.rank: {} is not one of {} ranks", fault.where, rank, job.ranks));
    for (std::size_t rank = 0; (fault.host || fault.stage) && rank < layout.ranks; ++rank) {
        const bool of_host = fault.host && std::cmp_equal(layout.host_of(rank), *fault.host);
        const bool of_stage = fault.stage && std::cmp_equal(layout.coordinates_of(rank).pp, *fault.stage);
        if (of_host || of_stage) fault.ranks.push_back(static_cast<std::int64_t>(rank));
    }
    std::sort(fault.ranks.begin(), fault.ranks.end());
    fault.ranks.erase(std::unique(fault.ranks.begin(), fault.ranks.end()), fault.ranks.end());
}

void check_step(const Job& job, const std::string& where, const char* key, std::int64_t step) {
    if (step < job.start_step || step > job.last_step())
        throw UsageError(
            fmt::format("{}.{}: {} is not in steps {} to {}", where, key, step, job.start_step, job.last_step()));
}

void complete_steps(const Job& job, Fault& fault) {
    if (fault.pattern == Pattern::window && (!fault.first_step || !fault.last_step))
        throw UsageError(fault.where + ".pattern: a window needs first_step and last_step");
    fault.first_step = fault.first_step.value_or(job.start_step);
    fault.last_step = fault.last_step.value_or(job.last_step());
    check_step(job, fault.where, "first_step", *fault.first_step);
    check_step(job, fault.where, "last_step", *fault.last_step);
    if (*fault.last_step < *fault.first_step)
        throw UsageError(
            fmt::format("{}.last_step: {} is before first_step {}", fault.where, *fault.last_step, *fault.first_step));
    constexpr double intermittent_fraction = 0.3;
    constexpr double flapping_fraction = 0.5;
    if (!fault.fraction)
        fault.fraction = fault.pattern == Pattern::intermittent
                             ? intermittent_fraction
                             : (fault.pattern == Pattern::flapping ? flapping_fraction : 1.0);
}

void complete_event(const Job& job, Event& event) {
    if (!event.step && !event.every_steps)
        throw UsageError(event.where + (event.type == EventType::slowdown_all ? ".step: missing"
                                                                              : ".step: missing, and no every_steps"));
    if (event.step) check_step(job, event.where, "step", *event.step);
    if (event.last_step) check_step(job, event.where, "last_step", *event.last_step);
    constexpr double steps_of_an_event = 3.0;
    if (!event.duration_ms) event.duration_ms = steps_of_an_event * job.step_ms;
    event.step = event.step.value_or(job.start_step + event.every_steps.value_or(1) - 1);
    event.last_step = event.last_step.value_or(
        event.type == EventType::slowdown_all || event.every_steps ? job.last_step() : *event.step);
}

}  // namespace

void Job::complete() {
    complete_layout(*this);
    check_files(*this);
    const Layout layout(*this);
    for (Fault& fault : faults) {
        expand_victims(*this, layout, fault);
        complete_steps(*this, fault);
    }
    for (Event& event : events) complete_event(*this, event);
}

}  // namespace cep::simulation
