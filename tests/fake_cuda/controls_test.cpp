// SPDX-License-Identifier: Apache-2.0
//
// The counts of the fake driver, and what the library's tests would not miss if it were gone: the offset and the drift
// of the GPU's clock, and the end of a wait for a stopped GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "driver_fixture.hpp"

namespace fake_cuda {
namespace {

class ControlsTest : public FakeTest {
  protected:
    void SetUp() override {
        FakeTest::SetUp();
        if (driver().is_fake()) fake.reset_counts();
    }
};

TEST_F(ControlsTest, CallsAreCountedByFunctionAndThread) {
    CUevent event = new_event();
    for (int i = 0; i < 3; ++i) driver().event_record(event, nullptr);
    std::int32_t other_id = 0;
    on_another_thread([&] {
        other_id = gettid();
        driver().event_record(event, nullptr);
    });
    EXPECT_EQ(fake.call_count("cuEventRecord"), 4U);
    EXPECT_EQ(fake.thread_call_count(gettid(), "cuEventRecord"), 3U);
    EXPECT_EQ(fake.thread_call_count(other_id, "cuEventRecord"), 1U);
    EXPECT_EQ(fake.thread_call_count(other_id, nullptr), 2U) << "the record and cuCtxSetCurrent";
    EXPECT_EQ(fake.call_count(nullptr), 6U);
    EXPECT_EQ(fake.call_count("cuNothing"), UINT64_MAX);
}

TEST_F(ControlsTest, FailedCallsCountToo) {
    EXPECT_EQ(driver().event_query(nullptr), result::invalid_handle);
    EXPECT_EQ(fake.call_count("cuEventQuery"), 1U);
}

TEST_F(ControlsTest, SynchronisingCallsAreCounted) {
    CUstream stream = new_stream();
    CUevent event = record(stream);
    driver().event_query(event);
    EXPECT_EQ(fake.synchronizing_call_count(), 0U);
    driver().event_synchronize(event);
    driver().stream_synchronize(stream);
    driver().ctx_synchronize();
    driver().stream_wait_event(stream, event, 0);
    EXPECT_EQ(fake.synchronizing_call_count(), 4U);
}

TEST_F(ControlsTest, LiveObjectsAreThoseNotDestroyed) {
    EXPECT_EQ(fake.live_count("contexts"), 1);
    CUstream stream = new_stream();
    CUevent event = new_event();
    EXPECT_EQ(fake.live_count("streams"), 1);
    EXPECT_EQ(fake.live_count("events"), 1);
    driver().stream_destroy(stream);
    driver().event_destroy(event);
    EXPECT_EQ(fake.live_count("streams"), 0);
    EXPECT_EQ(fake.live_count("events"), 0);
    EXPECT_EQ(fake.live_count("kernels"), -1);
}

TEST_F(ControlsTest, EventDestroyedTwiceIsMisuse) {
    CUevent event = new_event();
    EXPECT_EQ(driver().event_destroy(event), result::success);
    EXPECT_EQ(fake.misuse_count(), 0U);
    new_event();  // must not revive the old handle
    EXPECT_EQ(driver().event_destroy(event), result::invalid_handle);
    EXPECT_EQ(driver().event_record(event, nullptr), result::invalid_handle);
    EXPECT_EQ(fake.misuse_count(), 2U);
    EXPECT_STREQ(fake.last_misuse(), "an event that does not exist");
}

TEST_F(ControlsTest, DestroyedContextDestroysItsObjects) {
    CUcontext other = nullptr;
    ASSERT_EQ(driver().ctx_create(&other, 0, 0), result::success);
    CUevent event = new_event();
    new_stream();
    ASSERT_EQ(driver().ctx_destroy(other), result::success);
    EXPECT_EQ(fake.live_count("events"), 0);
    EXPECT_EQ(fake.live_count("streams"), 0);
    EXPECT_EQ(driver().event_query(event), result::invalid_handle);
    EXPECT_EQ(fake.misuse_count(), 1U);
}

TEST_F(ControlsTest, StickyErrorLosesTheCallersContextOnly) {
    CUevent ours = completed_event(new_stream());
    CUcontext other = nullptr;
    ASSERT_EQ(driver().ctx_create(&other, 0, 0), result::success);
    CUevent theirs = new_event();
    ASSERT_EQ(fake.inject("cuEventQuery:sticky=719"), 0);
    EXPECT_EQ(driver().event_query(theirs), result::launch_failed);
    fake.clear_faults();
    EXPECT_EQ(driver().event_query(theirs), result::launch_failed) << "a lost context stays lost";
    EXPECT_EQ(driver().event_query(ours), result::success);
}

TEST_F(ControlsTest, InvalidatedCapturesAreCounted) {
    CUstream stream = new_stream();
    CUevent done = completed_event(stream);
    ASSERT_EQ(driver().stream_begin_capture(stream, capture_mode::global), result::success);
    driver().event_query(done);
    driver().event_query(done);
    CUgraph graph = nullptr;
    EXPECT_EQ(driver().stream_end_capture(stream, &graph), result::capture_invalidated);
    EXPECT_EQ(fake.invalidated_capture_count(), 1U);
}

TEST_F(ControlsTest, KernelsLastInTheClockOfTheGpuWithItsOffsetAndDrift) {
    for (const std::int64_t offset_ns : {std::int64_t{0}, INT64_MAX / 2, INT64_MIN})
        for (const double drift_ppm : {0.0, 100'000.0}) {
            fake.set_clock(offset_ns, drift_ppm);
            CUstream stream = new_stream();
            ASSERT_EQ(fake.enqueue_gate(stream), result::success);
            CUevent start = record(stream);
            ASSERT_EQ(work.spin(stream, 32 * 1'000'000), result::success);
            CUevent end = record(stream);
            fake.open_gates();
            ASSERT_EQ(driver().event_synchronize(end), result::success);
            std::int64_t started_ns = 0, ended_ns = 0;
            std::uint64_t gpu_ns = 0;
            ASSERT_EQ(fake.event_times_ns(start, &started_ns, &gpu_ns), 0);
            ASSERT_EQ(fake.event_times_ns(end, &ended_ns, &gpu_ns), 0);
            EXPECT_NEAR(elapsed(start, end), 32.0F, 64e-6F);
            EXPECT_NEAR(static_cast<double>(ended_ns - started_ns), 32e6 / (1 + drift_ppm * 1e-6), 2);
            if (drift_ppm != 0) continue;
            EXPECT_EQ(gpu_ns - static_cast<std::uint64_t>(ended_ns), static_cast<std::uint64_t>(offset_ns));
        }
}

TEST_F(ControlsTest, SynchronisingWithAStoppedGpuWaitsForTheRelease) {
    CUstream stream = new_stream();
    fake.hang();
    CUevent never = record(stream);
    CUresult code = result::success;
    std::thread waiting([&] { code = driver().event_synchronize(never); });
    while (fake.waiting_threads() != 1) std::this_thread::yield();
    fake.release();
    waiting.join();
    EXPECT_EQ(code, result::launch_timeout);
}

TEST_F(ControlsTest, CallsInAChildProcessReturnWhateverOtherThreadsDidAtTheFork) {
    CUevent event = new_event();
    std::atomic<bool> is_over{false};
    std::thread busy([&] {
        while (!is_over) driver().event_query(event);
    });
    for (int i = 0; i < 200; ++i) {
        const pid_t child = fork();
        if (child == 0) _exit(driver().event_query(event) == result::success ? 0 : 1);
        int status = 1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    is_over = true;
    busy.join();
}

}  // namespace
}  // namespace fake_cuda
