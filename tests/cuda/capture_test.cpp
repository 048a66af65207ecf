// SPDX-License-Identifier: Apache-2.0
//
// Spans during, across and inside the capture of graphs. Runs on the fake driver and on a real GPU.
#include <atomic>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class CaptureTest : public ProfilerTest, public testing::WithParamInterface<CUstreamCaptureMode> {
  protected:
    void prepare() override { open(); }

    /// Spans that keep the poller busy all the time.
    void keep_poller_busy(CUstream stream) const {
        for (int i = 0; i < 4; ++i) span("pending", stream, [&] { EXPECT_EQ(work.spin(stream, 200 * us), 0); });
    }
};

TEST_P(CaptureTest, SpansInsideAreSkippedAndCounted) {
    CUstream stream = new_stream();
    begin_capture(stream, GetParam());
    span("inside", stream, [&] { EXPECT_EQ(work.spin(stream, 10 * us), result::success); });
    const cep_span outer = cep_begin(region("outer"), stream);
    EXPECT_EQ(outer, CEP_SPAN_NONE);
    end_capture(stream);
    cep_end(region("outer"), outer, stream);
    span("after", stream);
    const Rows written = flushed_rows();
    EXPECT_EQ(written.spans("inside").size(), 0U);
    EXPECT_EQ(written.spans("outer").size(), 0U);
    EXPECT_EQ(written.span("after").clock(), "gpu");
    EXPECT_EQ(stats().capture_skipped, 2U);
    EXPECT_EQ(stats().cuda_errors, 0U);
}

TEST_P(CaptureTest, SpansOfAnotherThreadInsideAreSkippedAndCounted) {
    CUstream stream = new_stream();
    begin_capture(stream, GetParam());
    on_another_thread([&] { span("inside", stream); });
    end_capture(stream);
    EXPECT_EQ(flushed_rows().spans().size(), 0U);
    EXPECT_EQ(stats().capture_skipped, 1U);
}

TEST_P(CaptureTest, SpansOnOtherStreamsAreTimedMeanwhile) {
    CUstream captured = new_stream();
    CUstream other = new_stream();
    begin_capture(captured, GetParam());
    span("same_thread", other, [&] { EXPECT_EQ(work.spin(other, 100 * us), result::success); });
    on_another_thread([&] { span("other_thread", other); });
    const Rows written = flushed_rows();  // the poller opens its clock and resolves spans during the capture
    end_capture(captured);
    EXPECT_EQ(written.span("same_thread").clock(), "gpu");
    EXPECT_EQ(written.span("other_thread").clock(), "gpu");
    EXPECT_EQ(stats().capture_skipped, 0U);
    EXPECT_EQ(stats().cuda_errors, 0U);
}

TEST_P(CaptureTest, SpanBegunBeforeAndEndedInsideIsSkipped) {
    CUstream stream = new_stream();
    const cep_span begun = cep_begin(region("before"), stream);
    begin_capture(stream, GetParam());
    cep_end(region("before"), begun, stream);
    end_capture(stream);
    EXPECT_EQ(flushed_rows().spans("before").size(), 0U);
    EXPECT_EQ(stats().capture_skipped, 1U);
    EXPECT_EQ(stats().abandoned, 0U);
}

TEST_P(CaptureTest, SpanRoundAWholeCaptureIsTimed) {
    CUstream stream = new_stream();
    const cep_span begun = cep_begin(region("round"), stream);
    begin_capture(stream, GetParam());
    EXPECT_EQ(work.spin(stream, 100 * us), result::success);
    end_capture(stream);
    cep_end(region("round"), begun, stream);
    EXPECT_EQ(flushed_rows().span("round").clock(), "gpu");
}

TEST_P(CaptureTest, SwitchInsideSkipsBothPhases) {
    CUstream stream = new_stream();
    const cep_span first = cep_begin(region("first"), stream);
    begin_capture(stream, GetParam());
    const cep_span second = cep_switch(first, region("second"), stream);
    EXPECT_EQ(second, CEP_SPAN_NONE);
    end_capture(stream);
    EXPECT_EQ(flushed_rows().spans().size(), 0U);
    EXPECT_EQ(stats().capture_skipped, 2U);
}

TEST_P(CaptureTest, PhaseChangeInsideSkipsBothPhasesAndTheNextBeginsAfresh) {
    CUstream stream = new_stream();
    EXPECT_EQ(cep_phase(profiler, region("first"), stream), CEP_OK);
    begin_capture(stream, GetParam());
    EXPECT_EQ(cep_phase(profiler, region("second"), stream), CEP_OK);
    end_capture(stream);
    EXPECT_EQ(cep_phase(profiler, region("third"), stream), CEP_OK);
    EXPECT_EQ(cep_phase(profiler, nullptr, stream), CEP_OK);
    const Rows written = flushed_rows();
    EXPECT_EQ(written.spans().size(), 1U);
    EXPECT_EQ(written.spans("third").size(), 1U);
    EXPECT_EQ(stats().capture_skipped, 2U);
}

TEST_P(CaptureTest, LegacyStreamDuringTheCaptureOfABlockingStreamIsSkipped) {
    CUstream blocking = new_stream(stream_flags::normal);
    begin_capture(blocking, GetParam());
    span("legacy", nullptr);
    end_capture(blocking);
    span("after", nullptr);
    const Rows written = flushed_rows();
    EXPECT_EQ(written.spans("legacy").size(), 0U);
    EXPECT_EQ(written.spans("after").size(), 1U);
    EXPECT_EQ(stats().capture_skipped, 1U);
}

TEST_P(CaptureTest, ThousandCapturesDuringPollingStayValid) {
    CUstream busy = new_stream();
    CUstream captured = new_stream();
    std::atomic<bool> captures_done{false};
    // A waiting flush makes the poller poll at its fastest.
    std::thread flusher([&] {
        while (!captures_done.load()) (void)cep_flush(profiler, 1);
    });
    for (int i = 0; i < 1000; ++i) {
        if (i % 10 == 0) keep_poller_busy(busy);
        begin_capture(captured, GetParam());
        EXPECT_EQ(work.spin(captured, 10 * us), result::success);
        span("inside", captured);
        EXPECT_EQ(work.spin(captured, 10 * us), result::success);
        end_capture(captured);
        if (HasFatalFailure()) break;
    }
    captures_done = true;
    flusher.join();
    const Rows written = flushed_rows();
    EXPECT_EQ(written.spans("pending").size(), 400U);
    EXPECT_EQ(written.spans("inside").size(), 0U);
    EXPECT_EQ(stats().capture_skipped, 1000U);
    EXPECT_EQ(stats().cuda_errors, 0U);
}

TEST_P(CaptureTest, CloseDuringACaptureKeepsItValid) {
    CUstream captured = new_stream();
    CUstream other = new_stream();
    span("before", other);
    begin_capture(captured, GetParam());
    EXPECT_EQ(closed_rows().spans("before").size(), 1U);
    end_capture(captured);
}

std::string mode_name(const testing::TestParamInfo<CUstreamCaptureMode>& tested) {
    if (tested.param == capture_mode::relaxed) return "Relaxed";
    return tested.param == capture_mode::global ? "Global" : "ThreadLocal";
}

INSTANTIATE_TEST_SUITE_P(Mode, CaptureTest,
                         testing::Values(capture_mode::global, capture_mode::thread_local_, capture_mode::relaxed),
                         mode_name);

}  // namespace
}  // namespace cep::test
