// SPDX-License-Identifier: Apache-2.0
//
// Threads with and without a CUDA context, and contexts that are destroyed and replaced.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class ContextTest : public ProfilerTest {
  protected:
    void prepare() override { open(); }

    /// A new context on device 0, current on this thread.
    [[nodiscard]] static CUcontext push_new_context() {
        CUcontext created = nullptr;
        EXPECT_EQ(driver().ctx_create(&created, 0, 0), result::success);
        return created;
    }
    void close_and_destroy(CUcontext created) const {
        (void)cep_close(profiler, patience_ms);
        EXPECT_EQ(driver().ctx_destroy(created), result::success);
        EXPECT_EQ(driver().ctx_set_current(context), result::success);
    }
};

TEST_F(ContextTest, ThreadWithoutContextIsTimedOnTheHostClockAndReportedOnce) {
    testing::internal::CaptureStderr();
    std::thread([&] {
        for (int i = 0; i < 3; ++i) span("phase", nullptr);
    }).join();
    const Rows written = closed_rows();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.spans("phase").size(), 3U);
    for (const Row& row : written.spans("phase")) {
        EXPECT_EQ(row.clock(), "host");
        EXPECT_FALSE(row.has("/device"));
        EXPECT_FALSE(row.has("/lag_ms"));
    }
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(said.find("no CUDA context"), std::string::npos) << said;
    EXPECT_EQ(stats().cuda_errors, 0U);
}

TEST_F(ContextTest, ThreadThatGetsAContextLaterIsTimedOnTheGpuFromThenOn) {
    std::thread([&] {
        testing::internal::CaptureStderr();
        span("before", nullptr);
        EXPECT_EQ(driver().ctx_set_current(context), result::success);
        span("after", nullptr);
        (void)cep_flush(profiler, patience_ms);
        (void)testing::internal::GetCapturedStderr();
    }).join();
    const Rows written = flushed_rows();
    EXPECT_EQ(written.span("before").clock(), "host");
    EXPECT_EQ(written.span("after").clock(), "gpu");
}

TEST_F(ContextTest, ThreadWithoutContextUsesTheOnlyOneThatTheProcessHasShown) {
    CUstream stream = new_stream();
    span("forward", nullptr);
    std::thread([&] {
        CUcontext current = context;
        EXPECT_EQ(driver().ctx_get_current(&current), result::success);
        EXPECT_EQ(current, nullptr);
        span("backward", nullptr);
        span("copy", stream);
        EXPECT_EQ(driver().ctx_get_current(&current), result::success);
        EXPECT_EQ(current, nullptr) << "the thread has kept the context";
    }).join();
    const Rows written = flushed_rows();
    EXPECT_EQ(written.span("backward").clock(), "gpu");
    EXPECT_EQ(written.span("copy").clock(), "gpu");
}

TEST_F(ContextTest, ThreadWithoutContextSeldomAsksForTheContextOfAStream) {
    if (!driver().is_fake()) GTEST_SKIP() << "needs the fake's counts";
    constexpr std::uint64_t many = 1000;
    CUstream made = new_stream();
    span("forward", nullptr);
    for (CUstream stream : {CUstream{}, made}) {
        fake.reset_counts();
        std::thread([&] {
            for (std::uint64_t i = 0; i < many; ++i) span("backward", stream);
        }).join();
        for (const char* asked : {"cuStreamGetCtx", "cuDevicePrimaryCtxGetState"})
            EXPECT_LT(fake.call_count(asked), many / 10) << asked;  // as often as 10 ms pass
    }
}

TEST_F(ContextTest, ThreadWithoutContextEndsASpanOnTheGpu) {
    const cep_span begun = cep_begin(region("collective"), nullptr);
    std::thread([&] { cep_end(region("collective"), begun, nullptr); }).join();
    EXPECT_EQ(flushed_rows().span("collective").clock(), "gpu");
}

