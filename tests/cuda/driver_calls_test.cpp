// SPDX-License-Identifier: Apache-2.0
//
// The number and kind of the profiler's driver calls and allocations.
#include <string>
#include <vector>

#include "allocations.h"
#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class DriverCallsTest : public FakeProfilerTest {
  protected:
    /// Some steps of three phases on one stream.
    void train(CUstream stream, int steps) const {
        for (int step = 0; step < steps; ++step) {
            (void)cep_step(profiler, step);
            span("step", stream, [&] {
                span("forward", stream);
                span("backward", stream);
            });
        }
    }

    [[nodiscard]] std::uint64_t queries_within(std::uint64_t watched_ns) const {
        const std::uint64_t before = fake.call_count("cuEventQuery");
        const std::int64_t end_ns = host_ns() + static_cast<std::int64_t>(watched_ns);
        EXPECT_TRUE(eventually([&] { return host_ns() > end_ns; }));
        return fake.call_count("cuEventQuery") - before;
    }
};

TEST_F(DriverCallsTest, SpanMakesTwoRecordsAndNoOtherExpensiveCall) {
    CUstream stream = open_with_stream();
    train(stream, 1);
    (void)flushed_rows();
    const auto one_span = [&] { span("forward", stream); };
    EXPECT_EQ(calls_during("cuEventRecord", one_span), 2U);
    EXPECT_EQ(calls_during("cuEventCreate", one_span), 0U);
    // A record and two queries of state at each end. The poller's calls count too, if it comes in between: then again.
    constexpr std::uint64_t most = 2 * 3;
    EXPECT_TRUE(eventually([&] { return calls_during(nullptr, one_span) <= most; }));
}

TEST_F(DriverCallsTest, StreamThatTheProgramMadeProvesItsContext) {
    CUstream stream = open_with_stream();
    constexpr std::uint64_t spans = 40;
    const auto contexts_asked_for = [&](CUstream on) {
        std::vector<cep_span> begun;  // makes the events that the spans below take
        for (std::uint64_t i = 0; i < 2 * spans; ++i) begun.push_back(cep_begin(region("forward"), on));
        for (const cep_span each : begun) cep_end(region("forward"), each, on);
        (void)flushed_rows();
        return calls_during("cuCtxGetCurrent", [&] {
            for (std::uint64_t i = 0; i < spans; ++i) span("forward", on);
        });
    };
    EXPECT_LT(contexts_asked_for(stream), spans / 2);  // some: it is asked again after 10 ms
    EXPECT_GE(contexts_asked_for(nullptr), 2 * spans);
}

TEST_F(DriverCallsTest, FlushesWithoutPauseDoNotMakeThePollerAskWithoutPause) {
    constexpr int flushes = 1'000;
    constexpr std::int64_t distance_ns = 100 * 1000;  // of two passes of the poller
    CUstream stream = open_with_stream();
    const std::int64_t began_ns = host_ns();
    const std::uint64_t before = fake.call_count("cuEventQuery");
    for (int i = 0; i < flushes; ++i) {
        span("forward", stream);
        (void)cep_flush(profiler, patience_ms);
    }
    const std::uint64_t asked = fake.call_count("cuEventQuery") - before;
    const std::int64_t passes = (host_ns() - began_ns) / distance_ns + 1;
    EXPECT_LE(2 * asked, 3U * static_cast<std::uint64_t>(passes));  // a pass asks for one span, some for an anchor too
}

TEST_F(DriverCallsTest, ChainOfPhasesMakesOneRecordMoreThanItsPhases) {
    CUstream stream = open_with_stream();
    constexpr std::uint64_t phases = 7;
    const std::uint64_t records = calls_during("cuEventRecord", [&] {
        cep_span phase = CEP_SPAN_NONE;
        for (std::uint64_t i = 0; i < phases; ++i)
            phase = cep_switch(phase, region("phase" + std::to_string(i)), stream);
        cep_end(region("phase6"), phase, stream);
    });
    EXPECT_EQ(records, phases + 1);
    EXPECT_EQ(flushed_rows().spans().size(), phases);
}

TEST_F(DriverCallsTest, CurrentPhasesChainAcrossStepsWithOneRecordEach) {
    CUstream stream = open_with_stream();
    constexpr std::uint64_t phases = 3;
    constexpr std::uint64_t steps = 5;
    const std::uint64_t records = calls_during("cuEventRecord", [&] {
        for (std::uint64_t step = 0; step < steps; ++step) {
            (void)cep_step(profiler, static_cast<std::int64_t>(step));
            for (std::uint64_t i = 0; i < phases; ++i)
                EXPECT_EQ(cep_phase(profiler, region("phase" + std::to_string(i)), stream), CEP_OK);
        }
        EXPECT_EQ(cep_phase(profiler, nullptr, stream), CEP_OK);
    });
    EXPECT_EQ(records, steps * phases + 1);
    EXPECT_EQ(flushed_rows().spans().size(), steps * phases);
}

TEST_F(DriverCallsTest, CurrentPhaseMakesNoCallOnStepsThatAreNotRecorded) {
    CUstream stream = open_with_stream(with(&cep_options::record_every_n_steps, 10));
    const auto train = [&](std::int64_t step) {
        (void)cep_step(profiler, step);
        (void)cep_phase(profiler, region("forward"), stream);
        (void)cep_phase(profiler, region("backward"), stream);
    };
    train(0);
    EXPECT_EQ(calls_during("cuEventRecord", [&] { train(1); }), 1U);  // the end of the recorded step's last phase
    EXPECT_EQ(calls_during(nullptr, [&] { train(2); }), 0U);
    EXPECT_EQ(flushed_rows().spans().size(), 2U);
}

