// SPDX-License-Identifier: Apache-2.0
//
// A GPU or a driver that hangs: which calls wait, which do not, and which rows are in the file.
#include <string>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

constexpr std::int64_t short_ms = 100;

class StallTest : public FakeProfilerTest {
  protected:
    /// The rows of a complete file, which ends with a stats row.
    [[nodiscard]] Rows final_rows() const {
        Rows written = rows();
        EXPECT_TRUE(!written.all().empty() && written.all().back().type() == "stats");
        return written;
    }
};

TEST_F(StallTest, SlowStreamDoesNotDelayAnother) {
    open();
    CUstream slow = new_stream();
    CUstream quick = new_stream();
    plug(slow);
    span("slow", slow);
    for (int i = 0; i < 10; ++i) span("quick", quick);
    EXPECT_EQ(cep_flush(profiler, short_ms), CEP_ETIMEDOUT);
    EXPECT_EQ(rows().spans("quick").size(), 10U);
    EXPECT_EQ(rows().spans("slow").size(), 0U);
    unplug();
    EXPECT_EQ(flushed_rows().spans("slow").size(), 1U);
}

TEST_F(StallTest, FlushThatTimesOutWritesOpenRowsForPendingSpans) {
    CUstream stream = open_plugged(default_options());
    span("held", stream);
    const cep_span begun = cep_begin(region("begun"), stream);
    EXPECT_EQ(cep_flush(profiler, short_ms), CEP_ETIMEDOUT);
    const Rows written = rows();
    ASSERT_EQ(written.open("held").size(), 1U);
    EXPECT_EQ(written.open("held").front().clock(), "gpu");
    EXPECT_EQ(written.open("begun").size(), 1U);
    cep_end(region("begun"), begun, stream);
    unplug();
    EXPECT_EQ(flushed_rows().spans().size(), 2U);
}

TEST_F(StallTest, CloseOnAHungGpuIsBoundedAndNamesThePhase) {
    CUstream stream = open_with_stream();
    write_span("finished", stream);
    fake.hang();
    span("forward", stream);
    const cep_span begun = cep_begin(region("backward"), stream);
    (void)begun;
    EXPECT_EQ(cep_close(profiler, 200), CEP_ETIMEDOUT);
    const Rows written = final_rows();
    EXPECT_EQ(written.spans("finished").size(), 1U);
    EXPECT_EQ(written.open("forward").size(), 1U);
    EXPECT_EQ(written.open("backward").size(), 1U);
    EXPECT_EQ(written.last("stats").integer("/abandoned"), 1);
    EXPECT_EQ(stats().abandoned, 1U);
}

TEST_F(StallTest, QueryThatBlocksInTheDriverBlocksNeitherFlushNorClose) {
    CUstream stream = open_with_stream();
    write_span("finished", stream);
    ASSERT_EQ(fake.inject("cuEventQuery:block"), 0);
    span("forward", stream);
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 1; }));
    EXPECT_EQ(cep_flush(profiler, short_ms), CEP_ETIMEDOUT);
    EXPECT_EQ(rows().open("forward").size(), 1U);
    const cep_span begun = cep_begin(region("backward"), stream);  // the trainer is not blocked either
    cep_end(region("backward"), begun, stream);
    EXPECT_EQ(cep_close(profiler, short_ms), CEP_ETIMEDOUT);
    EXPECT_EQ(fake.waiting_threads(), 1) << "the call was still blocked when close returned";
    const Rows written = final_rows();
    EXPECT_EQ(written.spans("finished").size(), 1U);
    EXPECT_GE(written.open("forward").size(), 1U);
    EXPECT_EQ(written.open("backward").size(), 1U);
    EXPECT_EQ(written.last("stats").integer("/abandoned"), 2);
    const std::size_t size = written.all().size();
    fake.release();
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 0; }));
    EXPECT_EQ(rows().all().size(), size);
}

TEST_F(StallTest, AnyDriverCallOfThePollerMayBlock) {
    for (const char* function : {"cuEventElapsedTime", "cuStreamCreateWithPriority", "cuCtxPushCurrent"}) {
        CUstream stream = new_stream();
        open();
        ASSERT_EQ(fake.inject((std::string(function) + ":block").c_str()), 0);
        span("forward", stream);
        ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 1; })) << function;
        EXPECT_EQ(cep_close(profiler, short_ms), CEP_ETIMEDOUT) << function;
        EXPECT_EQ(fake.waiting_threads(), 1) << function;
        EXPECT_EQ(final_rows().open("forward").size(), 1U) << function;
        fake.release();
        await_abandoned_threads();
        std::filesystem::remove(path());
    }
}

TEST_F(StallTest, BlockedDriverCallDelaysNoSpanOfTheHost) {
    CUstream stream = open_with_stream();
    ASSERT_EQ(fake.inject("cuEventQuery:block"), 0);
    span("held", stream);
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 1; }));
    for (int i = 0; i < 100; ++i) span("data_load", CEP_HOST);
    EXPECT_EQ(cep_flush(profiler, short_ms), CEP_ETIMEDOUT);
    EXPECT_EQ(rows().spans("data_load").size(), 100U);
    fake.release();
}

}  // namespace
}  // namespace cep::test
