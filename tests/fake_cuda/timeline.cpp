// SPDX-License-Identifier: Apache-2.0
#include "timeline.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace fake_cuda {
namespace {

// The smallest difference between two elapsed times on an H200.
constexpr std::uint64_t tick_ns = 32;

}  // namespace

std::int64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void DeviceClock::set(std::int64_t now_ns, std::int64_t offset_ns, double drift_ppm) {
    base_ns_ = now_ns;
    offset_ns_ = offset_ns;
    drift_ = drift_ppm * 1e-6;
}

std::uint64_t DeviceClock::gpu_ns(std::int64_t time_ns) const {
    const std::int64_t drifted_ns = std::llround(static_cast<double>(time_ns - base_ns_) * drift_);
    // Unsigned, so that a clock near the limits of 64 bits wraps instead of overflowing.
    return static_cast<std::uint64_t>(time_ns) + static_cast<std::uint64_t>(offset_ns_) +
           static_cast<std::uint64_t>(drifted_ns);
}

std::int64_t DeviceClock::host_duration_ns(double gpu_duration_ns) const {
    constexpr double longest_ns = 1e18;  // keeps sums of times inside 64 bits
    return std::llround(std::min(gpu_duration_ns / (1 + drift_), longest_ns));
}

OperationPtr Timeline::submit(std::span<const OperationPtr> after, double gpu_duration_ns, bool gate) {
    auto operation = std::make_shared<Operation>();
    const std::int64_t now_ns = monotonic_ns();
    operation->earliest_ns = stopped() ? now_ns + 1 : now_ns;
    operation->duration_ns = clock.host_duration_ns(gpu_duration_ns);
    operation->gate_closed = gate;
    for (const OperationPtr& before : after) {
        if (!before) continue;
        if (before->end_ns)
            operation->earliest_ns = std::max(operation->earliest_ns, *before->end_ns);
        else
            operation->after.push_back(before);
    }
    if (!settle(*operation)) unsettled_.push_back(operation);
    return operation;
}

bool Timeline::settle(Operation& operation) const {
    if (operation.gate_closed) return false;
    for (const OperationPtr& before : operation.after) {
        if (!before->end_ns) return false;
        operation.earliest_ns = std::max(operation.earliest_ns, *before->end_ns);
    }
    operation.end_ns = operation.earliest_ns + operation.duration_ns;
    operation.end_gpu_ns = clock.gpu_ns(*operation.end_ns);
    operation.after.clear();
    return true;
}

void Timeline::open_gates() {
    const std::int64_t now_ns = monotonic_ns();
    for (const OperationPtr& operation : unsettled_) {
        if (operation->gate_closed) operation->earliest_ns = std::max(operation->earliest_ns, now_ns);
        operation->gate_closed = false;
    }
    std::erase_if(unsettled_, [this](const OperationPtr& operation) { return settle(*operation); });
}

void Timeline::stop() {
    stopped_ns_ = std::min(stopped_ns_, monotonic_ns());
}

bool Timeline::completes(const Operation& operation) const {
    return operation.end_ns && *operation.end_ns <= stopped_ns_;
}

bool Timeline::complete(const Operation& operation) const {
    return completes(operation) && *operation.end_ns <= monotonic_ns();
}

float elapsed_ms(std::uint64_t start_gpu_ns, std::uint64_t end_gpu_ns) {
    const auto ticks = static_cast<std::int64_t>(end_gpu_ns / tick_ns - start_gpu_ns / tick_ns);
    return static_cast<float>(static_cast<double>(ticks) * static_cast<double>(tick_ns) * 1e-6);
}

}  // namespace fake_cuda
