// SPDX-License-Identifier: Apache-2.0
//
// The simulated GPU: its operations with their completion times, and its clock.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace fake_cuda {

struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

/// Times are CLOCK_MONOTONIC unless they say gpu.
struct Operation {
    std::int64_t earliest_ns = 0;
    std::int64_t duration_ns = 0;
    bool gate_closed = false;
    /// Unknown while the operation is a closed gate or waits for one.
    std::optional<std::int64_t> end_ns;
    std::uint64_t end_gpu_ns = 0;
    /// Operations that must be done first; empty once end_ns is known.
    std::vector<OperationPtr> after;
};

/// CLOCK_MONOTONIC.
[[nodiscard]] std::int64_t monotonic_ns();

/// The GPU's clock as a linear function of the host's clock.
class DeviceClock {
  public:
    void set(std::int64_t now_ns, std::int64_t offset_ns, double drift_ppm);
    [[nodiscard]] std::uint64_t gpu_ns(std::int64_t time_ns) const;
    [[nodiscard]] std::int64_t host_duration_ns(double gpu_duration_ns) const;

  private:
    std::int64_t base_ns_ = 0;
    std::int64_t offset_ns_ = 0;
    double drift_ = 0;
};

/// Not thread-safe.
class Timeline {
  public:
    DeviceClock clock;

    /// Submits an operation now. Null entries of `after` are ignored.
    OperationPtr submit(std::span<const OperationPtr> after, double gpu_duration_ns, bool gate = false);

    void open_gates();

    /// Stops the GPU: operations that are not complete now never will be.
    void stop();
    [[nodiscard]] bool stopped() const { return stopped_ns_ != never_ns; }

    [[nodiscard]] bool complete(const Operation& operation) const;
    /// Whether the operation is complete, or will be without further action.
    [[nodiscard]] bool completes(const Operation& operation) const;

  private:
    static constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();

    bool settle(Operation& operation) const;

    std::vector<OperationPtr>
        unsettled_;  // in the order of submission, so that one pass settles all that can be settled
    std::int64_t stopped_ns_ = never_ns;
};

/// The result of cuEventElapsedTime: a float of milliseconds between two ticks of the GPU's clock.
[[nodiscard]] float elapsed_ms(std::uint64_t start_gpu_ns, std::uint64_t end_gpu_ns);

}  // namespace fake_cuda
