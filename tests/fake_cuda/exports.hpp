// SPDX-License-Identifier: Apache-2.0
//
// Declares every exported driver function from the tables that are checked against cuda.h, so that a definition with
// another signature does not compile.
#pragma once

#include "fake_cuda.h"
#include "model.hpp"

namespace fake_cuda {

extern "C" {
#define FAKE_CUDA_DECLARE(member, name, symbol, older_symbol, need, parameters) \
    FAKE_CUDA_API CUresult symbol parameters;
CEP_CUDA_FUNCTIONS(FAKE_CUDA_DECLARE)
CEP_CUDA_PROGRAM_FUNCTIONS(FAKE_CUDA_DECLARE)
#undef FAKE_CUDA_DECLARE
// Symbols that older drivers export.
FAKE_CUDA_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device);
FAKE_CUDA_API CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
FAKE_CUDA_API CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);
}

}  // namespace fake_cuda
