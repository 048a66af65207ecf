// SPDX-License-Identifier: Apache-2.0
//
// The behaviour of any CUDA driver outside captures. On a real GPU these tests prove that the fake behaves like one.
#include "driver_fixture.hpp"

namespace fake_cuda {
namespace {

TEST_F(DriverTest, EventInAnIdleStreamCompletes) {
    CUstream stream = new_stream();
    CUevent event = record(stream);
    EXPECT_EQ(driver().stream_synchronize(stream), result::success);
    EXPECT_EQ(driver().event_query(event), result::success);
}

TEST_F(DriverTest, EventBehindWorkIsNotReady) {
    CUstream stream = new_stream();
    ASSERT_EQ(work.spin(stream, 500 * ms), result::success);
    CUevent event = record(stream);
    EXPECT_EQ(driver().event_query(event), result::not_ready);
    float milliseconds = 0;
    EXPECT_EQ(driver().event_elapsed_time(&milliseconds, event, event), result::not_ready);
    EXPECT_EQ(driver().event_synchronize(event), result::success);
    EXPECT_EQ(driver().event_query(event), result::success);
}

TEST_F(DriverTest, ElapsedTimeCoversTheWorkBetween) {
    CUstream stream = new_stream();
    CUevent start = record(stream);
    ASSERT_EQ(work.spin(stream, 20 * ms), result::success);
    CUevent end = record(stream);
    ASSERT_EQ(driver().event_synchronize(end), result::success);
    EXPECT_GE(elapsed(start, end), 19.999F);
    EXPECT_EQ(elapsed(end, start), -elapsed(start, end));
}

TEST_F(DriverTest, EventThatWasNeverRecordedIsCompleteButHasNoTime) {
    CUstream stream = new_stream();
    CUevent recorded = completed_event(stream);
    CUevent never = new_event();
    float milliseconds = 0;
    EXPECT_EQ(driver().event_query(never), result::success);
    EXPECT_EQ(driver().event_synchronize(never), result::success);
    EXPECT_EQ(driver().event_elapsed_time(&milliseconds, recorded, never), result::invalid_handle);
}

TEST_F(DriverTest, EventWithoutTimingHasNoTime) {
    CUstream stream = new_stream();
    CUevent timed = completed_event(stream);
    CUevent untimed = new_event(event_flags::disable_timing);
    ASSERT_EQ(driver().event_record(untimed, stream), result::success);
    ASSERT_EQ(driver().event_synchronize(untimed), result::success);
    float milliseconds = 0;
    EXPECT_EQ(driver().event_elapsed_time(&milliseconds, timed, untimed), result::invalid_handle);
}

TEST_F(DriverTest, PendingEventMayBeDestroyed) {
    CUstream stream = new_stream();
    CUevent event = nullptr;
    ASSERT_EQ(driver().event_create(&event, event_flags::normal), result::success);
    ASSERT_EQ(work.spin(stream, ms), result::success);
    ASSERT_EQ(driver().event_record(event, stream), result::success);
    EXPECT_EQ(driver().event_destroy(event), result::success);
    EXPECT_EQ(driver().stream_synchronize(stream), result::success);
}

TEST_F(DriverTest, LegacyStreamWaitsForBlockingStreamsOnly) {
    CUstream blocking = new_stream(stream_flags::normal);
    ASSERT_EQ(work.spin(blocking, 500 * ms), result::success);
    CUevent behind = record(nullptr);
    CUstream free = new_stream();
    CUevent concurrent = record(free);
    ASSERT_EQ(driver().event_synchronize(concurrent), result::success);
    EXPECT_EQ(driver().event_query(behind), result::not_ready);
    EXPECT_EQ(driver().event_synchronize(behind), result::success);
}

TEST_F(DriverTest, StreamWaitsForAnEventOfAnother) {
    CUstream first = new_stream();
    CUstream second = new_stream();
    ASSERT_EQ(work.spin(first, 20 * ms), result::success);
    CUevent done = record(first);
    ASSERT_EQ(driver().stream_wait_event(second, done, 0), result::success);
    CUevent after = record(second);
    ASSERT_EQ(driver().event_synchronize(after), result::success);
    EXPECT_EQ(driver().event_query(done), result::success);
    EXPECT_GE(elapsed(done, after), 0.0F);
}

TEST_F(DriverTest, EventsOfTwoContextsDoNotMix) {
    CUevent ours = completed_event(new_stream());
    CUcontext other = nullptr;
    ASSERT_EQ(driver().ctx_create(&other, 0, 0), result::success);
    CUstream foreign = nullptr;
    ASSERT_EQ(driver().stream_create(&foreign, stream_flags::non_blocking, 0), result::success);
    CUevent theirs = completed_event(foreign);
    float milliseconds = 0;
    EXPECT_EQ(driver().event_elapsed_time(&milliseconds, ours, theirs), result::invalid_handle);
    EXPECT_EQ(driver().event_record(ours, foreign), result::invalid_handle);
    EXPECT_EQ(driver().event_record(ours, nullptr), result::invalid_handle) << "the current context's stream";
    EXPECT_EQ(driver().event_query(ours), result::success) << "whatever context is current";
    EXPECT_EQ(driver().event_destroy(theirs), result::success);
    EXPECT_EQ(driver().ctx_destroy(other), result::success);
}

TEST_F(DriverTest, UnknownHandleIsInvalid) {
    EXPECT_EQ(driver().event_record(nullptr, nullptr), result::invalid_handle);
    EXPECT_EQ(driver().event_query(nullptr), result::invalid_handle);
}

TEST_F(DriverTest, UnknownFlagsAreRefused) {
    CUevent event = nullptr;
    CUstream stream = nullptr;
    EXPECT_EQ(driver().event_create(&event, 0x80), result::invalid_value);
    EXPECT_EQ(driver().event_create(&event, event_flags::interprocess), result::invalid_value);
    EXPECT_EQ(driver().stream_create(&stream, 0x10, 0), result::invalid_value);
}

TEST_F(DriverTest, ThreadWithoutAContextGetsAnError) {
    std::thread([] {
        CUcontext current = nullptr;
        CUevent event = nullptr;
        CUdevice device = 0;
        CUstreamCaptureStatus status = 0;
        CUstreamCaptureMode mode = capture_mode::relaxed;
        EXPECT_EQ(driver().ctx_get_current(&current), result::success);
        EXPECT_EQ(current, nullptr);
        EXPECT_EQ(driver().event_create(&event, 0), result::invalid_context);
        EXPECT_EQ(driver().ctx_get_device(&device), result::invalid_context);
        EXPECT_EQ(driver().stream_is_capturing(nullptr, &status), result::invalid_context);
        EXPECT_EQ(driver().thread_exchange_stream_capture_mode(&mode), result::success);
        EXPECT_EQ(mode, capture_mode::global);
    }).join();
}

TEST_F(DriverTest, DefaultStreamsHaveDistinctIds) {
    unsigned long long null_id = 0, legacy_id = 0, ours_id = 0, theirs_id = 0;
    const auto per_thread = reinterpret_cast<CUstream>(stream_handles::per_thread);
    EXPECT_EQ(driver().stream_get_id(nullptr, &null_id), result::success);
    EXPECT_EQ(driver().stream_get_id(reinterpret_cast<CUstream>(stream_handles::legacy), &legacy_id), result::success);
    EXPECT_EQ(driver().stream_get_id(per_thread, &ours_id), result::success);
    on_another_thread([&] { EXPECT_EQ(driver().stream_get_id(per_thread, &theirs_id), result::success); });
    EXPECT_EQ(null_id, legacy_id);
    EXPECT_NE(ours_id, legacy_id);
    EXPECT_NE(ours_id, theirs_id);
}

TEST_F(DriverTest, ContextAndDeviceDescribeThemselves) {
    CUcontext current = nullptr, of_stream = nullptr;
    CUdevice device = -1;
    char name[64] = "";
    CUuuid uuid{};
    std::size_t free_bytes = 0, total_bytes = 0;
    int version = 0;
    EXPECT_EQ(driver().ctx_get_current(&current), result::success);
    EXPECT_EQ(current, context);
    EXPECT_EQ(driver().stream_get_ctx(nullptr, &of_stream), result::success);
    EXPECT_EQ(of_stream, context);
    EXPECT_EQ(driver().ctx_get_device(&device), result::success);
    EXPECT_EQ(driver().device_get_name(name, sizeof name, device), result::success);
    EXPECT_EQ(driver().device_get_uuid(&uuid, device), result::success);
    EXPECT_EQ(driver().mem_get_info(&free_bytes, &total_bytes), result::success);
    EXPECT_EQ(driver().driver_get_version(&version), result::success);
    EXPECT_STRNE(name, "");
    EXPECT_LT(free_bytes, total_bytes);
    EXPECT_GE(version, 11000);
}

TEST_F(DriverTest, CodesHaveNames) {
    const char* name = nullptr;
    EXPECT_EQ(driver().get_error_name(result::not_ready, &name), result::success);
    EXPECT_STREQ(name, "CUDA_ERROR_NOT_READY");
    EXPECT_EQ(driver().get_error_name(123456, &name), result::invalid_value);
    EXPECT_EQ(name, nullptr);
}

}  // namespace
}  // namespace fake_cuda
