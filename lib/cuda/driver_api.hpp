// SPDX-License-Identifier: Apache-2.0
//
// The few entry points of the CUDA driver that cep calls, declared here so that every build has the CUDA backend.
// They are looked up in libcuda.so.1 at run time; cuda.h is never included and libcuda never linked.
// tests/fake_cuda/driver_api_matches_cuda_h.cpp proves types, values and names against cuda.h.
//
// Deliberately absent: cuInit (a forked data loader must not become a CUDA process) and every synchronising call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cep::cuda {

using CUcontext = struct OpaqueContext*;
using CUstream = struct OpaqueStream*;
using CUevent = struct OpaqueEvent*;
using CUdevice = int;
using CUresult = int;
using CUstreamCaptureStatus = unsigned int;
using CUstreamCaptureMode = unsigned int;

struct CUuuid {
    char bytes[16];
};

inline constexpr const char* library_name = "libcuda.so.1";

namespace result {
inline constexpr CUresult success = 0;
inline constexpr CUresult invalid_value = 1;
inline constexpr CUresult out_of_memory = 2;
inline constexpr CUresult invalid_handle = 400;
inline constexpr CUresult illegal_state = 401;
inline constexpr CUresult not_ready = 600;
inline constexpr CUresult context_is_destroyed = 709;
inline constexpr CUresult capture_unsupported = 900;
inline constexpr CUresult capture_implicit = 906;
inline constexpr CUresult capture_wrong_thread = 908;
}  // namespace result

namespace event_flags {
inline constexpr unsigned int normal = 0x0;
}  // namespace event_flags

namespace stream_flags {
inline constexpr unsigned int non_blocking = 0x1;
}  // namespace stream_flags

/// Special stream handles. NULL and `legacy` mean the same stream.
namespace stream_handles {
inline constexpr std::uintptr_t legacy = 0x1;
inline constexpr std::uintptr_t per_thread = 0x2;
}  // namespace stream_handles

namespace capture_status {
inline constexpr CUstreamCaptureStatus none = 0;
}  // namespace capture_status

namespace capture_mode {
inline constexpr CUstreamCaptureMode relaxed = 2;
}  // namespace capture_mode

// X(member, name, symbol, older_symbol, need, parameters)
//   name          as a CUDA program writes it; cuda.h may #define it to a versioned symbol
//   symbol        the symbol of libcuda.so.1; of variants, the one where NULL means the legacy default stream
//   older_symbol  the symbol in older drivers that lack `symbol`; else equal to `symbol`
//   need          required: cep cannot work without it; optional: null if the driver is too old
// The first three are all that a span calls: they are in one cache line.
// clang-format off
#define CEP_CUDA_FUNCTIONS(X)                                                                                          \
    X(ctx_get_current, cuCtxGetCurrent, cuCtxGetCurrent, cuCtxGetCurrent, required, (CUcontext* context))              \
    X(stream_is_capturing, cuStreamIsCapturing, cuStreamIsCapturing, cuStreamIsCapturing, required,                    \
      (CUstream stream, CUstreamCaptureStatus* status))                                                                \
    X(event_record, cuEventRecord, cuEventRecord, cuEventRecord, required, (CUevent event, CUstream stream))           \
    X(driver_get_version, cuDriverGetVersion, cuDriverGetVersion, cuDriverGetVersion, required, (int* version))        \
    X(ctx_get_device, cuCtxGetDevice, cuCtxGetDevice, cuCtxGetDevice, required, (CUdevice* device))                    \
    X(ctx_push_current, cuCtxPushCurrent, cuCtxPushCurrent_v2, cuCtxPushCurrent_v2, required, (CUcontext context))     \
    X(ctx_pop_current, cuCtxPopCurrent, cuCtxPopCurrent_v2, cuCtxPopCurrent_v2, required, (CUcontext* context))        \
    X(ctx_get_id, cuCtxGetId, cuCtxGetId, cuCtxGetId, optional, (CUcontext context, unsigned long long* id))           \
    X(device_get_name, cuDeviceGetName, cuDeviceGetName, cuDeviceGetName, required,                                    \
      (char* name, int capacity, CUdevice device))                                                                     \
    X(device_get_uuid, cuDeviceGetUuid, cuDeviceGetUuid_v2, cuDeviceGetUuid, required, (CUuuid* uuid, CUdevice device))\
    X(stream_create, cuStreamCreateWithPriority, cuStreamCreateWithPriority, cuStreamCreateWithPriority, required,     \
      (CUstream* stream, unsigned int flags, int priority))                                                            \
    X(stream_destroy, cuStreamDestroy, cuStreamDestroy_v2, cuStreamDestroy_v2, required, (CUstream stream))            \
    X(stream_get_ctx, cuStreamGetCtx, cuStreamGetCtx, cuStreamGetCtx, optional, (CUstream stream, CUcontext* context)) \
    X(primary_ctx_get_state, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState,       \
      optional, (CUdevice device, unsigned int* flags, int* active))                                                   \
    X(thread_exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode,       \
      cuThreadExchangeStreamCaptureMode, required, (CUstreamCaptureMode* mode))                                        \
    X(event_create, cuEventCreate, cuEventCreate, cuEventCreate, required, (CUevent* event, unsigned int flags))       \
    X(event_query, cuEventQuery, cuEventQuery, cuEventQuery, required, (CUevent event))                                \
    X(event_elapsed_time, cuEventElapsedTime, cuEventElapsedTime_v2, cuEventElapsedTime, required,                     \
      (float* milliseconds, CUevent start, CUevent end))                                                               \
    X(event_destroy, cuEventDestroy, cuEventDestroy_v2, cuEventDestroy_v2, required, (CUevent event))                  \
    X(get_error_name, cuGetErrorName, cuGetErrorName, cuGetErrorName, required, (CUresult code, const char** name))    \
    X(profiler_start, cuProfilerStart, cuProfilerStart, cuProfilerStart, optional, ())                                 \
    X(profiler_stop, cuProfilerStop, cuProfilerStop, cuProfilerStop, optional, ())
// clang-format on

/// The entry points of one loaded driver.
struct alignas(64) DriverApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define CEP_CUDA_MEMBER(member, name, symbol, older_symbol, need, parameters) CUresult(*member) parameters = nullptr;
    CEP_CUDA_FUNCTIONS(CEP_CUDA_MEMBER)
#undef CEP_CUDA_MEMBER
};

enum class Need : std::uint8_t { required, optional };

/// Looks up one entry point. False if it is required and missing.
template <typename Function, typename Lookup>
[[nodiscard]] bool load_function(Function& function, const char* symbol, const char* older_symbol, Need need,
                                 const Lookup& lookup) {
    void* address = lookup(symbol);
    if (address == nullptr) address = lookup(older_symbol);
    function = reinterpret_cast<Function>(address);
    return address != nullptr || need == Need::optional;
}

/// Fills `api` from `lookup(symbol)`, a `void*(const char*)` such as dlsym on the library's handle.
/// Returns the first required symbol that is missing, or null when none is.
template <typename Lookup>
[[nodiscard]] const char* load_driver_api(DriverApi& api, const Lookup& lookup) {
#define CEP_CUDA_LOAD(member, name, symbol, older_symbol, need, parameters) \
    if (!load_function(api.member, #symbol, #older_symbol, Need::need, lookup)) return #symbol;
    CEP_CUDA_FUNCTIONS(CEP_CUDA_LOAD)
#undef CEP_CUDA_LOAD
    return nullptr;
}

}  // namespace cep::cuda
