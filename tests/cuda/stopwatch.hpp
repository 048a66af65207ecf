// SPDX-License-Identifier: Apache-2.0
//
// GPU work whose length and start are known without events: on the fake because the test sets them, on a real GPU
// because the kernel stores the GPU's clock when it starts and when it ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver_fixture.hpp"

namespace cep::test {

using namespace cep::cuda;

inline constexpr const char* stamped_spin_ptx = R"(.version 6.0
.target sm_50
.address_size 64
.visible .entry stamped_spin(.param .u64 duration_ns, .param .u64 stamps)
{
    .reg .pred %running;
    .reg .u64 %start, %now, %passed, %duration, %stamps;
    ld.param.u64 %duration, [duration_ns];
    ld.param.u64 %stamps, [stamps];
    cvta.to.global.u64 %stamps, %stamps;
    mov.u64 %start, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %start;
    setp.lt.u64 %running, %passed, %duration;
    @%running bra again;
    st.volatile.global.u64 [%stamps], %start;
    st.volatile.global.u64 [%stamps+8], %now;
    ret;
}
)";

class Stopwatch {
  public:
    static constexpr std::size_t capacity = 4096;

    /// Uses the calling thread's current context.
    explicit Stopwatch(const CudaProgram& program) : fake_(fake_cuda::load_controls(program)) {
        lengths_ns_.resize(capacity);
        if (program.is_fake()) return;
        launch_ = program.launch_kernel;
        CUmodule module = nullptr;
        const auto allocate =
            reinterpret_cast<CUresult (*)(void**, std::size_t, unsigned int)>(program.find("cuMemHostAlloc"));
        void* memory = nullptr;
        EXPECT_EQ(allocate(&memory, capacity * 2 * sizeof(std::uint64_t), 0), result::success);
        stamps_ = static_cast<volatile std::uint64_t*>(memory);
        EXPECT_EQ(program.module_load_data(&module, stamped_spin_ptx), result::success);
        EXPECT_EQ(program.module_get_function(&kernel_, module, "stamped_spin"), result::success);
    }

    /// Launches work. The returned number identifies it for the functions below.
    std::size_t spin(CUstream stream, std::uint64_t duration_ns) {
        const std::size_t index = next_++ % capacity;
        lengths_ns_[index] = static_cast<std::int64_t>(duration_ns);
        if (kernel_ == nullptr) {
            EXPECT_EQ(fake_.enqueue_work(stream, duration_ns), result::success);
            return index;
        }
        const volatile std::uint64_t* stamps = stamps_ + index * 2;
        void* arguments[] = {&duration_ns, static_cast<void*>(&stamps)};
        EXPECT_EQ(launch_(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), result::success);
        return index;
    }

    /// Duration of finished work on the GPU's clock.
    [[nodiscard]] std::int64_t length_ns(std::size_t index) const {
        if (kernel_ == nullptr) return lengths_ns_[index];
        return static_cast<std::int64_t>(stamps_[index * 2 + 1] - stamps_[index * 2]);
    }

    /// Start of finished work on the real GPU's clock.
    [[nodiscard]] std::int64_t start_gpu_ns(std::size_t index) const {
        return static_cast<std::int64_t>(stamps_[index * 2]);
    }

  private:
    fake_cuda::Controls fake_;
    std::vector<std::int64_t> lengths_ns_;
    volatile std::uint64_t* stamps_ = nullptr;
    CUfunction kernel_ = nullptr;
    decltype(CudaProgram::launch_kernel) launch_ = nullptr;
    std::size_t next_ = 0;
};

}  // namespace cep::test