TEST_F(DriverCallsTest, HostSpansMakeNoCall) {
    open();
    EXPECT_EQ(calls_during(nullptr, [&] { span("load", CEP_HOST); }), 0U);
    EXPECT_EQ(flushed_rows().span("load").clock(), "host");
    EXPECT_EQ(fake.call_count("cuEventCreate"), 0U);
    EXPECT_EQ(fake.call_count("cuEventQuery"), 0U);
}

TEST_F(DriverCallsTest, ProfilerOfTheHostOrThatIsOffMakesNoCallAtAll) {
    const std::int32_t others[] = {1};
    cep_options host = default_options(), disabled = default_options(), unlisted = default_options();
    host.backend = CEP_BACKEND_HOST;
    disabled.enable = 0;
    unlisted.world_size = 2;
    unlisted.ranks = others;
    unlisted.ranks_count = 1;
    CUstream stream = new_stream();
    fake.reset_counts();
    for (const cep_options& options : {host, disabled, unlisted}) {
        open(options);
        train(stream, 10);
        EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK);
    }
    EXPECT_EQ(rows().spans("forward").size(), 10U);
    EXPECT_EQ(fake.call_count(nullptr), 0U);
}

TEST_F(DriverCallsTest, StepsThatAreNotRecordedMakeNoCall) {
    cep_options options = default_options();
    options.start_step = 1000;
    CUstream stream = new_stream();
    fake.reset_counts();
    open(options);
    train(stream, 999);
    EXPECT_EQ(fake.call_count(nullptr), 0U);
    train(stream, 1001);
    EXPECT_GT(fake.call_count("cuEventRecord"), 0U);
}

TEST_F(DriverCallsTest, IdleProfilerMakesNoCall) {
    open();
    train(new_stream(), 10);
    (void)flushed_rows();
    (void)flushed_rows();  // an anchor of the clock may still have been under way
    const std::uint64_t calls = fake.call_count(nullptr);
    (void)flushed_rows();  // the poller makes at least one more pass
    EXPECT_EQ(fake.call_count(nullptr), calls);
}

TEST_F(DriverCallsTest, EventsAreReused) {
    CUstream stream = open_with_stream();
    const std::int32_t thread = static_cast<std::int32_t>(gettid());
    for (int i = 1; i <= 100'000; ++i) {
        span("phase", stream);
        if (i % 100 != 0) continue;
        ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK);
    }
    // Events of the last spans may come back a moment after the flush.
    constexpr std::uint64_t events_between_flushes = 2 * 100;
    EXPECT_LE(fake.thread_call_count(thread, "cuEventCreate"), events_between_flushes + 20);
    EXPECT_EQ(stats().written, 100'000U);
}

TEST_F(DriverCallsTest, CloseDestroysEveryObject) {
    CUstream stream = open_with_stream();
    const std::int64_t streams = fake.live_count("streams");
    train(stream, 200);
    on_another_thread([&] { train(stream, 10); });
    (void)closed_rows();
    EXPECT_EQ(fake.live_count("events"), 0);
    EXPECT_EQ(fake.live_count("streams"), streams);
    EXPECT_EQ(fake.call_count("cuCtxPushCurrent"), fake.call_count("cuCtxPopCurrent"));
}

TEST_F(DriverCallsTest, PollerDoesNotSpinOnAStreamThatIsBusy) {
    CUstream stream = open_plugged(default_options());
    span("held", stream);
    // A query every millisecond would make 300. The pauses grow, and anchors add some queries.
    EXPECT_LT(queries_within(300 * ms), 200U);
    unplug();
}

TEST_F(DriverCallsTest, PollerDoesNotHurryAfterAFlushThatTimedOut) {
    CUstream stream = open_with_stream();
    write_span("warm", stream);
    plug(stream);
    span("held", stream);
    EXPECT_EQ(cep_flush(profiler, 100), CEP_ETIMEDOUT);
    EXPECT_LT(queries_within(500 * ms), 200U);
    unplug();
}

TEST_F(DriverCallsTest, TrainersThreadDoesNotAllocateInSteadyState) {
    if (!allocations_can_be_counted()) GTEST_SKIP() << "the allocator is the sanitizer's";
    open();
    EXPECT_GT(allocations_of_this_thread(), 0U) << "opening allocates: the count does not count";
    CUstream stream = new_stream();
    cep_region* const outer = region("outer");
    cep_region* const first = region("first");
    cep_region* const second = region("second");
    const auto train_one = [&](int step) {
        (void)cep_step(profiler, step);
        const cep_span whole = cep_begin(outer, stream);
        const cep_span phase = cep_switch(cep_begin(first, stream), second, stream);
        cep_end(second, phase, stream);
        cep_end(outer, whole, stream);
    };
    const auto train_many = [&] {
        for (int round = 0; round < 20; ++round) {
            for (int step = 0; step < 20; ++step) train_one(step);
            ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK);
        }
    };
    train_many();
    const unsigned long before = allocations_of_this_thread();
    train_many();
    EXPECT_EQ(allocations_of_this_thread(), before);
}

}  // namespace
}  // namespace cep::test
