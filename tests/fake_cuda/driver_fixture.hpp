// SPDX-License-Identifier: Apache-2.0
//
// Fixtures for tests that are CUDA programs: a current context, and streams and events that are cleaned up.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gpu_work.hpp"

namespace fake_cuda {

using namespace cep::cuda;

/// In nanoseconds.
inline constexpr std::uint64_t ms = 1'000'000;

inline const CudaProgram& driver() {
    static const CudaProgram program = load_cuda_program();
    return program;
}

/// A test that passes on any driver, fake or real.
class DriverTest : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(driver().library, nullptr)
            << "no libcuda.so.1, or it lacks " << (driver().missing == nullptr ? "nothing" : driver().missing);
        fake = load_controls(driver());
        if (driver().is_fake()) fake.reset();
        ASSERT_EQ(driver().init(0), result::success);
        ASSERT_EQ(driver().primary_ctx_retain(&context, 0), result::success);
        ASSERT_EQ(driver().ctx_set_current(context), result::success);
        work = GpuWork(driver());
        ASSERT_EQ(work.error(), result::success);
    }

    void TearDown() override {
        if (context == nullptr) return;
        if (driver().is_fake()) return fake.reset();
        driver().ctx_set_current(context);
        for (CUevent event : events_) driver().event_destroy(event);
        for (CUstream stream : streams_) driver().stream_destroy(stream);
        driver().ctx_set_current(nullptr);
        driver().primary_ctx_release(0);
    }

    CUstream new_stream(unsigned int flags = stream_flags::non_blocking) {
        return streams_.emplace_back(new_stream_of_test(flags));
    }
    /// One that the test destroys, or its context.
    static CUstream new_stream_of_test(unsigned int flags = stream_flags::non_blocking) {
        CUstream stream = nullptr;
        EXPECT_EQ(driver().stream_create(&stream, flags, 0), result::success);
        return stream;
    }

    CUevent new_event(unsigned int flags = event_flags::normal) {
        CUevent event = nullptr;
        EXPECT_EQ(driver().event_create(&event, flags), result::success);
        events_.push_back(event);
        return event;
    }

    CUevent record(CUstream stream) {
        CUevent event = new_event();
        EXPECT_EQ(driver().event_record(event, stream), result::success);
        return event;
    }

    /// A completed event.
    CUevent completed_event(CUstream stream) {
        CUevent event = record(stream);
        EXPECT_EQ(driver().event_synchronize(event), result::success);
        return event;
    }

    static float elapsed(CUevent start, CUevent end) {
        float milliseconds = -1;
        EXPECT_EQ(driver().event_elapsed_time(&milliseconds, start, end), result::success);
        return milliseconds;
    }

    /// Runs a body on a new thread in the same context.
    template <typename Body>
    void on_another_thread(const Body& body) const {
        std::thread([&] {
            driver().ctx_set_current(context);
            body();
        }).join();
    }

    Controls fake;
    CUcontext context = nullptr;
    GpuWork work;

  private:
    std::vector<CUstream> streams_;
    std::vector<CUevent> events_;
};

/// A test that needs to control the fake driver.
template <typename Test>
class OnFake : public Test {
  protected:
    void SetUp() override {
        if (!driver().is_fake()) {
            // The build sets this, so that the tests fail, and do not skip, if the fake is not found.
            ASSERT_EQ(std::getenv("FAKE_CUDA_EXPECTED"), nullptr) << "the loader found another libcuda.so.1";
            GTEST_SKIP() << "a real driver cannot be controlled";
        }
        Test::SetUp();
    }
};

using FakeTest = OnFake<DriverTest>;

}  // namespace fake_cuda
