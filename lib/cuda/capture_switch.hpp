// SPDX-License-Identifier: Apache-2.0
//
// Capture switch: tells a profiler that waits for cuProfilerStart, such as Nsight Systems, which steps to record.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/driver.hpp"
#include "options/sampling.hpp"

namespace cep::cuda {

/// Starts and stops once. Any thread.
class CaptureSwitch {
  public:
    void set(const CaptureRange& range, std::int32_t rank) noexcept {
        range_ = range;
        rank_ = rank;
    }
    [[nodiscard]] bool is_set() const noexcept { return range_.any(); }
    /// `captures_met`: spans of the calling thread that a stream capture has skipped. While it grows, a capture is
    /// under way, and the switch waits for the next step.
    void at_step(std::int64_t step, std::uint64_t captures_met) noexcept;
    /// Stops what it has started.
    void end() noexcept;

  private:
    enum class State : std::uint8_t { waiting, switching, started, ended };
    using Call = CUresult (*DriverApi::*)();

    [[nodiscard]] bool call(Call function) noexcept;
    void change(State from, State to, Call function) noexcept;

    CaptureRange range_;
    std::int32_t rank_ = 0;
    std::atomic<State> state_{State::waiting};
    std::atomic<std::uint64_t> captures_met_{0};
};

}  // namespace cep::cuda
