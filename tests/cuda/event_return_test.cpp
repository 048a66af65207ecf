// SPDX-License-Identifier: Apache-2.0
//
// However a span ends, its events are used again, and close gives them back to the driver.
#include <functional>
#include <string>
#include <vector>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

/// Tests repeat one way to end spans so often that an event lost each time would show among the driver's live ones.
class EventReturnTest : public FakeProfilerTest {
  protected:
    void prepare() override {
        stream = new_stream();
        open(with(&cep_options::record_every_n_steps, 2));
        first = region("first");
        second = region("second");
        third = region("third");
    }

    void begin_recorded_step() const { ASSERT_EQ(cep_step(profiler, 2), CEP_OK); }
    void begin_skipped_step() const { ASSERT_EQ(cep_step(profiler, 3), CEP_OK); }

    void repeat(int rounds, const std::function<void()>& end_spans) const {
        for (int round = 0; round < rounds; ++round) {
            begin_recorded_step();
            end_spans();
            begin_recorded_step();
            span("ordinary", stream);  // events that were let go are used again when the poller comes by
            ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK);
        }
    }

    /// `names`: of which each round writes a span.
    void expect_events_come_back(const std::vector<std::string>& names, const std::function<void()>& end_spans) {
        constexpr int rounds = 200;
        repeat(10, end_spans);
        const std::int64_t warm = fake.live_count("events");
        repeat(rounds, end_spans);
        EXPECT_LE(fake.live_count("events"), warm + rounds / 10);
        EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error();
        EXPECT_EQ(fake.live_count("events"), 0);
        for (const std::string& name : names) EXPECT_EQ(rows().spans(name).size(), 210U) << name;
    }

    CUstream stream = nullptr;
    cep_region* first = nullptr;
    cep_region* second = nullptr;
    cep_region* third = nullptr;
};

TEST_F(EventReturnTest, ChainOfPhases) {
    expect_events_come_back({"third"}, [&] {
        const cep_span begun = cep_switch(cep_begin(first, stream), second, stream);
        cep_end(third, cep_switch(begun, third, stream), stream);
    });
}

TEST_F(EventReturnTest, ChainThatEndsOnAStepThatIsNotRecorded) {
    expect_events_come_back({"second"}, [&] {
        const cep_span begun = cep_switch(cep_begin(first, stream), second, stream);
        begin_skipped_step();
        EXPECT_EQ(cep_switch(begun, third, stream), CEP_SPAN_NONE);
    });
}

TEST_F(EventReturnTest, PhaseOfTheHostSwitchedOnAStreamOnAStepThatIsNotRecorded) {
    expect_events_come_back({"first"}, [&] {
        const cep_span begun = cep_begin(first, CEP_HOST);
        begin_skipped_step();
        EXPECT_EQ(cep_switch(begun, second, stream), CEP_SPAN_NONE);
    });
}

TEST_F(EventReturnTest, PhaseOfTheHostFollowedByOneOnAStream) {
    expect_events_come_back({"second"},
                            [&] { cep_end(second, cep_switch(cep_begin(first, CEP_HOST), second, stream), stream); });
}

TEST_F(EventReturnTest, PhaseOnAStreamFollowedByOneOfTheHost) {
    expect_events_come_back({"first", "second"},
                            [&] { cep_end(second, cep_switch(cep_begin(first, stream), second, CEP_HOST), CEP_HOST); });
}

TEST_F(EventReturnTest, SpanEndedOnTheHost) {
    expect_events_come_back({"first"}, [&] { cep_end(first, cep_begin(first, stream), CEP_HOST); });
}

TEST_F(EventReturnTest, SpanEndedOnAnotherThread) {
    expect_events_come_back({"first"}, [&] {
        const cep_span begun = cep_begin(first, stream);
        on_another_thread([&] { cep_end(first, begun, stream); });
    });
}

TEST_F(EventReturnTest, SwitchFromASpanOfAnotherThread) {
    expect_events_come_back({"first", "second"}, [&] {
        cep_span begun = CEP_SPAN_NONE;
        on_another_thread([&] { begun = cep_begin(first, stream); });
        cep_end(second, cep_switch(begun, second, stream), stream);
    });
}

