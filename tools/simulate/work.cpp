// SPDX-License-Identifier: Apache-2.0
#include "simulate/work.hpp"

#include <cmath>
#include <utility>

namespace cep::simulation {
namespace {

bool runs_on_device(std::size_t phase) {
    return phase >= static_cast<std::size_t>(Phase::forward);
}

}  // namespace

double intensity(const Fault& fault, std::size_t index, const Random& random, std::int64_t step) {
    const std::int64_t first = *fault.first_step;
    const std::int64_t last = *fault.last_step;
    if (step < first || step > last) return 0.0;
    switch (fault.pattern) {
        case Pattern::intermittent:
            return random.uniform(Stream::fault, index, static_cast<std::uint64_t>(step)) < *fault.fraction ? 1.0 : 0.0;
        case Pattern::drift:
            return static_cast<double>(step - first + 1) / static_cast<double>(last - first + 1);
        case Pattern::flapping: {
            const auto at = static_cast<double>((step - first) % fault.period_steps);
            return at < *fault.fraction * static_cast<double>(fault.period_steps) ? 1.0 : 0.0;
        }
        case Pattern::persistent:
        case Pattern::window:
            break;
    }
    return 1.0;
}

Work::Work(const Job& job, const Layout& layout, std::vector<bool> active_faults)
    : job_(job),
      layout_(layout),
      random_(job.seed),
      active_faults_(std::move(active_faults)),
      base_ns_(layout.ranks * phase_count),
      own_ns_(layout.ranks * phase_count),
      own_deviations_(job.noise_correlation > 0 ? layout.ranks * phase_count : 0),
      common_logs_(layout.hosts() * phase_count),
      effects_(job.faults.size()) {
    set_base_work();
}

void Work::set_base_work() {
    for (std::size_t i = 0; i < base_ns_.size(); ++i) {
        const std::size_t rank = i / phase_count;
        const std::size_t phase = i % phase_count;
        double share = job_.phases[phase];
        if (runs_on_device(phase)) share *= job_.stage_weights[layout_.coordinates_of(rank).pp];
        const double spread = job_.rank_spread * random_.normal(Stream::rank_spread, rank, phase);
        base_ns_[i] = share * job_.step_ms * ns_per_ms * exponential(spread);
    }
}

void Work::begin_step(std::int64_t step) {
    const auto counter = static_cast<std::uint64_t>(step);
    draw_common_noise(counter);
    draw_own_noise(counter);
    if (job_.spike_fraction > 0) add_spikes(counter);
    slow_all(step);
    for (std::size_t i = 0; i < job_.faults.size(); ++i)
        if (active_faults_[i]) apply_fault(i, step);
    first_ = false;
}

void Work::draw_common_noise(std::uint64_t step) {
    // Half the variance less, so that the mean of the log-normal factor is 1.
    const double variance =
        job_.noise * job_.noise + job_.host_noise * job_.host_noise + job_.step_noise * job_.step_noise;
    for (std::size_t i = 0; i < common_logs_.size(); ++i) {
        const std::size_t phase = i % phase_count;
        double log = -0.5 * variance;
        if (job_.step_noise > 0) log += job_.step_noise * random_.normal(Stream::step_noise, step, phase);
        if (job_.host_noise > 0)
            log += job_.host_noise * random_.normal(Stream::host_noise, i / phase_count, step, phase);
        common_logs_[i] = log;
    }
}

void Work::draw_own_noise(std::uint64_t step) {
    const double correlation = first_ ? 0.0 : job_.noise_correlation;
    const double innovation = std::sqrt(1.0 - correlation * correlation);
    for (std::size_t i = 0; i < own_ns_.size(); ++i) {
        const std::size_t rank = i / phase_count;
        const std::size_t phase = i % phase_count;
        double deviation = 0.0;
        if (job_.noise > 0) deviation = random_.normal(Stream::own_noise, rank, step, phase);
        if (!own_deviations_.empty()) {
            deviation = correlation * own_deviations_[i] + innovation * deviation;
            own_deviations_[i] = deviation;
        }
        const double log = common_logs_[layout_.host_of(rank) * phase_count + phase] + job_.noise * deviation;
        own_ns_[i] = base_ns_[i] * exponential(log);
    }
}

void Work::add_spikes(std::uint64_t step) {
    for (std::size_t rank = 0; rank < layout_.ranks; ++rank) {
        if (random_.uniform(Stream::spike, rank, step) >= job_.spike_fraction) continue;
        const std::size_t phase = random_.bits(Stream::spike_phase, rank, step) % phase_count;
        const double size_ms = job_.spike_ms * (0.5 + random_.uniform(Stream::spike_size, rank, step));
        own_ns_[rank * phase_count + phase] += size_ms * ns_per_ms;
    }
}

void Work::slow_all(std::int64_t step) {
    for (const Event& event : job_.events) {
        if (event.type != EventType::slowdown_all || step < *event.step || step > *event.last_step) continue;
        for (std::size_t i = 0; i < own_ns_.size(); ++i)
            if (event.phases[i % phase_count]) own_ns_[i] *= event.slowdown;
    }
}

void Work::apply_fault(std::size_t index, std::int64_t step) {
    const Fault& fault = job_.faults[index];
    const double strength = intensity(fault, index, random_, step);
    if (strength <= 0.0) return;
    FaultEffect& effect = effects_[index];
    ++effect.steps;
    effect.rank_steps += static_cast<std::int64_t>(fault.ranks.size());
    if (job_.records(step)) effect.recorded_steps.push_back(step);
    for (const std::int64_t rank : fault.ranks)
        for (std::size_t phase = 0; phase < phase_count; ++phase) {
            if (!fault.phases[phase]) continue;
            double& own_ns = own_ns_[static_cast<std::size_t>(rank) * phase_count + phase];
            const double excess_ns = strength * (own_ns * (fault.slowdown - 1.0) + fault.excess_ms * ns_per_ms);
            effect.base_ms += own_ns / ns_per_ms;
            effect.excess_ms += excess_ns / ns_per_ms;
            own_ns += excess_ns;
        }
}

}  // namespace cep::simulation
