// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/driver_api.hpp"

namespace cep::cuda {

/// The driver's entry points. Null if this process has not loaded libcuda, or if the driver lacks a required one. It
/// never loads libcuda itself: a process without libcuda has no CUDA context either. Until it succeeds it takes the
/// loader's lock, so it is not for the hot path.
[[nodiscard]] const DriverApi* find_driver() noexcept;

/// The required symbol that find_driver() did not find in libcuda; null if none is missing.
[[nodiscard]] const char* missing_driver_symbol() noexcept;

/// Whether the error means that the context and everything in it is lost.
[[nodiscard]] bool is_sticky(CUresult code) noexcept;

/// While this object lives, this thread's calls cannot invalidate another thread's stream capture.
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