TEST_F(EventReturnTest, SpanEndedInACapture) {
    expect_events_come_back({}, [&] {
        const cep_span begun = cep_begin(first, stream);
        begin_capture(stream, capture_mode::thread_local_);
        cep_end(first, begun, stream);
        end_capture(stream);
    });
    EXPECT_EQ(stats().capture_skipped, 210U);
}

TEST_F(EventReturnTest, PhaseSwitchedInACapture) {
    expect_events_come_back({}, [&] {
        const cep_span begun = cep_begin(first, stream);
        begin_capture(stream, capture_mode::thread_local_);
        EXPECT_EQ(cep_switch(begun, second, stream), CEP_SPAN_NONE);
        end_capture(stream);
    });
    EXPECT_EQ(stats().capture_skipped, 420U);
}

TEST_F(EventReturnTest, SpanWhoseRecordTheDriverRefuses) {
    expect_events_come_back({}, [&] {
        const cep_span begun = cep_begin(first, stream);
        ASSERT_EQ(fake.inject("cuStreamIsCapturing:fail=1"), 0);
        cep_end(first, begun, stream);
        fake.clear_faults();
    });
    EXPECT_EQ(stats().abandoned, 210U);
}

TEST_F(EventReturnTest, SwitchWithoutASlotForTheNextPhase) {
    std::vector<cep_span> open_spans;
    const auto open_all = [&] {
        for (cep_span begun = cep_begin(third, CEP_HOST); begun != CEP_SPAN_NONE; begun = cep_begin(third, CEP_HOST))
            open_spans.push_back(begun);
    };
    begin_recorded_step();
    span("ordinary", stream);
    expect_events_come_back({"first"}, [&] {
        cep_span begun = CEP_SPAN_NONE;  // on another thread: a span of this one would leave its slot to the next phase
        on_another_thread([&] { begun = cep_begin(first, stream); });
        open_all();
        EXPECT_EQ(cep_switch(begun, second, stream), CEP_SPAN_NONE);
        cep_end(third, open_spans.back(), CEP_HOST);  // a slot for the ordinary span
        open_spans.pop_back();
    });
}

TEST_F(EventReturnTest, SwitchWhileAllSlotsAreInUse) {
    std::vector<cep_span> open_spans;
    expect_events_come_back({"second"}, [&] {
        const cep_span begun = cep_begin(first, stream);
        for (cep_span span = begun; span != CEP_SPAN_NONE; span = cep_begin(third, CEP_HOST))
            open_spans.push_back(span);
        const cep_span next = cep_switch(begun, second, stream);
        EXPECT_NE(next, CEP_SPAN_NONE);
        cep_end(second, next, stream);
        for (; !open_spans.empty(); open_spans.pop_back()) cep_end(third, open_spans.back(), CEP_HOST);
    });
}

TEST_F(EventReturnTest, SpansThatAreNeverEnded) {
    for (int i = 0; i < 200; ++i) {
        (void)cep_begin(first, stream);
        const cep_span begun = cep_begin(second, stream);
        (void)cep_switch(begun, third, stream);
    }
    on_another_thread([&] { (void)cep_begin(first, stream); });
    EXPECT_EQ(stats().open_spans, 401U);
    EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error();
    EXPECT_EQ(fake.live_count("events"), 0);
    EXPECT_EQ(rows().open("third").size(), 200U);
    EXPECT_EQ(rows().open("first").size(), 201U);
}

// Any thread may still end them.
TEST_F(EventReturnTest, SpansOfThreadsThatEndWithoutEndingThem) {
    std::vector<cep_span> left_open;
    const auto leave_open = [&] { on_another_thread([&] { left_open.push_back(cep_begin(first, stream)); }); };
    for (int i = 0; i < 20; ++i) leave_open();
    for (int round = 0; round < 20; ++round) {
        for (const cep_span begun : left_open) cep_end(first, begun, stream);
        left_open.clear();
        ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK);
        for (int i = 0; i < 20; ++i) leave_open();
    }
    EXPECT_LE(fake.live_count("events"), 100);  // of 800
    EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error();
    EXPECT_EQ(fake.live_count("events"), 0);
    EXPECT_EQ(rows().spans("first").size(), 400U);
    EXPECT_EQ(rows().open("first").size(), 20U);
}

}  // namespace
}  // namespace cep::test
