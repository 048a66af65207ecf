// SPDX-License-Identifier: Apache-2.0
//
// The fake's simulated GPU. A gate blocks a stream until everything is queued, so that only the simulation determines
// the times between operations.
#include <cstdlib>

#include "driver_fixture.hpp"

namespace fake_cuda {
namespace {

constexpr float tick_ms = 32e-6F;

class TimelineTest : public FakeTest {
  protected:
    /// Opens the gates and waits for an event.
    void run_until(CUevent event) const {
        fake.open_gates();
        ASSERT_EQ(driver().event_synchronize(event), result::success);
    }

    [[nodiscard]] std::uint64_t gpu_ns(CUevent event) const { return times(event).second; }
    [[nodiscard]] std::int64_t host_ns(CUevent event) const { return times(event).first; }

  private:
    [[nodiscard]] std::pair<std::int64_t, std::uint64_t> times(CUevent event) const {
        std::pair<std::int64_t, std::uint64_t> result;
        EXPECT_EQ(fake.event_times_ns(event, &result.first, &result.second), 0);
        return result;
    }
};

TEST_F(TimelineTest, StreamRunsInOrder) {
    CUstream stream = new_stream();
    ASSERT_EQ(fake.enqueue_gate(stream), result::success);
    CUevent start = record(stream);
    ASSERT_EQ(work.spin(stream, 3 * ms), result::success);
    CUevent middle = record(stream);
    ASSERT_EQ(work.spin(stream, 2 * ms), result::success);
    CUevent end = record(stream);
    EXPECT_EQ(driver().event_query(start), result::not_ready);
    run_until(end);
    EXPECT_NEAR(elapsed(start, middle), 3.0F, tick_ms);
    EXPECT_NEAR(elapsed(middle, end), 2.0F, tick_ms);
}

TEST_F(TimelineTest, StreamsOverlap) {
    CUstream gate = new_stream(), first = new_stream(), second = new_stream();
    ASSERT_EQ(fake.enqueue_gate(gate), result::success);
    CUevent start = record(gate);
    CUevent ends[2];
    for (int i = 0; CUstream stream : {first, second}) {
        ASSERT_EQ(driver().stream_wait_event(stream, start, 0), result::success);
        ASSERT_EQ(work.spin(stream, 4 * ms), result::success);
        ends[i++] = record(stream);
    }
    run_until(ends[0]);
    run_until(ends[1]);
    EXPECT_NEAR(elapsed(start, ends[0]), 4.0F, tick_ms);
    EXPECT_EQ(elapsed(ends[0], ends[1]), 0.0F);
}

TEST_F(TimelineTest, LegacyAndBlockingStreamsWaitForEachOther) {
    CUstream blocking = new_stream(stream_flags::normal);
    ASSERT_EQ(fake.enqueue_gate(blocking), result::success);
    CUevent start = record(blocking);
    ASSERT_EQ(work.spin(blocking, 1 * ms), result::success);
    ASSERT_EQ(work.spin(nullptr, 2 * ms), result::success);
    ASSERT_EQ(work.spin(reinterpret_cast<CUstream>(stream_handles::per_thread), 3 * ms), result::success);
    CUevent end = record(nullptr);
    run_until(end);
    EXPECT_NEAR(elapsed(start, end), 6.0F, tick_ms);
}

TEST_F(TimelineTest, SlowStreamRunsItsKernelsLonger) {
    ASSERT_EQ(fake.inject("slow=3@2"), 0);
    for (const float expected_ms : {2.0F, 6.0F, 2.0F}) {
        CUstream stream = new_stream();
        ASSERT_EQ(fake.enqueue_gate(stream), result::success);
        CUevent start = record(stream);
        ASSERT_EQ(work.spin(stream, 2 * ms), result::success);
        CUevent end = record(stream);
        run_until(end);
        EXPECT_NEAR(elapsed(start, end), expected_ms, 2 * tick_ms);
    }
}

TEST_F(TimelineTest, KernelsLastInTheDriftingClockOfTheGpu) {
    constexpr double drift_ppm = 100'000;
    fake.set_clock(0, drift_ppm);
    CUstream stream = new_stream();
    ASSERT_EQ(fake.enqueue_gate(stream), result::success);
    CUevent start = record(stream);
    ASSERT_EQ(work.spin(stream, 11 * ms), result::success);
    CUevent end = record(stream);
    run_until(end);
    EXPECT_NEAR(elapsed(start, end), 11.0F, 2 * tick_ms);
    EXPECT_NEAR(static_cast<double>(host_ns(end) - host_ns(start)), 10e6, 2);
}

TEST_F(TimelineTest, ElapsedTimeIsExactInTicksFarFromZero) {
    for (const std::int64_t offset_ns : {std::int64_t{0}, INT64_MAX / 2, INT64_MAX, INT64_MIN}) {
        fake.set_clock(offset_ns, 0);
        CUstream stream = new_stream();
        ASSERT_EQ(fake.enqueue_gate(stream), result::success);
        CUevent start = record(stream);
        ASSERT_EQ(work.spin(stream, 32 * 1000), result::success);
        CUevent end = record(stream);
        run_until(end);
        EXPECT_EQ(elapsed(start, end), 0.032F);
        EXPECT_EQ(gpu_ns(end) - static_cast<std::uint64_t>(host_ns(end)), static_cast<std::uint64_t>(offset_ns));
    }
}

TEST_F(TimelineTest, EventTimeIsBetweenTheHostTimesOfItsRecord) {
    CUstream stream = new_stream();
    timespec before{}, after{};
    clock_gettime(CLOCK_MONOTONIC, &before);
    CUevent event = record(stream);
    clock_gettime(CLOCK_MONOTONIC, &after);
    EXPECT_GE(host_ns(event), std::int64_t{before.tv_sec} * 1'000'000'000 + before.tv_nsec);
    EXPECT_LE(host_ns(event), std::int64_t{after.tv_sec} * 1'000'000'000 + after.tv_nsec);
}

TEST_F(TimelineTest, ClosedGateBlocksItsStreamOnly) {
    CUstream held = new_stream(), free = new_stream();
    ASSERT_EQ(fake.enqueue_gate(held), result::success);
    CUevent behind = record(held);
    CUevent concurrent = record(free);
    ASSERT_EQ(driver().event_synchronize(concurrent), result::success);
    EXPECT_EQ(driver().event_query(behind), result::not_ready);
    std::int64_t host = 0;
    std::uint64_t gpu = 0;
    EXPECT_EQ(fake.event_times_ns(behind, &host, &gpu), -1);
    run_until(behind);
}

TEST_F(TimelineTest, ThreadsShareTheDriver) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([this] {
            driver().ctx_set_current(context);
            CUstream stream = nullptr;
            driver().stream_create(&stream, stream_flags::non_blocking, 0);
            for (int round = 0; round < 200; ++round) {
                CUevent event = nullptr;
                driver().event_create(&event, 0);
                driver().event_record(event, round % 2 == 0 ? stream : nullptr);
                driver().event_query(event);
                driver().event_destroy(event);
            }
            driver().stream_synchronize(stream);
            driver().stream_destroy(stream);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fake.live_count("events"), 0);
    EXPECT_EQ(fake.live_count("streams"), 0);
    EXPECT_EQ(fake.misuse_count(), 0U);
}

TEST_F(TimelineTest, DriverIsNotInitializedUntilTheProgramCallsCuInit) {
    fake.reset();
    CUcontext current = nullptr;
    int version = 0;
    EXPECT_EQ(driver().ctx_get_current(&current), result::not_initialized);
    EXPECT_EQ(driver().driver_get_version(&version), result::success);
    EXPECT_EQ(driver().init(0), result::success);
    EXPECT_EQ(driver().ctx_get_current(&current), result::success);
    EXPECT_EQ(current, nullptr);
}

}  // namespace
}  // namespace fake_cuda
