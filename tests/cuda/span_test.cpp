// SPDX-License-Identifier: Apache-2.0
//
// The rows of spans on CUDA streams. Runs on the fake driver and on a real GPU.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <set>
#include <vector>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

/// A duration is exact to this plus the cost of an event.
constexpr std::int64_t tolerance_ns = 1000;

/// How far the starts of two spans may be off from each other. The clock may have been measured anew between them.
std::int64_t start_tolerance_ns(const Rows& written) {
    return tolerance_ns + 2 * written.last("run").integer("/clock_error_ns");
}

/// Time that an event pair measures in addition to the work between: lowest and highest of several.
struct EventCost {
    std::int64_t low_ns = INT64_MAX;
    std::int64_t high_ns = INT64_MIN;
};

class SpanTest : public ProfilerTest {
  protected:
    void prepare() override {
        stopwatch.emplace(driver());
        open();
    }

    /// The test's own event pairs round the same kind of work as in the spans.
    EventCost measure_event_cost(CUstream stream, std::uint64_t duration_ns) {
        constexpr int pairs = 20;
        std::array<CUevent, pairs> begins{};
        std::array<CUevent, pairs> ends{};
        std::array<std::size_t, pairs> spins{};
        plug(stream);
        for (std::size_t i = 0; i < pairs; ++i) {
            begins[i] = record(stream);
            spins[i] = stopwatch->spin(stream, duration_ns);
            ends[i] = record(stream);
        }
        unplug();
        synchronize(stream);
        EventCost cost;
        for (std::size_t i = 0; i < pairs; ++i) {
            const auto measured_ns = static_cast<std::int64_t>(static_cast<double>(elapsed(begins[i], ends[i])) * 1e6);
            cost.low_ns = std::min(cost.low_ns, measured_ns - stopwatch->length_ns(spins[i]));
            cost.high_ns = std::max(cost.high_ns, measured_ns - stopwatch->length_ns(spins[i]));
        }
        return cost;
    }

    /// Spans of two streams, one round `first` and one round `second`, submitted so close that they overlap.
    void overlap_on(const std::vector<CUstream>& streams) {
        for (CUstream stream : streams) plug(stream);
        for (std::size_t i = 0; i < streams.size(); ++i)
            span("overlap" + std::to_string(i), streams[i], [&] { stopwatch->spin(streams[i], 20 * ms); });
        unplug();
    }

    std::optional<Stopwatch> stopwatch;
};

class SpanLengthTest : public SpanTest, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(SpanLengthTest, DurationIsThatOfTheWorkBetween) {
    constexpr std::size_t spans = 20;
    CUstream stream = new_stream();
    const EventCost cost = measure_event_cost(stream, GetParam());
    std::vector<std::size_t> spins;
    plug(stream);
    for (std::size_t i = 0; i < spans; ++i)
        span("work", stream, [&] { spins.push_back(stopwatch->spin(stream, GetParam())); });
    unplug();
    const std::vector<Row> rows = flushed_rows().spans("work");
    ASSERT_EQ(rows.size(), spans);
    std::vector<std::int64_t> beyond_ns;
    for (std::size_t i = 0; i < spans; ++i) {
        beyond_ns.push_back(rows[i].duration_ns() - stopwatch->length_ns(spins[i]));
        EXPECT_GE(beyond_ns[i], cost.low_ns - tolerance_ns);
        EXPECT_LE(beyond_ns[i], cost.high_ns + tolerance_ns);
        EXPECT_EQ(rows[i].clock(), "gpu");
    }
    std::sort(beyond_ns.begin(), beyond_ns.end());
    std::printf("spin %7.0f us: span minus spin, ns: min %ld median %ld max %ld; bare event pair: %ld to %ld\n",
                static_cast<double>(GetParam()) * 1e-3, beyond_ns.front(), beyond_ns[spans / 2], beyond_ns.back(),
                cost.low_ns, cost.high_ns);
}

INSTANTIATE_TEST_SUITE_P(Nanoseconds, SpanLengthTest, testing::Values(20 * us, 200 * us, 2 * ms, 20 * ms));

TEST_F(SpanTest, RowNamesDeviceAndStreamInTheOrderOfFirstUse) {
    CUstream first = new_stream();
    CUstream second = new_stream();
    for (int step = 0; step < 2; ++step) {
        (void)cep_step(profiler, step);
        span("first", first);
        span("second", second);
        span("default", nullptr);
    }
    const Rows written = flushed_rows();
    for (int step = 0; step < 2; ++step) {
        const auto at = static_cast<std::size_t>(step);
        EXPECT_EQ(written.spans("first").at(at).integer("/stream"), 1);
        EXPECT_EQ(written.spans("second").at(at).integer("/stream"), 2);
        EXPECT_EQ(written.spans("default").at(at).integer("/stream"), 0);
        EXPECT_EQ(written.spans("first").at(at).integer("/device"), 0);
        EXPECT_EQ(written.spans("first").at(at).integer("/step"), step);
    }
}

