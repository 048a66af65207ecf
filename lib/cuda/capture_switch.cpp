// SPDX-License-Identifier: Apache-2.0
#include "cuda/capture_switch.hpp"

#include "base/message.hpp"

namespace cep::cuda {

void CaptureSwitch::at_step(std::int64_t step, std::uint64_t captures_met) noexcept {
    const bool is_capturing = captures_met_.exchange(captures_met, std::memory_order_relaxed) != captures_met;
    const State state = state_.load(std::memory_order_acquire);
    const bool in_range = range_.first_step <= step && step <= range_.last_step;
    if (state == State::waiting && in_range && !is_capturing)
        change(State::waiting, State::started, &DriverApi::profiler_start);
    else if (state == State::started && !in_range && !is_capturing)
        change(State::started, State::ended, &DriverApi::profiler_stop);
    else if (state == State::waiting && step > range_.last_step &&
             state_.exchange(State::ended, std::memory_order_acq_rel) == State::waiting)
        print_message(rank_,
                      "capture_range: nothing was captured: each of its steps was without a CUDA context, or in a "
                      "stream capture");
}

void CaptureSwitch::end() noexcept {
    change(State::started, State::ended, &DriverApi::profiler_stop);
}

void CaptureSwitch::change(State from, State to, Call function) noexcept {
    State expected = from;
    if (!state_.compare_exchange_strong(expected, State::switching, std::memory_order_acq_rel)) return;
    state_.store(call(function) ? to : from, std::memory_order_release);
}

/// False: not now. In relaxed mode the calls of this thread invalidate no capture.
bool CaptureSwitch::call(Call function) noexcept {
    const DriverApi* const driver = find_driver();
    if (driver == nullptr || driver->*function == nullptr) return false;
    CUcontext context = nullptr;
    if (driver->ctx_get_current(&context) != result::success || context == nullptr) return false;
    const RelaxedCapture relaxed(*driver);
    for (const std::uintptr_t handle : {stream_handles::legacy, stream_handles::per_thread}) {
        CUstreamCaptureStatus status = capture_status::none;
        const CUresult code = driver->stream_is_capturing(reinterpret_cast<CUstream>(handle), &status);
        if (code != result::success || status != capture_status::none) return false;
    }
    return (driver->*function)() == result::success;
}

}  // namespace cep::cuda