TEST_F(ContextTest, ThreadWithoutContextIsTimedOnTheHostClockIfTheProcessHasShownTwo) {
    span("first", nullptr);
    CUcontext other = push_new_context();
    span("second", nullptr);
    testing::internal::CaptureStderr();
    std::thread([&] { span("whose", nullptr); }).join();
    const Rows written = flushed_rows();
    (void)testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.span("whose").clock(), "host");
    close_and_destroy(other);
}

TEST_F(ContextTest, ThreadWithoutContextTakesNoContextForTheOnlyOneIfAnotherDeviceIsInUse) {
    int devices = 0;
    ASSERT_EQ(driver().device_get_count(&devices), result::success);
    if (devices < 2) GTEST_SKIP() << "one device";
    CUstream stream = new_stream();
    span("first", nullptr);
    CUcontext other = nullptr;
    ASSERT_EQ(driver().primary_ctx_retain(&other, 1), result::success);
    testing::internal::CaptureStderr();
    std::thread([&] {
        span("whose", nullptr);
        span("made by the first", stream);
    }).join();
    const Rows written = flushed_rows();
    (void)testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.span("whose").clock(), "host");
    EXPECT_EQ(written.span("made by the first").clock(), "gpu");
    EXPECT_EQ(driver().primary_ctx_release(1), result::success);
}

TEST_F(ContextTest, SpanThatEndsInAnotherContextIsTimedOnTheHostClock) {
    CUstream stream = new_stream();
    const cep_span begun = cep_begin(region("across"), stream);
    CUcontext other = push_new_context();
    cep_end(region("across"), begun, nullptr);
    const Row row = flushed_rows().span("across");
    EXPECT_EQ(row.clock(), "host");
    close_and_destroy(other);
}

TEST_F(ContextTest, StreamWhoseContextIsNotCurrentGetsNoEventOfAnotherContext) {
    constexpr std::size_t many = 200;  // more than the stream's context has events for
    CUstream stream = new_stream();
    span("before", stream);
    CUcontext other = push_new_context();
    std::vector<cep_span> begun;
    for (std::size_t i = 0; i < many; ++i) begun.push_back(cep_begin(region("meanwhile"), stream));
    for (const cep_span each : begun) cep_end(region("meanwhile"), each, stream);
    ASSERT_EQ(driver().ctx_set_current(context), result::success);
    (void)flushed_rows();
    if (driver().is_fake()) misuses_expected = fake.misuse_count();  // the current context's events in this stream
    begun.clear();
    for (std::size_t i = 0; i < many; ++i) begun.push_back(cep_begin(region("after"), stream));
    for (const cep_span each : begun) cep_end(region("after"), each, stream);
    const std::vector<Row> after = flushed_rows().spans("after");
    ASSERT_EQ(after.size(), many);
    for (const Row& row : after) EXPECT_EQ(row.clock(), "gpu");
    close_and_destroy(other);
}

TEST_F(ContextTest, ContextsOfOneDeviceDoNotMix) {
    CUcontext other = push_new_context();
    CUstream stream = new_stream_of_test();
    for (int i = 0; i < 10; ++i) span("other", stream);
    CUcontext popped = nullptr;
    ASSERT_EQ(driver().ctx_pop_current(&popped), result::success);
    ASSERT_EQ(driver().ctx_set_current(context), result::success);
    CUstream own = new_stream();
    for (int i = 0; i < 10; ++i) span("own", own);
    const Rows written = closed_rows();
    EXPECT_EQ(written.spans("other").size(), 10U);
    EXPECT_EQ(written.spans("own").size(), 10U);
    EXPECT_EQ(stats().cuda_errors, 0U);
    close_and_destroy(other);
}

TEST_F(ContextTest, ContextThatIsDestroyedAndMadeAgainIsProfiledAgain) {
    constexpr std::uint64_t rounds = 5;
    testing::internal::CaptureStderr();
    for (std::uint64_t round = 0; round < rounds; ++round) {
        CUcontext created = push_new_context();
        CUstream stream = new_stream_of_test();
        for (int i = 0; i < 10; ++i) span("phase", stream);
        ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK);
        ASSERT_EQ(driver().ctx_destroy(created), result::success);
    }
    ASSERT_EQ(driver().ctx_set_current(context), result::success);
    CUstream stream = new_stream();
    span("own", stream);
    const Rows written = closed_rows();
    (void)testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.span("own").clock(), "gpu");
    EXPECT_EQ(written.spans("phase").size(), 10 * rounds);
    EXPECT_EQ(stats().abandoned, 0U);
    EXPECT_EQ(stats().cuda_errors, 0U);
    // It reads each context's id once, which the fake counts, and does not use the context's objects.
    misuses_expected = driver().is_fake() ? rounds : 0;
}