TEST_F(SpanTest, SpansOfOneStreamStartInTheOrderInWhichTheyRan) {
    CUstream stream = new_stream();
    plug(stream);
    for (int i = 0; i < 50; ++i) span("phase", stream, [&] { stopwatch->spin(stream, 100 * us); });
    unplug();
    const Rows written = flushed_rows();
    const std::vector<Row> rows = written.spans("phase");
    ASSERT_EQ(rows.size(), 50U);
    for (std::size_t i = 1; i < rows.size(); ++i)
        EXPECT_GE(rows[i].start_ns(), rows[i - 1].end_ns() - start_tolerance_ns(written));
}

TEST_F(SpanTest, FourStreamsThatRunAtOnceAllOverlap) {
    overlap_on({new_stream(), new_stream(), new_stream(), new_stream()});
    const Rows written = flushed_rows();
    std::int64_t latest_start_ns = INT64_MIN;
    std::int64_t earliest_end_ns = INT64_MAX;
    std::set<std::int64_t> streams;
    for (int i = 0; i < 4; ++i) {
        const Row row = written.span("overlap" + std::to_string(i));
        latest_start_ns = std::max(latest_start_ns, row.start_ns());
        earliest_end_ns = std::min(earliest_end_ns, row.end_ns());
        streams.insert(row.integer("/stream"));
        EXPECT_GE(row.duration_ns(), static_cast<std::int64_t>(20 * ms) - tolerance_ns);
    }
    EXPECT_LT(latest_start_ns, earliest_end_ns);
    EXPECT_EQ(streams.size(), 4U);
}

TEST_F(SpanTest, EachDeviceHasItsOwnNumberAndItsOwnStreams) {
    int devices = 0;
    ASSERT_EQ(driver().device_get_count(&devices), result::success);
    if (devices < 2) GTEST_SKIP() << "one device";
    span("zero", new_stream());
    CUcontext second = nullptr;
    ASSERT_EQ(driver().primary_ctx_retain(&second, 1), result::success);
    ASSERT_EQ(driver().ctx_set_current(second), result::success);
    {
        Stopwatch other(driver());
        CUstream stream = new_stream_of_test();
        span("one", stream, [&] { other.spin(stream, 2 * ms); });
        const Rows written = flushed_rows();
        EXPECT_EQ(written.span("zero").integer("/device"), 0);
        EXPECT_EQ(written.span("one").integer("/device"), 1);
        EXPECT_EQ(written.span("zero").integer("/stream"), 1);
        EXPECT_EQ(written.span("one").integer("/stream"), 1);
        EXPECT_GE(written.span("one").duration_ns(), static_cast<std::int64_t>(2 * ms) - tolerance_ns);
        EXPECT_GE(written.span("one").start_ns(), written.span("zero").start_ns());
        (void)cep_close(profiler, patience_ms);
        (void)driver().stream_destroy(stream);
    }
    (void)driver().ctx_set_current(context);
    (void)driver().primary_ctx_release(1);
}

TEST_F(SpanTest, LagIsTheWaitBehindEarlierWork) {
    CUstream stream = new_stream();
    write_span("warm", stream);
    const std::int64_t before_ns = host_ns();
    const std::size_t spin = stopwatch->spin(stream, 50 * ms);
    const cep_span begun = cep_begin(region("late"), stream);
    const std::int64_t begun_ns = host_ns();
    cep_end(region("late"), begun, stream);
    const Row row = flushed_rows().span("late");
    // The work started after before_ns and occupied the stream for its length. The host began before begun_ns.
    EXPECT_GE(row.ns("/lag_ms"), stopwatch->length_ns(spin) - (begun_ns - before_ns) - tolerance_ns);
}

TEST_F(SpanTest, LagOnAnIdleDeviceIsAtMostTheTimeOfTheCall) {
    CUstream stream = new_stream();
    write_span("warm", stream);
    synchronize(stream);
    const std::int64_t before_ns = host_ns();
    const cep_span begun = cep_begin(region("prompt"), stream);
    synchronize(stream);
    const std::int64_t done_ns = host_ns();
    cep_end(region("prompt"), begun, stream);
    const Rows written = flushed_rows();
    const Row row = written.span("prompt");
    const std::int64_t error_ns = written.last("run").integer("/clock_error_ns");
    EXPECT_GE(row.ns("/lag_ms"), 0);
    EXPECT_LE(row.ns("/lag_ms"), done_ns - before_ns + error_ns);
}

