// SPDX-License-Identifier: Apache-2.0
//
// Closing a profiler without time to wait.
#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class CloseTest : public FakeProfilerTest {};

TEST_F(CloseTest, CloseWithTimeoutZeroWritesFullRingsOfFinishedSpans) {
    CUstream stream = open_with_stream();
    for (int i = 0; i < 4000; ++i) span("finished", stream);
    synchronize(stream);
    EXPECT_EQ(cep_close(profiler, 0), CEP_OK) << cep_last_error();
    EXPECT_EQ(rows().spans("finished").size(), 4000U);
    EXPECT_EQ(stats().abandoned, 0U);
    EXPECT_EQ(stats().pending, 0U);
}

TEST_F(CloseTest, CloseWithTimeoutZeroOnAHungGpuWritesEarlierSpans) {
    CUstream stream = open_with_stream();
    CUstream stuck = new_stream();
    for (int i = 0; i < 100; ++i) span("finished", stream);
    synchronize(stream);
    fake.hang();
    for (int i = 0; i < 50; ++i) span("forward", stuck);
    EXPECT_EQ(cep_close(profiler, 0), CEP_ETIMEDOUT);
    const Rows written = rows();
    EXPECT_EQ(written.spans("finished").size(), 100U);
    EXPECT_EQ(written.open("forward").size(), 50U);
    EXPECT_EQ(stats().abandoned, 50U);
    EXPECT_EQ(stats().pending, 0U);
}

TEST_F(CloseTest, CloseWithTimeoutZeroReturnsWhileADriverCallBlocks) {
    CUstream stream = open_with_stream();
    write_span("finished", stream);
    ASSERT_EQ(fake.inject("cuEventQuery:block"), 0);
    for (int i = 0; i < 50; ++i) span("forward", stream);
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 1; }));
    EXPECT_EQ(cep_close(profiler, 0), CEP_ETIMEDOUT);
    EXPECT_EQ(fake.waiting_threads(), 1) << "the call was still blocked when close returned";
    EXPECT_EQ(rows().spans("finished").size(), 1U);
    EXPECT_EQ(stats().abandoned, 50U);
    EXPECT_EQ(stats().pending, 0U);
    expect_all_accounted_for();
    fake.release();
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 0; }));
}

TEST_F(CloseTest, SecondCloseWaitsForDeviceWorkThatTheFirstWaitsFor) {
    CUstream stream = open_plugged(default_options());
    for (int i = 0; i < 100; ++i) span("held", stream);
    std::thread first([&] { EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error(); });
    ASSERT_TRUE(eventually([&] { return cep_recording(profiler) == 0; }));  // the first thread is in cep_close()
    EXPECT_EQ(cep_close(profiler, 50), CEP_ETIMEDOUT);
    std::thread second([&] {
        EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error();
        EXPECT_EQ(rows().spans("held").size(), 100U);
    });
    unplug();
    second.join();
    first.join();
    EXPECT_EQ(stats().abandoned, 0U);
}

TEST_F(CloseTest, CountsAddUpAtEachStageOfASpan) {
    CUstream stream = open_plugged(default_options());
    const cep_span begun = cep_begin(region("begun"), stream);
    expect_all_accounted_for();
    for (int i = 0; i < 100; ++i) span("held", stream);
    expect_all_accounted_for();
    EXPECT_EQ(stats().pending, 100U);
    EXPECT_EQ(stats().open_spans, 1U);
    cep_end(region("begun"), begun, stream);
    EXPECT_EQ(stats().pending, 101U);
    expect_all_accounted_for();
    unplug();
    (void)flushed_rows();
    EXPECT_EQ(stats().pending, 0U);
    EXPECT_EQ(stats().written, 101U);
}

}  // namespace
}  // namespace cep::test