TEST_F(ContextTest, DestroyedContextIsRecognisedByItsId) {
    // The profiler relies on this, because it must not use the events of a destroyed context.
    unsigned long long id = 0;
    CUcontext created = push_new_context();
    ASSERT_EQ(driver().ctx_get_id(created, &id), result::success);
    ASSERT_EQ(driver().ctx_destroy(created), result::success);
    unsigned long long now = 0;
    EXPECT_TRUE(driver().ctx_get_id(created, &now) != result::success || now != id);
    misuses_expected = driver().is_fake() ? 1 : 0;
    ASSERT_EQ(driver().ctx_set_current(context), result::success);
}

TEST_F(ContextTest, ContextDestroyedWithPendingSpansCostsTheseSpansOnly) {
    if (!driver().is_fake()) GTEST_SKIP() << "a real driver may end the process for a handle of a destroyed context";
    testing::internal::CaptureStderr();
    CUcontext created = push_new_context();
    CUstream stream = new_stream_of_test();
    write_span("known", stream);
    ASSERT_EQ(fake.inject("cuEventQuery:fail=600"), 0);
    for (int i = 0; i < 10; ++i) span("pending", stream);
    ASSERT_EQ(driver().ctx_destroy(created), result::success);
    fake.clear_faults();
    ASSERT_EQ(driver().ctx_set_current(context), result::success);
    CUstream own = new_stream();
    span("own", own);
    const Rows written = closed_rows();
    (void)testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.spans("known").size(), 1U);
    EXPECT_EQ(written.spans("own").size(), 1U);
    EXPECT_EQ(written.spans("pending").size() + stats().abandoned, 10U);
    EXPECT_EQ(std::string(fake.last_misuse()), "a context that does not exist");
    misuses_expected = fake.misuse_count();
}

TEST_F(ContextTest, ContextDestroyedWithPendingSpansIsAskedForNothingMore) {
    if (!driver().is_fake()) GTEST_SKIP() << "needs the fake's faults";
    testing::internal::CaptureStderr();
    CUcontext created = push_new_context();
    CUstream stream = new_stream_of_test();
    ASSERT_EQ(fake.inject("cuEventQuery:fail=600"), 0);  // not ready
    span("pending", stream);
    // The poller is about to ask whether the context exists when it ceases to.
    ASSERT_EQ(fake.inject("cuCtxGetId:block"), 0);
    (void)cep_flush(profiler, 0);
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 1; }));
    ASSERT_EQ(driver().ctx_destroy(created), result::success);
    fake.clear_faults();
    ASSERT_EQ(driver().ctx_set_current(context), result::success);
    const Rows written = closed_rows();
    (void)testing::internal::GetCapturedStderr();
    EXPECT_EQ(written.spans("pending").size(), 0U);
    EXPECT_EQ(stats().abandoned, 1U);
    misuses_expected = 1;
    EXPECT_EQ(std::string(fake.last_misuse()), "a context that does not exist");
}

TEST_F(ContextTest, LaterThreadsReuseTheEventsOfEarlierOnes) {
    CUstream stream = new_stream();
    std::uint64_t created = 0;
    for (int i = 0; i < 50; ++i) {
        on_another_thread([&] {
            for (int n = 0; n < 10; ++n) span("phase", stream);
        });
        ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK);
        if (driver().is_fake() && i == 5) created = fake.call_count("cuEventCreate");
    }
    if (driver().is_fake()) {
        EXPECT_EQ(fake.call_count("cuEventCreate"), created);
    }
    EXPECT_EQ(stats().written, 500U);
}

}  // namespace
}  // namespace cep::test