TEST_F(SpanTest, HostTimeIsFromBeginToEndOnTheHost) {
    CUstream stream = new_stream();
    plug(stream);
    const std::int64_t outer_ns = host_ns();
    const cep_span begun = cep_begin(region("long"), stream);
    const std::int64_t inner_ns = host_ns();
    stopwatch->spin(stream, 30 * ms);
    const std::int64_t ending_ns = host_ns();
    cep_end(region("long"), begun, stream);
    const std::int64_t ended_ns = host_ns();
    unplug();
    const Row row = flushed_rows().span("long");
    EXPECT_GE(row.ns("/host_ms"), ending_ns - inner_ns);
    EXPECT_LE(row.ns("/host_ms"), ended_ns - outer_ns);
    EXPECT_GE(row.duration_ns(), static_cast<std::int64_t>(30 * ms) - tolerance_ns);
}

TEST_F(SpanTest, SpanMayEndOnAnotherStream) {
    CUstream first = new_stream();
    CUstream second = new_stream();
    CUevent before = record(first);
    const cep_span begun = cep_begin(region("across"), first);
    synchronize(first);
    const std::size_t spin = stopwatch->spin(second, 3 * ms);
    cep_end(region("across"), begun, second);
    CUevent after = record(second);
    wait_for(after);
    const Row row = flushed_rows().span("across");
    EXPECT_EQ(row.clock(), "gpu");
    EXPECT_EQ(row.integer("/stream"), 1);
    EXPECT_GE(row.duration_ns(), stopwatch->length_ns(spin));
    EXPECT_LE(row.duration_ns(), static_cast<std::int64_t>(static_cast<double>(elapsed(before, after)) * 1e6));
}

TEST_F(SpanTest, SpanMayEndOnAnotherThread) {
    CUstream stream = new_stream();
    cep_region* const phase = region("handed");
    plug(stream);
    const cep_span begun = cep_begin(phase, stream);
    const std::size_t spin = stopwatch->spin(stream, 2 * ms);
    on_another_thread([&] { cep_end(phase, begun, stream); });
    unplug();
    const Row row = flushed_rows().span("handed");
    EXPECT_EQ(row.clock(), "gpu");
    EXPECT_GE(row.duration_ns(), stopwatch->length_ns(spin) - tolerance_ns);
    EXPECT_EQ(row.integer("/depth"), 0);
}

TEST_F(SpanTest, NestedSpansAreWithinTheirParents) {
    CUstream stream = new_stream();
    plug(stream);
    span("outer", stream, [&] {
        stopwatch->spin(stream, ms);
        span("inner", stream, [&] { stopwatch->spin(stream, ms); });
        stopwatch->spin(stream, ms);
    });
    unplug();
    const Rows written = flushed_rows();
    const Row outer = written.span("outer");
    const Row inner = written.span("inner");
    EXPECT_EQ(outer.integer("/depth"), 0);
    EXPECT_EQ(inner.integer("/depth"), 1);
    const std::int64_t apart_ns = static_cast<std::int64_t>(ms) - start_tolerance_ns(written);
    EXPECT_GE(inner.start_ns(), outer.start_ns() + apart_ns);
    EXPECT_LE(inner.end_ns(), outer.end_ns() - apart_ns);
}

TEST_F(SpanTest, SwitchedPhasesLeaveNoGap) {
    CUstream stream = new_stream();
    plug(stream);
    cep_span phase = CEP_SPAN_NONE;
    std::vector<std::string> names = {"load", "forward", "backward", "reduce", "update"};
    for (const std::string& name : names) {
        phase = cep_switch(phase, region(name), stream);
        stopwatch->spin(stream, ms);
    }
    cep_end(region(names.back()), phase, stream);
    unplug();
    const Rows written = flushed_rows();
    for (std::size_t i = 1; i < names.size(); ++i) {
        const std::int64_t end_ns = written.span(names[i - 1]).end_ns();
        EXPECT_NEAR(static_cast<double>(written.span(names[i]).start_ns()), static_cast<double>(end_ns), 500.0);
    }
}

