// SPDX-License-Identifier: Apache-2.0
//
// GPU work of a known length: an operation in the fake's timeline, or on a real GPU a kernel that spins on the GPU's
// nanosecond clock. The driver compiles the kernel from PTX, so no CUDA compiler is needed.
#pragma once

#include <cstdint>

#include "fake_controls.hpp"

namespace cep::cuda {

inline constexpr const char* spin_kernel_ptx = R"(.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 duration_ns)
{
    .reg .pred %running;
    .reg .u64 %start, %now, %passed, %duration;
    ld.param.u64 %duration, [duration_ns];
    mov.u64 %start, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %start;
    setp.lt.u64 %running, %passed, %duration;
    @%running bra again;
    ret;
}
)";

/// Launches work in one context. Construct it on one thread; afterwards any thread may call spin().
class GpuWork {
  public:
    GpuWork() = default;

    /// Loads the kernel into the calling thread's current context. `error()` tells whether that worked.
    explicit GpuWork(const CudaProgram& program)
        : enqueue_work_(fake_cuda::load_controls(program).enqueue_work), launch_kernel_(program.launch_kernel) {
        if (enqueue_work_ != nullptr) return;
        if (program.module_load_data == nullptr || program.module_get_function == nullptr ||
            launch_kernel_ == nullptr) {
            error_ = result::not_found;
            return;
        }
        CUmodule module = nullptr;
        error_ = program.module_load_data(&module, spin_kernel_ptx);
        if (error_ == result::success) error_ = program.module_get_function(&kernel_, module, "spin");
    }

    [[nodiscard]] CUresult error() const { return error_; }

    /// Launches work of this length into a stream. On a real GPU an event pair round it measures a few µs more.
    [[nodiscard]] CUresult spin(CUstream stream, std::uint64_t duration_ns) const {
        if (enqueue_work_ != nullptr) return enqueue_work_(stream, duration_ns);
        if (error_ != result::success) return error_;
        void* arguments[] = {&duration_ns};
        return launch_kernel_(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
    }

  private:
    decltype(fake_cuda::Controls::enqueue_work) enqueue_work_ = nullptr;
    decltype(CudaProgram::launch_kernel) launch_kernel_ = nullptr;
    CUfunction kernel_ = nullptr;
    CUresult error_ = result::success;
};

}  // namespace cep::cuda
