// SPDX-License-Identifier: Apache-2.0
//
// Driver calls that fail: the counts, the rows that are still written, and the effect on the trainer.
#include <string>
#include <vector>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class FaultTest : public FakeProfilerTest {
  protected:
    void inject(const std::string& rules) const { ASSERT_EQ(fake.inject(rules.c_str()), 0) << rules; }

    /// Records spans while the driver fails some calls, then healthy spans, which must all be written.
    struct Outcome {
        std::size_t written = 0;
        cep_stats stats{};
    };

    Outcome record_with(const std::string& rules, int spans) {
        CUstream stream = new_stream();
        write_span("warm", stream);
        inject(rules);
        for (int i = 0; i < spans; ++i) span("phase", stream);
        Outcome outcome;
        outcome.written = flushed_rows().spans("phase").size();
        outcome.stats = stats();
        fake.clear_faults();
        for (int i = 0; i < 5; ++i) span("healthy", stream);
        EXPECT_EQ(flushed_rows().spans("healthy").size(), 5U) << rules;
        return outcome;
    }

    [[nodiscard]] static std::size_t lines_with(const std::string& text, const std::string& part) {
        std::size_t count = 0;
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
        return count;
    }
};

TEST_F(FaultTest, OneCallThatFailsCostsOneSpan) {
    for (const std::string rules :
         {"cuEventCreate:fail=2@3", "cuEventRecord:fail=1@4", "cuStreamIsCapturing:fail=1@1"}) {
        open();
        const Outcome outcome = record_with(rules, 10);
        const bool is_pool = rules.starts_with("cuEventCreate");
        EXPECT_EQ(outcome.stats.dropped_pool, is_pool ? 1U : 0U) << rules;
        EXPECT_EQ(outcome.stats.abandoned, is_pool ? 0U : 1U) << rules;
        EXPECT_EQ(outcome.stats.cuda_errors, 1U) << rules;
        EXPECT_EQ(outcome.written, 9U) << rules;
        (void)cep_close(profiler, patience_ms);
        expect_all_accounted_for();
        std::filesystem::remove(path());
    }
}

TEST_F(FaultTest, FailingEventCreationFromTheNthOnKeepsTheEarlierEvents) {
    open();
    const Outcome outcome = record_with("cuEventCreate:fail=2@5..", 10);
    EXPECT_GE(outcome.written, 2U);
    EXPECT_EQ(outcome.stats.dropped_pool, 10U - outcome.written);
    EXPECT_GE(outcome.stats.cuda_errors, outcome.stats.dropped_pool);
}

TEST_F(FaultTest, RecordsThatFailFromTheNthOnCostTheRest) {
    open();
    const Outcome outcome = record_with("cuEventRecord:fail=1@5..", 10);
    EXPECT_LE(outcome.written, 2U);
    EXPECT_EQ(outcome.stats.abandoned, 10U - outcome.written);
}

TEST_F(FaultTest, FirstAnchorThatFailsIsTriedAgain) {
    CUstream stream = open_with_stream();
    inject("cuEventRecord:fail=1@3");  // two records of the span, then that of the anchor
    span("phase", stream);
    EXPECT_EQ(flushed_rows().span("phase").clock(), "gpu");
    EXPECT_EQ(stats().cuda_errors, 1U);
}

TEST_F(FaultTest, AnchorsThatAlwaysFailDelayNothing) {
    CUstream stream = open_with_stream();
    inject("cuEventRecord:fail=1@3..");
    span("phase", stream);
    const Row row = flushed_rows().span("phase");
    EXPECT_EQ(row.clock(), "gpu");
    EXPECT_GT(stats().cuda_errors, 0U);
    EXPECT_LT(stats().cuda_errors, 20U);
}

TEST_F(FaultTest, DeviceWithoutRoomForAnchorsStillGivesDurations) {
    CUstream stream = open_with_stream();
    inject("cuStreamCreateWithPriority:fail=2");
    plug(stream);
    span("phase", stream, [&] { EXPECT_EQ(work.spin(stream, 2 * ms), result::success); });
    unplug();
    const Row row = flushed_rows().span("phase");
    EXPECT_EQ(row.clock(), "gpu");
    EXPECT_EQ(row.duration_ns(), static_cast<std::int64_t>(2 * ms));
    EXPECT_EQ(stats().cuda_errors, 1U);
}

TEST_F(FaultTest, OneQueryThatFailsCostsOneSpan) {
    CUstream stream = open_with_stream();
    write_span("warm", stream);
    plug(stream);
    for (int i = 0; i < 10; ++i) span("phase", stream);
    inject("cuEventQuery:fail=1@1");
    unplug();
    const Rows written = flushed_rows();
    const cep_stats now = stats();
    EXPECT_GE(written.spans("phase").size(), 9U);  // the query may have been an anchor's
    EXPECT_EQ(now.abandoned, 10U - written.spans("phase").size());
    EXPECT_EQ(now.cuda_errors, 1U);
}

TEST_F(FaultTest, ElapsedTimesThatFailCostTheirSpansOnly) {
    open();
    const Outcome outcome = record_with("cuEventElapsedTime:fail=1@1..6", 10);
    EXPECT_EQ(outcome.stats.abandoned, 10U - outcome.written);
    EXPECT_GE(outcome.written, 4U);
    EXPECT_EQ(outcome.stats.cuda_errors, 6U);
}

