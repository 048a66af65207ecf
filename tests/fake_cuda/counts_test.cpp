// SPDX-License-Identifier: Apache-2.0
//
// The counts of the fake driver.
#include <unistd.h>

#include <algorithm>
#include <array>

#include "driver_fixture.hpp"

namespace fake_cuda {
namespace {

class CountsTest : public FakeTest {
  protected:
    void SetUp() override {
        FakeTest::SetUp();
        if (driver().is_fake()) fake.reset_counts();
    }
};

TEST_F(CountsTest, CallsAreCountedByFunctionAndThread) {
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

TEST_F(CountsTest, FailedCallsCountToo) {
    EXPECT_EQ(driver().event_query(nullptr), result::invalid_handle);
    EXPECT_EQ(fake.call_count("cuEventQuery"), 1U);
}

TEST_F(CountsTest, SynchronisingCallsAreCounted) {
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

TEST_F(CountsTest, LiveObjectsAreThoseNotDestroyed) {
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

TEST_F(CountsTest, EventDestroyedTwiceIsMisuse) {
    CUevent event = new_event();
    EXPECT_EQ(driver().event_destroy(event), result::success);
    EXPECT_EQ(fake.misuse_count(), 0U);
    new_event();  // must not revive the old handle
    EXPECT_EQ(driver().event_destroy(event), result::invalid_handle);
    EXPECT_EQ(driver().event_record(event, nullptr), result::invalid_handle);
    EXPECT_EQ(fake.misuse_count(), 2U);
    EXPECT_STREQ(fake.last_misuse(), "an event that does not exist");
}

TEST_F(CountsTest, DestroyedContextDestroysItsObjects) {
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

TEST_F(CountsTest, InvalidatedCapturesAreCounted) {
    CUstream stream = new_stream();
    CUevent done = completed_event(stream);
    ASSERT_EQ(driver().stream_begin_capture(stream, capture_mode::global), result::success);
    driver().event_query(done);
    driver().event_query(done);
    CUgraph graph = nullptr;
    EXPECT_EQ(driver().stream_end_capture(stream, &graph), result::capture_invalidated);
    EXPECT_EQ(fake.invalidated_capture_count(), 1U);
}

}  // namespace
}  // namespace fake_cuda
