// SPDX-License-Identifier: Apache-2.0
//
// Looks up the controls of the fake driver by name in the loaded libcuda.so.1. Tests do not link them, so that they
// also start on a machine with a real driver.
#pragma once

#include "cuda_program.hpp"
#include "fake_cuda.h"

namespace fake_cuda {

#define FAKE_CUDA_CONTROLS(X)    \
    X(reset)                     \
    X(enqueue_work)              \
    X(enqueue_gate)              \
    X(open_gates)                \
    X(set_clock)                 \
    X(event_times_ns)            \
    X(call_count)                \
    X(thread_call_count)         \
    X(synchronizing_call_count)  \
    X(reset_counts)              \
    X(live_count)                \
    X(misuse_count)              \
    X(last_misuse)               \
    X(invalidated_capture_count) \
    X(inject)                    \
    X(clear_faults)              \
    X(release)                   \
    X(waiting_threads)           \
    X(hang)                      \
    X(break_context)

/// Each control is a member, named without its prefix. All are null on a real driver.
struct Controls {
#define FAKE_CUDA_MEMBER(name) decltype(&::fake_cuda_##name) name = nullptr;
    FAKE_CUDA_CONTROLS(FAKE_CUDA_MEMBER)
#undef FAKE_CUDA_MEMBER
};

[[nodiscard]] inline Controls load_controls(const cep::cuda::CudaProgram& program) {
    Controls controls;
    if (!program.is_fake()) return controls;
#define FAKE_CUDA_LOAD(name) \
    controls.name = reinterpret_cast<decltype(controls.name)>(program.find("fake_cuda_" #name));
    FAKE_CUDA_CONTROLS(FAKE_CUDA_LOAD)
#undef FAKE_CUDA_LOAD
    return controls;
}

}  // namespace fake_cuda
