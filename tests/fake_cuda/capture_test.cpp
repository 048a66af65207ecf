// SPDX-License-Identifier: Apache-2.0
//
// The behaviour of any CUDA driver while a stream is being captured.
#include <atomic>
#include <functional>

#include "driver_fixture.hpp"

namespace fake_cuda {
namespace {

class CaptureTest : public DriverTest {
  protected:
    CUstream begin_capture(CUstreamCaptureMode mode, unsigned int flags = stream_flags::non_blocking) {
        CUstream stream = new_stream(flags);
        EXPECT_EQ(driver().stream_begin_capture(stream, mode), result::success);
        return stream;
    }

    static CUresult end_capture(CUstream stream) {
        CUgraph graph = nullptr;
        const CUresult code = driver().stream_end_capture(stream, &graph);
        if (graph != nullptr) driver().graph_destroy(graph);
        EXPECT_EQ(graph != nullptr, code == result::success);
        return code;
    }

    static CUresult with_thread_mode(CUstreamCaptureMode mode, const std::function<CUresult()>& body) {
        driver().thread_exchange_stream_capture_mode(&mode);
        const CUresult code = body();
        driver().thread_exchange_stream_capture_mode(&mode);
        return code;
    }
};

struct Situation {
    CUstreamCaptureMode capture = 0;
    CUstreamCaptureMode thread = 0;
    bool same_thread = true;

    /// Whether the CUDA documentation says that potentially unsafe calls are prohibited.
    [[nodiscard]] bool prohibited() const {
        if (thread == capture_mode::relaxed) return false;
        if (same_thread) return capture != capture_mode::relaxed;
        return capture == capture_mode::global && thread == capture_mode::global;
    }
};

class UnsafeCallTest : public CaptureTest, public testing::WithParamInterface<int> {
  protected:
    static Situation situation() {
        const auto index = static_cast<unsigned int>(GetParam());
        return {.capture = index % 3, .thread = index / 3 % 3, .same_thread = index / 9 == 0};
    }

    CUresult in_situation(const std::function<CUresult()>& body) const {
        CUresult code = result::unknown;
        const auto run = [&] { code = with_thread_mode(situation().thread, body); };
        if (situation().same_thread)
            run();
        else
            on_another_thread(run);
        return code;
    }

