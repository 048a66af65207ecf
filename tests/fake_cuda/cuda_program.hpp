// SPDX-License-Identifier: Apache-2.0
//
// The entry points that a test program calls to act as a CUDA program, in addition to those that cep uses. They are
// looked up in the libcuda.so.1 that the loader finds, so the same test runs on the fake and on a real driver.
#pragma once

#include <dlfcn.h>

#include "driver_codes.hpp"

namespace cep::cuda {

using CUgraph = struct OpaqueGraph*;
using CUgraphExec = struct OpaqueGraphExec*;
using CUmodule = struct OpaqueModule*;
using CUfunction = struct OpaqueFunction*;

// X(member, name, symbol, older_symbol, need, parameters), as CEP_CUDA_FUNCTIONS. The fake has no modules or kernels.
// clang-format off
#define CEP_CUDA_PROGRAM_FUNCTIONS(X)                                                                                  \
    X(init, cuInit, cuInit, cuInit, required, (unsigned int flags))                                                    \
    X(device_get, cuDeviceGet, cuDeviceGet, cuDeviceGet, required, (CUdevice* device, int ordinal))                    \
    X(device_get_count, cuDeviceGetCount, cuDeviceGetCount, cuDeviceGetCount, required, (int* count))                  \
    X(primary_ctx_retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, required,      \
      (CUcontext* context, CUdevice device))                                                                           \
    X(primary_ctx_release, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v2,      \
      required, (CUdevice device))                                                                                     \
    X(ctx_destroy, cuCtxDestroy, cuCtxDestroy_v2, cuCtxDestroy_v2, required, (CUcontext context))                      \
    X(ctx_set_current, cuCtxSetCurrent, cuCtxSetCurrent, cuCtxSetCurrent, required, (CUcontext context))               \
    X(ctx_synchronize, cuCtxSynchronize, cuCtxSynchronize, cuCtxSynchronize, required, ())                             \
    X(stream_create_plain, cuStreamCreate, cuStreamCreate, cuStreamCreate, required,                                   \
      (CUstream* stream, unsigned int flags))                                                                          \
    X(stream_synchronize, cuStreamSynchronize, cuStreamSynchronize, cuStreamSynchronize, required, (CUstream stream))  \
    X(stream_wait_event, cuStreamWaitEvent, cuStreamWaitEvent, cuStreamWaitEvent, required,                            \
      (CUstream stream, CUevent event, unsigned int flags))                                                            \
    X(event_synchronize, cuEventSynchronize, cuEventSynchronize, cuEventSynchronize, required, (CUevent event))        \
    X(stream_begin_capture, cuStreamBeginCapture, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2, required,          \
      (CUstream stream, CUstreamCaptureMode mode))                                                                     \
    X(stream_end_capture, cuStreamEndCapture, cuStreamEndCapture, cuStreamEndCapture, required,                        \
      (CUstream stream, CUgraph* graph))                                                                               \
    X(graph_instantiate, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,        \
      required, (CUgraphExec* exec, CUgraph graph, unsigned long long flags))                                          \
    X(graph_launch, cuGraphLaunch, cuGraphLaunch, cuGraphLaunch, required, (CUgraphExec exec, CUstream stream))        \
    X(graph_exec_destroy, cuGraphExecDestroy, cuGraphExecDestroy, cuGraphExecDestroy, required, (CUgraphExec exec))    \
    X(graph_destroy, cuGraphDestroy, cuGraphDestroy, cuGraphDestroy, required, (CUgraph graph))                        \
    X(stream_get_id, cuStreamGetId, cuStreamGetId, cuStreamGetId, optional, (CUstream stream, unsigned long long* id)) \
    X(mem_get_info, cuMemGetInfo, cuMemGetInfo_v2, cuMemGetInfo_v2, optional,                                          \
      (std::size_t* free_bytes, std::size_t* total_bytes))                                                             \
    X(module_load_data, cuModuleLoadData, cuModuleLoadData, cuModuleLoadData, optional,                                \
      (CUmodule* module, const void* image))                                                                           \
    X(module_get_function, cuModuleGetFunction, cuModuleGetFunction, cuModuleGetFunction, optional,                    \
      (CUfunction* function, CUmodule module, const char* name))                                                       \
    X(launch_kernel, cuLaunchKernel, cuLaunchKernel, cuLaunchKernel, optional,                                         \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,       \
       unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void** arguments,       \
       void** extra))
// clang-format on

/// The driver for a test program.
struct CudaProgram : DriverApi {
#define CEP_CUDA_MEMBER(member, name, symbol, older_symbol, need, parameters) CUresult(*member) parameters = nullptr;
    CEP_CUDA_PROGRAM_FUNCTIONS(CEP_CUDA_MEMBER)
#undef CEP_CUDA_MEMBER

    /// Version 2, because it has the same parameters in every driver; the current cuda.h maps to a later version.
    CUresult (*ctx_create)(CUcontext* context, unsigned int flags, CUdevice device) = nullptr;

    /// The handle from dlopen, to look up the controls of the fake. Null: no driver, or an unusable one.
    void* library = nullptr;
    /// The required symbol that an unusable driver lacks.
    const char* missing = nullptr;

    [[nodiscard]] void* find(const char* symbol) const {
        return dlsym(library, symbol);
    }
    /// Whether this driver is the fake, which has controls.
    [[nodiscard]] bool is_fake() const {
        return library != nullptr && find("fake_cuda_reset") != nullptr;
    }
};

/// Loads libcuda.so.1 and looks up everything above in it.
[[nodiscard]] inline CudaProgram load_cuda_program() {
    CudaProgram program;
    void* library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return program;
    const auto lookup = [library](const char* symbol) { return dlsym(library, symbol); };
    program.missing = load_driver_api(program, lookup);
#define CEP_CUDA_LOAD(member, name, symbol, older_symbol, need, parameters) \
    if (!load_function(program.member, #symbol, #older_symbol, Need::need, lookup)) program.missing = #symbol;
    CEP_CUDA_PROGRAM_FUNCTIONS(CEP_CUDA_LOAD)
#undef CEP_CUDA_LOAD
    if (!load_function(program.ctx_create, "cuCtxCreate_v2", "cuCtxCreate_v2", Need::required, lookup))
        program.missing = "cuCtxCreate_v2";
    if (program.missing == nullptr) program.library = library;
    return program;
}

}  // namespace cep::cuda
