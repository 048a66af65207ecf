// SPDX-License-Identifier: Apache-2.0
//
// Checks lib/cuda/driver_api.hpp, driver_codes.hpp and cuda_program.hpp against the toolkit's cuda.h. It is compiled
// twice: once like a CUDA program, where names are macros for the current versions of the symbols, and once with
// __CUDA_API_VERSION_INTERNAL, where every exported symbol is declared under its own name.
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "cuda_program.hpp"

// Declared as in the first toolkit that has them, so that an older toolkit can check the rest.
extern "C" {
#if CUDA_VERSION < 12000
CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long* id);
CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long* id);
#endif
#if CUDA_VERSION < 11040
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
#endif
}

namespace ours = cep::cuda;

namespace {

template <typename T>
inline constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

/// Whether two types are passed alike: pointers to opaque or matching types, integers and enums of one size, UUIDs.
template <typename A, typename B>
constexpr bool same_abi() {
    if constexpr (std::is_same_v<A, B>) {
        return true;
    } else if constexpr (std::is_const_v<A> != std::is_const_v<B>) {
        return false;
    } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
        return same_abi<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
    } else if constexpr (is_number<A> && is_number<B>) {
        return sizeof(A) == sizeof(B) && (std::is_enum_v<A> || std::is_enum_v<B>);
    } else if constexpr (std::is_same_v<B, ours::CUuuid>) {
        return sizeof(A) == sizeof(B) && alignof(A) == alignof(B);
    } else {
        return std::is_class_v<A> && std::is_class_v<B>;  // incomplete on both sides
    }
}

template <typename A, typename B>
struct SameSignature : std::false_type {};

template <typename A, typename... As, typename B, typename... Bs>
requires(sizeof...(As) == sizeof...(Bs)) struct SameSignature<A (*)(As...), B (*)(Bs...)>
    : std::bool_constant<same_abi<A, B>() && (same_abi<As, Bs>() && ...)> {
};

#define CEP_TEXT_OF(name) #name
#define CEP_EXPANDED_TEXT_OF(name) CEP_TEXT_OF(name)
}  // namespace

#if defined(__CUDA_API_VERSION_INTERNAL)
// The older symbols. In the other compilation the names expand to the current ones.
#define CEP_CHECK(member, name, symbol, older_symbol, need, parameters)                                 \
    static_assert(SameSignature<decltype(&::older_symbol), decltype(ours::CudaProgram::member)>::value, \
                  "the signature of " #older_symbol " differs from cuda.h");
#else
#define CEP_CHECK(member, name, symbol, older_symbol, need, parameters)                         \
    static_assert(SameSignature<decltype(&::name), decltype(ours::CudaProgram::member)>::value, \
                  "the signature of " #name " differs from cuda.h");                            \
    static_assert(std::string_view(CEP_EXPANDED_TEXT_OF(name)) == #symbol ||                    \
                      std::string_view(CEP_EXPANDED_TEXT_OF(name)) == #older_symbol,            \
                  "cuda.h has another symbol for " #name);
#endif
CEP_CUDA_FUNCTIONS(CEP_CHECK)
CEP_CUDA_PROGRAM_FUNCTIONS(CEP_CHECK)

#define CEP_CHECK_VALUE(value, constant) static_assert(static_cast<long>(ours::value) == static_cast<long>(constant))
CEP_CHECK_VALUE(result::success, CUDA_SUCCESS);
CEP_CHECK_VALUE(result::invalid_value, CUDA_ERROR_INVALID_VALUE);
CEP_CHECK_VALUE(result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
CEP_CHECK_VALUE(result::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
CEP_CHECK_VALUE(result::deinitialized, CUDA_ERROR_DEINITIALIZED);
CEP_CHECK_VALUE(result::no_device, CUDA_ERROR_NO_DEVICE);
CEP_CHECK_VALUE(result::invalid_device, CUDA_ERROR_INVALID_DEVICE);
CEP_CHECK_VALUE(result::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
CEP_CHECK_VALUE(result::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
CEP_CHECK_VALUE(result::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
CEP_CHECK_VALUE(result::not_found, CUDA_ERROR_NOT_FOUND);
CEP_CHECK_VALUE(result::not_ready, CUDA_ERROR_NOT_READY);
CEP_CHECK_VALUE(result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
CEP_CHECK_VALUE(result::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
CEP_CHECK_VALUE(result::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
CEP_CHECK_VALUE(result::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
CEP_CHECK_VALUE(result::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
CEP_CHECK_VALUE(result::capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
CEP_CHECK_VALUE(result::capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
CEP_CHECK_VALUE(result::capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
CEP_CHECK_VALUE(result::capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
CEP_CHECK_VALUE(result::capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
CEP_CHECK_VALUE(result::capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
CEP_CHECK_VALUE(result::captured_event, CUDA_ERROR_CAPTURED_EVENT);
CEP_CHECK_VALUE(result::capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
CEP_CHECK_VALUE(result::unknown, CUDA_ERROR_UNKNOWN);
CEP_CHECK_VALUE(event_flags::normal, CU_EVENT_DEFAULT);
CEP_CHECK_VALUE(event_flags::blocking_sync, CU_EVENT_BLOCKING_SYNC);
CEP_CHECK_VALUE(event_flags::disable_timing, CU_EVENT_DISABLE_TIMING);
CEP_CHECK_VALUE(event_flags::interprocess, CU_EVENT_INTERPROCESS);
CEP_CHECK_VALUE(stream_flags::normal, CU_STREAM_DEFAULT);
CEP_CHECK_VALUE(stream_flags::non_blocking, CU_STREAM_NON_BLOCKING);
CEP_CHECK_VALUE(capture_status::none, CU_STREAM_CAPTURE_STATUS_NONE);
CEP_CHECK_VALUE(capture_status::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
CEP_CHECK_VALUE(capture_status::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
CEP_CHECK_VALUE(capture_mode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
CEP_CHECK_VALUE(capture_mode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
CEP_CHECK_VALUE(capture_mode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(sizeof(CUuuid) == sizeof(ours::CUuuid));

int main() {
    // The special stream handles are casts, not constant expressions.
    const bool legacy = reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY) == ours::stream_handles::legacy;
    const bool per_thread = reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD) == ours::stream_handles::per_thread;
    return legacy && per_thread ? 0 : 1;
}
