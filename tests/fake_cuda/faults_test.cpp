// SPDX-License-Identifier: Apache-2.0
//
// The faults that the fake injects.
#include "driver_fixture.hpp"

namespace fake_cuda {
namespace {

class FaultsTest : public FakeTest {
  protected:
    CUresult create() {
        CUevent event = nullptr;
        return driver().event_create(&event, 0);
    }

    /// Waits until this many threads wait inside the driver.
    void await_waiting_threads(int count) const {
        while (fake.waiting_threads() != count) std::this_thread::yield();
    }
};

TEST_F(FaultsTest, OneCallFails) {
    ASSERT_EQ(fake.inject("cuEventCreate:fail=2@2"), 0);
    EXPECT_EQ(create(), result::success);
    EXPECT_EQ(create(), result::out_of_memory);
    EXPECT_EQ(create(), result::success);
    EXPECT_EQ(fake.live_count("events"), 2) << "the failed call did nothing";
}

TEST_F(FaultsTest, RangeOfCallsFails) {
    ASSERT_EQ(fake.inject("cuEventCreate:fail=1@2..3"), 0);
    const CUresult expected[] = {0, 1, 1, 0};
    for (const CUresult code : expected) EXPECT_EQ(create(), code);
}

TEST_F(FaultsTest, CallsFailFromOneOn) {
    ASSERT_EQ(fake.inject("cuEventCreate:fail=1@2..;cuEventRecord:fail=400"), 0);
    CUevent event = new_event();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(create(), result::invalid_value);
    EXPECT_EQ(driver().event_record(event, nullptr), result::invalid_handle);
    fake.clear_faults();
    EXPECT_EQ(create(), result::success);
    EXPECT_EQ(driver().event_record(event, nullptr), result::success);
}

TEST_F(FaultsTest, StickyErrorLosesTheContextForGood) {
    CUstream stream = new_stream();
    CUevent event = completed_event(stream);
    ASSERT_EQ(fake.inject("sticky=719@2"), 0);
    EXPECT_EQ(driver().event_query(event), result::success);
    EXPECT_EQ(driver().event_query(event), result::launch_failed);
    fake.clear_faults();
    CUstreamCaptureStatus status = 0;
    float milliseconds = 0;
    EXPECT_EQ(create(), result::launch_failed);
    EXPECT_EQ(driver().event_record(event, stream), result::launch_failed);
    EXPECT_EQ(driver().event_elapsed_time(&milliseconds, event, event), result::launch_failed);
    EXPECT_EQ(driver().event_destroy(event), result::launch_failed);
    EXPECT_EQ(driver().stream_is_capturing(stream, &status), result::launch_failed);
    CUcontext current = nullptr;
    EXPECT_EQ(driver().ctx_get_current(&current), result::success) << "asks nothing of the device";
    EXPECT_EQ(current, context);
}

TEST_F(FaultsTest, StickyErrorOfOneFunctionCountsItsCallsOnly) {
    CUevent event = completed_event(new_stream());
    ASSERT_EQ(fake.inject("cuEventQuery:sticky=700@2"), 0);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(create(), result::success);
    EXPECT_EQ(driver().event_query(event), result::success);
    EXPECT_EQ(driver().event_query(event), result::illegal_address);
    EXPECT_EQ(create(), result::illegal_address);
}

TEST_F(FaultsTest, LostContextDoesNotAffectAnother) {
    CUcontext other = nullptr;
    ASSERT_EQ(driver().primary_ctx_retain(&other, 1), result::success);
    EXPECT_EQ(fake.break_context(context, result::launch_failed), 0);
    EXPECT_EQ(create(), result::launch_failed);
    driver().ctx_set_current(other);
    EXPECT_EQ(create(), result::success);
}

TEST_F(FaultsTest, StoppedGpuCompletesNoMoreWork) {
    CUstream stream = new_stream();
    CUevent before = completed_event(stream);
    ASSERT_EQ(fake.inject("hang@2"), 0);
    CUevent last = completed_event(stream);
    CUevent never = record(stream);
    CUevent elsewhere = record(new_stream());
    EXPECT_EQ(driver().event_query(before), result::success);
    EXPECT_EQ(driver().event_query(last), result::success);
    EXPECT_EQ(driver().event_query(never), result::not_ready);
    EXPECT_EQ(driver().event_query(elsewhere), result::not_ready);
}

TEST_F(FaultsTest, SynchronisingWithAStoppedGpuWaitsForTheRelease) {
    CUstream stream = new_stream();
    fake.hang();
    CUevent never = record(stream);
    CUresult code = result::success;
    std::thread waiting([&] { code = driver().event_synchronize(never); });
    await_waiting_threads(1);
    fake.release();
    waiting.join();
    EXPECT_EQ(code, result::launch_timeout);
}

TEST_F(FaultsTest, BlockedCallWaitsForTheReleaseAndBlocksNoOther) {
    CUevent event = completed_event(new_stream());
    ASSERT_EQ(fake.inject("cuEventQuery:block@2"), 0);
    EXPECT_EQ(driver().event_query(event), result::success);
    CUresult code = result::unknown;
    std::thread blocked([&] { code = driver().event_query(event); });
    await_waiting_threads(1);
    EXPECT_EQ(driver().event_query(event), result::success);
    EXPECT_EQ(create(), result::success);
    fake.release();
    blocked.join();
    EXPECT_EQ(code, result::success);
    EXPECT_EQ(fake.waiting_threads(), 0);
}

TEST_F(FaultsTest, IfOneRuleDoesNotParseAllAreRefused) {
    for (const char* rules : {"",
                              ";",
                              "cuEventCreate",
                              "cuEventCreate:fail",
                              "cuEventCreate:fail=",
                              "cuEventCreate:fail=x",
                              "cuEventCreate:fail=0",
                              "cuEventCreate:fail=2@0",
                              "cuEventCreate:fail=2@3..2",
                              "cuEventCreate:fail=2@",
                              "cuEventCreate:fail=2@1..x",
                              "cuNothing:fail=2",
                              "fail=2",
                              "block",
                              "hang=1",
                              "hang@0",
                              "slow=2",
                              "slow=0@1",
                              "sticky=719@1..2",
                              "cuEventCreate:hang",
                              "cuEventCreate:fail=2 "}) {
        EXPECT_EQ(fake.inject(rules), -1) << rules;
        EXPECT_EQ(fake.inject((std::string("cuEventCreate:fail=2;") + rules).c_str()), -1) << rules;
    }
    EXPECT_EQ(create(), result::success);
}

}  // namespace
}  // namespace fake_cuda
