// SPDX-License-Identifier: Apache-2.0
//
// The functions of the fake driver, with the general rules for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace fake_cuda {

// X(name, needs_init, synchronizes, reports_errors). The name has no version: cuEventDestroy_v2 is counted as
// cuEventDestroy. reports_errors: whether a lost context makes the call fail.
#define FAKE_CUDA_FUNCTIONS(X)                               \
    X(cuInit, false, false, false)                           \
    X(cuDriverGetVersion, false, false, false)               \
    X(cuGetErrorName, false, false, false)                   \
    X(cuDeviceGet, true, false, false)                       \
    X(cuDeviceGetCount, true, false, false)                  \
    X(cuDeviceGetName, true, false, false)                   \
    X(cuDeviceGetUuid, true, false, false)                   \
    X(cuDevicePrimaryCtxRetain, true, false, false)          \
    X(cuDevicePrimaryCtxRelease, true, false, false)         \
    X(cuDevicePrimaryCtxGetState, true, false, false)        \
    X(cuCtxCreate, true, false, false)                       \
    X(cuCtxDestroy, true, false, false)                      \
    X(cuCtxGetCurrent, true, false, false)                   \
    X(cuCtxSetCurrent, true, false, false)                   \
    X(cuCtxPushCurrent, true, false, false)                  \
    X(cuCtxPopCurrent, true, false, false)                   \
    X(cuCtxGetDevice, true, false, false)                    \
    X(cuCtxGetId, true, false, false)                        \
    X(cuCtxSynchronize, true, true, true)                    \
    X(cuMemGetInfo, true, false, true)                       \
    X(cuStreamCreate, true, false, true)                     \
    X(cuStreamCreateWithPriority, true, false, true)         \
    X(cuStreamDestroy, true, false, true)                    \
    X(cuStreamGetId, true, false, true)                      \
    X(cuStreamGetCtx, true, false, true)                     \
    X(cuStreamSynchronize, true, true, true)                 \
    X(cuStreamWaitEvent, true, true, true)                   \
    X(cuStreamIsCapturing, true, false, true)                \
    X(cuStreamBeginCapture, true, false, true)               \
    X(cuStreamEndCapture, true, false, true)                 \
    X(cuThreadExchangeStreamCaptureMode, true, false, false) \
    X(cuEventCreate, true, false, true)                      \
    X(cuEventDestroy, true, false, true)                     \
    X(cuEventRecord, true, false, true)                      \
    X(cuEventQuery, true, false, true)                       \
    X(cuEventSynchronize, true, true, true)                  \
    X(cuEventElapsedTime, true, false, true)                 \
    X(cuGraphInstantiate, true, false, true)                 \
    X(cuGraphLaunch, true, false, true)                      \
    X(cuGraphExecDestroy, true, false, false)                \
    X(cuGraphDestroy, true, false, false)                    \
    X(cuLaunchKernel, true, false, true)                     \
    X(cuProfilerStart, true, false, true)                    \
    X(cuProfilerStop, true, false, true)

enum class Function : std::uint8_t {
#define FAKE_CUDA_ENUMERATOR(name, needs_init, synchronizes, reports_errors) name,
    FAKE_CUDA_FUNCTIONS(FAKE_CUDA_ENUMERATOR)
#undef FAKE_CUDA_ENUMERATOR
};

struct FunctionTraits {
    std::string_view name;
    bool needs_init;
    bool synchronizes;
    bool reports_errors;
};

inline constexpr FunctionTraits function_traits[] = {
#define FAKE_CUDA_TRAITS(name, needs_init, synchronizes, reports_errors) \
    {#name, needs_init, synchronizes, reports_errors},
    FAKE_CUDA_FUNCTIONS(FAKE_CUDA_TRAITS)
#undef FAKE_CUDA_TRAITS
};

inline constexpr std::size_t function_count = std::size(function_traits);

[[nodiscard]] constexpr const FunctionTraits& traits(Function function) noexcept {
    return function_traits[static_cast<std::size_t>(function)];
}

/// The index of a function by its name, `function_count` for none.
[[nodiscard]] constexpr std::size_t find_function(std::string_view name) noexcept {
    std::size_t index = 0;
    while (index < function_count && function_traits[index].name != name) ++index;
    return index;
}

}  // namespace fake_cuda
