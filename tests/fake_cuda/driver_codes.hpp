// SPDX-License-Identifier: Apache-2.0
//
// Codes and flags of the CUDA driver that the tests use and cep does not.
#pragma once

#include "cuda/driver_api.hpp"

namespace cep::cuda {

namespace result {
inline constexpr CUresult not_initialized = 3;
inline constexpr CUresult deinitialized = 4;
inline constexpr CUresult no_device = 100;
inline constexpr CUresult invalid_device = 101;
inline constexpr CUresult invalid_context = 201;
inline constexpr CUresult not_found = 500;
inline constexpr CUresult illegal_address = 700;
inline constexpr CUresult launch_timeout = 702;
inline constexpr CUresult launch_failed = 719;
inline constexpr CUresult capture_invalidated = 901;
inline constexpr CUresult capture_merge = 902;
inline constexpr CUresult capture_unmatched = 903;
inline constexpr CUresult capture_unjoined = 904;
inline constexpr CUresult capture_isolation = 905;
inline constexpr CUresult captured_event = 907;
inline constexpr CUresult unknown = 999;
}  // namespace result

namespace event_flags {
inline constexpr unsigned int blocking_sync = 0x1;
inline constexpr unsigned int disable_timing = 0x2;
inline constexpr unsigned int interprocess = 0x4;
}  // namespace event_flags

namespace stream_flags {
inline constexpr unsigned int normal = 0x0;
}  // namespace stream_flags

namespace capture_status {
inline constexpr CUstreamCaptureStatus active = 1;
inline constexpr CUstreamCaptureStatus invalidated = 2;
}  // namespace capture_status

namespace capture_mode {
inline constexpr CUstreamCaptureMode global = 0;
inline constexpr CUstreamCaptureMode thread_local_ = 1;
}  // namespace capture_mode

}  // namespace cep::cuda