TEST_F(SpanTest, DefaultStreamsOfAllKindsAreTimed) {
    const auto handle = [](std::uintptr_t value) { return reinterpret_cast<CUstream>(value); };
    CUstream legacy = handle(stream_handles::legacy);
    CUstream per_thread = handle(stream_handles::per_thread);
    span("null", nullptr, [&] { stopwatch->spin(nullptr, ms); });
    span("legacy", legacy, [&] { stopwatch->spin(legacy, ms); });
    span("per_thread", per_thread, [&] { stopwatch->spin(per_thread, ms); });
    on_another_thread([&] { span("other_thread", per_thread, [&] { stopwatch->spin(per_thread, ms); }); });
    const Rows written = flushed_rows();
    for (const char* name : {"null", "legacy", "per_thread", "other_thread"}) {
        EXPECT_EQ(written.span(name).clock(), "gpu");
        EXPECT_GE(written.span(name).duration_ns(), static_cast<std::int64_t>(ms) - tolerance_ns) << name;
    }
    EXPECT_EQ(written.span("null").integer("/stream"), 0);
    EXPECT_EQ(written.span("legacy").integer("/stream"), 0);
    EXPECT_NE(written.span("per_thread").integer("/stream"), 0);
    EXPECT_NE(written.span("per_thread").integer("/stream"), written.span("other_thread").integer("/stream"));
}

TEST_F(SpanTest, AttributesOfSpansOnTheDeviceAreWritten) {
    CUstream stream = new_stream();
    cep_region* const phase = region("all_reduce");
    cep_attrs attrs{};
    attrs.struct_size = sizeof attrs;
    attrs.bytes = 4096;
    attrs.group = "dp";
    attrs.coll = 17;
    attrs.meta = R"({"bucket":3})";
    const cep_span begun = cep_begin_with(phase, stream, &attrs);
    cep_attrs later{};
    later.struct_size = sizeof later;
    later.flops = 1e12;
    later.coll = -1;
    EXPECT_EQ(cep_end_with(phase, begun, stream, &later), CEP_OK);
    const Row row = flushed_rows().span("all_reduce");
    EXPECT_EQ(row.string("/kind"), "comm");
    EXPECT_EQ(row.clock(), "gpu");
    EXPECT_EQ(row.integer("/bytes"), 4096);
    EXPECT_EQ(row.number("/flops"), 1e12);
    EXPECT_EQ(row.string("/group"), "dp");
    EXPECT_EQ(row.integer("/coll"), 17);
    EXPECT_EQ(row.integer("/meta/bucket"), 3);
}

TEST_F(SpanTest, RunRowNamesTheDeviceAndItsDriver) {
    span("phase", new_stream());
    const Row run = flushed_rows().last("run");
    char name[256] = "";
    int version = 0;
    ASSERT_EQ(driver().device_get_name(name, sizeof name, 0), result::success);
    ASSERT_EQ(driver().driver_get_version(&version), result::success);
    EXPECT_EQ(run.string("/backend"), "cuda");
    EXPECT_EQ(run.string("/device_name"), name);
    EXPECT_EQ(run.integer("/driver_version"), version);
    EXPECT_EQ(run.string("/device_uuid").size(), std::string_view("GPU-00000000-0000-0000-0000-000000000000").size());
}

TEST_F(SpanTest, EndedOnTheHostClockIsTimedOnTheHostClock) {
    CUstream stream = new_stream();
    const cep_span on_stream = cep_begin(region("to_host"), stream);
    cep_end(region("to_host"), on_stream, CEP_HOST);
    const cep_span on_host = cep_begin(region("from_host"), CEP_HOST);
    cep_end(region("from_host"), on_host, stream);
    const Rows written = flushed_rows();
    EXPECT_EQ(written.span("to_host").clock(), "host");
    EXPECT_EQ(written.span("from_host").clock(), "host");
}

TEST_F(SpanTest, EventsAndStreamsMayBeUsedWithoutACurrentContext) {
    // The poller relies on this, because it has no context.
    CUstream stream = new_stream_of_test();
    CUevent begin = nullptr;
    CUevent end = nullptr;
    ASSERT_EQ(driver().event_create(&begin, event_flags::normal), result::success);
    ASSERT_EQ(driver().event_create(&end, event_flags::normal), result::success);
    ASSERT_EQ(driver().event_record(begin, stream), result::success);
    ASSERT_EQ(driver().event_record(end, stream), result::success);
    synchronize(stream);
    std::thread([&] {
        float milliseconds = 0;
        EXPECT_EQ(driver().event_query(end), result::success);
        EXPECT_EQ(driver().event_elapsed_time(&milliseconds, begin, end), result::success);
        EXPECT_EQ(driver().event_destroy(begin), result::success);
        EXPECT_EQ(driver().event_destroy(end), result::success);
        EXPECT_EQ(driver().stream_destroy(stream), result::success);
    }).join();
}

}  // namespace
}  // namespace cep::test
