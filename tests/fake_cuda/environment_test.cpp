// SPDX-License-Identifier: Apache-2.0
//
// Only the environment configures the fake here, as for a program that does not use its controls. The build runs this
// with FAKE_CUDA_DEVICES=3, FAKE_CUDA_OFFSET_NS, FAKE_CUDA_DRIFT_PPM=0 and FAKE_CUDA_FAULTS="cuEventCreate:fail=2@2".
#include <gtest/gtest.h>

#include <cstdlib>

#include "fake_controls.hpp"

namespace fake_cuda {
namespace {

using namespace cep::cuda;

TEST(EnvironmentTest, DevicesClockAndFaultsComeFromTheEnvironment) {
    const CudaProgram driver = load_cuda_program();
    ASSERT_TRUE(driver.is_fake());
    int devices = 0;
    CUcontext context = nullptr;
    ASSERT_EQ(driver.init(0), result::success);
    EXPECT_EQ(driver.device_get_count(&devices), result::success);
    EXPECT_EQ(devices, 3);
    ASSERT_EQ(driver.primary_ctx_retain(&context, 2), result::success);
    ASSERT_EQ(driver.ctx_set_current(context), result::success);

    CUevent event = nullptr, second = nullptr;
    ASSERT_EQ(driver.event_create(&event, 0), result::success);
    EXPECT_EQ(driver.event_create(&second, 0), result::out_of_memory);
    ASSERT_EQ(driver.event_record(event, nullptr), result::success);
    std::int64_t monotonic_ns = 0;
    std::uint64_t gpu_ns = 0;
    ASSERT_EQ(load_controls(driver).event_times_ns(event, &monotonic_ns, &gpu_ns), 0);
    const char* offset_ns = std::getenv("FAKE_CUDA_OFFSET_NS");
    ASSERT_NE(offset_ns, nullptr);
    EXPECT_EQ(gpu_ns - static_cast<std::uint64_t>(monotonic_ns), std::strtoull(offset_ns, nullptr, 10));
}

}  // namespace
}  // namespace fake_cuda