TEST_F(FaultTest, ElapsedTimesThatAlwaysFailDelayNothing) {
    open();
    const Outcome outcome = record_with("cuEventElapsedTime:fail=1", 10);
    EXPECT_EQ(outcome.written, 0U);
    EXPECT_EQ(outcome.stats.abandoned, 10U);
    EXPECT_LE(outcome.stats.cuda_errors, 12U);
}

TEST_F(FaultTest, StartTimesThatAlwaysFailDelayNothing) {
    CUstream stream = open_with_stream();
    write_span("warm", stream);
    // A span asks for two elapsed times: its duration's succeeds and its start's fails.
    std::string rules = "cuEventElapsedTime:fail=1@2";
    for (int call = 4; call < 1000; call += 2) rules += ";cuEventElapsedTime:fail=1@" + std::to_string(call);
    plug(stream);
    for (int i = 0; i < 10; ++i) span("phase", stream);
    inject(rules);
    unplug();
    const std::size_t written = flushed_rows().spans("phase").size();
    EXPECT_LE(stats().cuda_errors, 12U);
    EXPECT_EQ(stats().abandoned, 10U - written);
}

TEST_F(FaultTest, StickyErrorEndsRecordingOnThatDeviceAndIsReportedOnce) {
    CUstream stream = open_with_stream();
    for (int i = 0; i < 5; ++i) write_span("before", stream);
    testing::internal::CaptureStderr();
    inject("cuEventRecord:sticky=719@2");
    for (int i = 0; i < 5; ++i) span("after", stream);
    const Rows written = closed_rows();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.spans("before").size(), 5U);
    EXPECT_EQ(written.spans("after").size(), 0U);
    EXPECT_EQ(lines_with(said, "\n"), 1U) << said;
    EXPECT_EQ(lines_with(said, "CUDA_ERROR_LAUNCH_FAILED"), 1U) << said;
    EXPECT_EQ(written.last("stats").integer("/abandoned"), 5);
    EXPECT_EQ(stats().cuda_errors, 1U);
    expect_all_accounted_for();
    // The trainer still gets the error.
    std::size_t bytes[2] = {};
    EXPECT_EQ(driver().mem_get_info(&bytes[0], &bytes[1]), result::launch_failed);
}

TEST_F(FaultTest, LostContextIsNotUsedAgain) {
    CUstream stream = open_with_stream();
    write_span("before", stream);
    ASSERT_EQ(fake.break_context(context, result::illegal_address), 0);
    testing::internal::CaptureStderr();
    span("first", stream);
    (void)cep_flush(profiler, patience_ms);
    fake.reset_counts();
    for (int i = 0; i < 10; ++i) span("phase", stream);
    (void)cep_close(profiler, patience_ms);
    (void)testing::internal::GetCapturedStderr();
    const std::vector<const char*> harmless = {"cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode", "cuGetErrorName",
                                               "cuCtxGetId"};
    std::uint64_t expected = 0;
    for (const char* function : harmless) expected += fake.call_count(function);
    EXPECT_EQ(fake.call_count(nullptr), expected) << "other calls were made on a lost context";
}

TEST_F(FaultTest, LostContextWithPendingSpansIsFoundByThePoller) {
    CUstream stream = open_with_stream();
    write_span("before", stream);
    plug(stream);
    for (int i = 0; i < 10; ++i) span("pending", stream);
    testing::internal::CaptureStderr();
    ASSERT_EQ(fake.break_context(context, result::launch_failed), 0);
    const Rows written = closed_rows();
    EXPECT_EQ(lines_with(testing::internal::GetCapturedStderr(), "\n"), 1U);
    EXPECT_EQ(written.spans("before").size(), 1U);
    EXPECT_EQ(written.spans("pending").size(), 0U);
    EXPECT_EQ(stats().abandoned, 10U);
}

TEST_F(FaultTest, OneLostDeviceDoesNotAffectTheOther) {
    open();
    CUcontext second = nullptr;
    ASSERT_EQ(driver().primary_ctx_retain(&second, 1), result::success);
    CUstream stream = new_stream();
    span("zero", stream);
    testing::internal::CaptureStderr();
    ASSERT_EQ(fake.break_context(context, result::launch_failed), 0);
    span("lost", stream);
    ASSERT_EQ(driver().ctx_set_current(second), result::success);
    CUstream other = nullptr;
    ASSERT_EQ(driver().stream_create(&other, stream_flags::non_blocking, 0), result::success);
    for (int i = 0; i < 5; ++i) span("one", other);
    span("host", CEP_HOST);
    const Rows written = closed_rows();
    (void)testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.spans("one").size(), 5U);
    EXPECT_EQ(written.span("host").clock(), "host");
    EXPECT_EQ(written.spans("lost").size(), 0U);
}

TEST_F(FaultTest, StickyErrorAtAnyCallIsSurvived) {
    for (int nth = 1; nth <= 40; ++nth) {
        fake.reset();
        ASSERT_EQ(driver().init(0), result::success);
        ASSERT_EQ(driver().primary_ctx_retain(&context, 0), result::success);
        ASSERT_EQ(driver().ctx_set_current(context), result::success);
        CUstream stream = new_stream_of_test();
        testing::internal::CaptureStderr();
        open();
        inject("sticky=700@" + std::to_string(nth));
        for (int i = 0; i < 10; ++i) span("phase", stream);
        EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << nth;
        EXPECT_LE(lines_with(testing::internal::GetCapturedStderr(), "\n"), 1U) << nth;
        expect_all_accounted_for();
        EXPECT_EQ(fake.misuse_count(), 0U) << nth << ": " << fake.last_misuse();
        std::filesystem::remove(path());
    }
}

}  // namespace
}  // namespace cep::test
