// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/driver_api.hpp"

namespace cep::cuda {

/// The driver's entry points, if this process has loaded libcuda; null if it has not, or if the driver lacks one that
/// cep needs. Never loads the library itself: a process without it has no CUDA context either. Takes the loader's
/// lock the first times; not for the hot path.
[[nodiscard]] const DriverApi* find_driver() noexcept;

/// The symbol that kept find_driver() from using the library; null if there was none.
[[nodiscard]] const char* missing_driver_symbol() noexcept;

/// Whether the error says that the context, and everything in it, is gone for good.
[[nodiscard]] bool is_sticky(CUresult code) noexcept;

/// While it lives, calls of this thread cannot invalidate another thread's stream capture.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const DriverApi& driver) noexcept : driver_(driver) {
        (void)driver_.thread_exchange_stream_capture_mode(&mode_);
    }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;
    ~RelaxedCapture() { (void)driver_.thread_exchange_stream_capture_mode(&mode_); }

  private:
    const DriverApi& driver_;
    CUstreamCaptureMode mode_ = capture_mode::relaxed;
};

}  // namespace cep::cuda