    void expect(const std::function<CUresult()>& body, bool prohibited) {
        CUstream stream = begin_capture(situation().capture);
        EXPECT_EQ(in_situation(body), prohibited ? result::capture_unsupported : result::success);
        EXPECT_EQ(end_capture(stream), prohibited ? result::capture_invalidated : result::success);
    }
};

TEST_P(UnsafeCallTest, TheModesProhibitQueriesAndSynchronisation) {
    CUstream other = new_stream();
    CUevent done = completed_event(other);
    expect([&] { return driver().event_query(done); }, situation().prohibited());
    expect([&] { return driver().event_synchronize(done); }, situation().prohibited());
    expect([&] { return driver().stream_synchronize(other); }, situation().prohibited());
}

TEST_P(UnsafeCallTest, CallsOfARecorderAreAlwaysAllowed) {
    CUstream other = new_stream();
    CUevent done = completed_event(other);
    float milliseconds = 0;
    std::size_t bytes[2] = {};
    CUevent event = nullptr;
    CUstreamCaptureStatus status = capture_status::active;
    expect([&] { return driver().event_elapsed_time(&milliseconds, done, done); }, false);
    expect([&] { return driver().event_create(&event, 0); }, false);
    expect([&] { return driver().event_record(event, other); }, false);
    expect([&] { return driver().event_destroy(event); }, false);
    expect([&] { return driver().mem_get_info(&bytes[0], &bytes[1]); }, false);
    expect([&] { return driver().stream_is_capturing(other, &status); }, false);
    EXPECT_EQ(status, capture_status::none);
}

TEST_P(UnsafeCallTest, WaitingForTheContextAlwaysInvalidatesTheCapture) {
    expect([] { return driver().ctx_synchronize(); }, true);
}

INSTANTIATE_TEST_SUITE_P(AllModes, UnsafeCallTest, testing::Range(0, 18));

class CaptureModeTest : public CaptureTest, public testing::WithParamInterface<CUstreamCaptureMode> {};

TEST_P(CaptureModeTest, StatusSaysThatAStreamIsCapturing) {
    CUstream stream = begin_capture(GetParam());
    CUstreamCaptureStatus status = capture_status::none;
    EXPECT_EQ(driver().stream_is_capturing(stream, &status), result::success);
    EXPECT_EQ(status, capture_status::active);
    EXPECT_EQ(end_capture(stream), result::success);
    EXPECT_EQ(driver().stream_is_capturing(stream, &status), result::success);
    EXPECT_EQ(status, capture_status::none);
}

TEST_P(CaptureModeTest, QueryOfACapturedEventInvalidatesTheCapture) {
    CUstream stream = begin_capture(GetParam());
    CUevent captured = record(stream);
    EXPECT_EQ(with_thread_mode(capture_mode::relaxed, [&] { return driver().event_query(captured); }),
              result::captured_event);
    EXPECT_EQ(end_capture(stream), result::capture_invalidated);
}

TEST_P(CaptureModeTest, ElapsedTimeOfACapturedEventFailsAndInvalidatesNothing) {
    CUevent done = completed_event(new_stream());
    CUstream stream = begin_capture(GetParam());
    CUevent captured = record(stream);
    float milliseconds = 0;
    EXPECT_EQ(driver().event_elapsed_time(&milliseconds, done, captured), result::captured_event);
    EXPECT_EQ(end_capture(stream), result::success);
}

TEST_P(CaptureModeTest, EventStaysUnreadableAfterItsCaptureUntilItIsRecordedAgain) {
    CUstream stream = begin_capture(GetParam());
    CUevent captured = record(stream);
    ASSERT_EQ(end_capture(stream), result::success);
    EXPECT_EQ(driver().event_query(captured), result::invalid_value);
    ASSERT_EQ(driver().event_record(captured, stream), result::success);
    EXPECT_EQ(driver().event_synchronize(captured), result::success);
}

TEST_P(CaptureModeTest, StatusOfTheLegacyStreamKeepsTheCaptureOfABlockingStreamValid) {
    CUstream stream = begin_capture(GetParam(), stream_flags::normal);
    CUstreamCaptureStatus status = capture_status::none;
    EXPECT_EQ(driver().stream_is_capturing(nullptr, &status), result::capture_implicit);
    EXPECT_EQ(end_capture(stream), result::success);
}

TEST_P(CaptureModeTest, AnyOtherUseOfTheLegacyStreamInvalidatesTheCaptureOfABlockingStream) {
    CUevent event = new_event();
    unsigned long long id = 0;
    CUcontext of_stream = nullptr;
    const std::function<CUresult()> uses[] = {
        [&] { return driver().event_record(event, nullptr); },
        [&] { return driver().stream_get_id(nullptr, &id); },
        [&] { return driver().stream_get_ctx(nullptr, &of_stream); },
        [&] { return work.spin(nullptr, 0); },
    };
    for (const auto& use : uses) {
        CUstream stream = begin_capture(GetParam(), stream_flags::normal);
        EXPECT_EQ(use(), result::capture_implicit);
        EXPECT_EQ(end_capture(stream), result::capture_invalidated);
    }
}

TEST_P(CaptureModeTest, LegacyStreamMayBeUsedDuringACaptureOfANonBlockingStream) {
    CUstream stream = begin_capture(GetParam());
    CUevent event = new_event();
    EXPECT_EQ(driver().event_record(event, nullptr), result::success);
    EXPECT_EQ(end_capture(stream), result::success);
}

TEST_P(CaptureModeTest, WaitForUncapturedWorkInvalidatesTheCapture) {
    CUevent done = completed_event(new_stream());
    CUstream stream = begin_capture(GetParam());
    EXPECT_EQ(driver().stream_wait_event(stream, done, 0), result::capture_isolation);
    EXPECT_EQ(end_capture(stream), result::capture_invalidated);
}

TEST_P(CaptureModeTest, InvalidatedCaptureAcceptsNoMoreWork) {
    CUstream stream = begin_capture(GetParam());
    CUevent event = new_event();
    ASSERT_EQ(driver().ctx_synchronize(), result::capture_unsupported);
    CUstreamCaptureStatus status = capture_status::none;
    EXPECT_EQ(driver().stream_is_capturing(stream, &status), result::success);
    EXPECT_EQ(status, capture_status::invalidated);
    EXPECT_EQ(driver().event_record(event, stream), result::capture_invalidated);
    EXPECT_EQ(work.spin(stream, 0), result::capture_invalidated);
    EXPECT_EQ(end_capture(stream), result::capture_invalidated);
}

INSTANTIATE_TEST_SUITE_P(AllModes, CaptureModeTest,
                         testing::Values(capture_mode::global, capture_mode::thread_local_, capture_mode::relaxed));

TEST_F(CaptureTest, GraphRunsTheCapturedWork) {
    CUstream stream = begin_capture(capture_mode::global);
    ASSERT_EQ(work.spin(stream, 5 * ms), result::success);
    ASSERT_EQ(work.spin(stream, 5 * ms), result::success);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_EQ(driver().stream_end_capture(stream, &graph), result::success);
    ASSERT_EQ(driver().graph_instantiate(&exec, graph, 0), result::success);
    CUevent start = record(stream);
    ASSERT_EQ(driver().graph_launch(exec, stream), result::success);
    CUevent end = record(stream);
    ASSERT_EQ(driver().event_synchronize(end), result::success);
    EXPECT_GE(elapsed(start, end), 9.999F);
    EXPECT_EQ(driver().graph_exec_destroy(exec), result::success);
    EXPECT_EQ(driver().graph_destroy(graph), result::success);
}

TEST_F(CaptureTest, ForkedStreamJoinsTheCaptureAndMustBeJoinedAgain) {
    CUstream fork = new_stream();
    for (const bool joins : {true, false}) {
        CUstream stream = begin_capture(capture_mode::global);
        ASSERT_EQ(driver().stream_wait_event(fork, record(stream), 0), result::success);
        CUstreamCaptureStatus status = capture_status::none;
        EXPECT_EQ(driver().stream_is_capturing(fork, &status), result::success);
        EXPECT_EQ(status, capture_status::active);
        ASSERT_EQ(work.spin(fork, ms), result::success);
        if (joins) {
            ASSERT_EQ(driver().stream_wait_event(stream, record(fork), 0), result::success);
        }
        EXPECT_EQ(end_capture(stream), joins ? result::success : result::capture_unjoined);
    }
}

TEST_F(CaptureTest, CaptureEndsOnTheThreadAndStreamItBeganOn) {
    CUstream stream = begin_capture(capture_mode::global);
    on_another_thread([&] { EXPECT_EQ(end_capture(stream), result::capture_wrong_thread); });
    EXPECT_EQ(end_capture(stream), result::illegal_state) << "the failed end took the capture away";
    CUstream relaxed = begin_capture(capture_mode::relaxed);
    on_another_thread([&] { EXPECT_EQ(end_capture(relaxed), result::success); });
}

TEST_F(CaptureTest, StreamsThatCannotBeCaptured) {
    EXPECT_EQ(driver().stream_begin_capture(nullptr, capture_mode::relaxed), result::capture_unsupported);
    CUstream stream = begin_capture(capture_mode::global);
    EXPECT_EQ(driver().stream_begin_capture(stream, capture_mode::global), result::illegal_state);
    EXPECT_EQ(end_capture(stream), result::success);
    EXPECT_EQ(end_capture(stream), result::illegal_state);
}

TEST_F(CaptureTest, ThousandCapturesDuringRelaxedPollingSucceed) {
    CUstream stream = new_stream();
    CUevent done = completed_event(new_stream());
    std::atomic<bool> finished = false;
    std::atomic<int> failed_queries = 0;
    std::thread poller([&] {
        CUstreamCaptureMode mode = capture_mode::relaxed;
        driver().thread_exchange_stream_capture_mode(&mode);
        while (!finished) failed_queries += driver().event_query(done) != result::success;
    });
    int spoiled = 0;
    for (unsigned int i = 0; i < 1000; ++i) {
        driver().stream_begin_capture(stream, i % 3);
        spoiled += work.spin(stream, 0) != result::success;
        spoiled += end_capture(stream) != result::success;
    }
    finished = true;
    poller.join();
    EXPECT_EQ(spoiled, 0);
    EXPECT_EQ(failed_queries, 0);
}

}  // namespace
}  // namespace fake_cuda
