// SPDX-License-Identifier: Apache-2.0
//
// More spans and more metadata than fit, while the GPU stands still.
#include <barrier>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "profiler_fixture.hpp"
#include "sanitized.hpp"

namespace cep::test {
namespace {

constexpr long budget_kib = 16 * 1024;

class ExhaustionTest : public FakeProfilerTest {
  protected:
    /// Resident memory now, or its maximum so far.
    [[nodiscard]] static long status_kib(const std::string& key) {
        std::ifstream status("/proc/self/status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with(key)) return std::stol(line.substr(key.size()));
        return 0;
    }

    /// Records spans on a stalled stream, with or without metadata, slowly enough for the library to take them over.
    void record_held_spans(CUstream stream, int count, const char* meta) const {
        cep_region* const phase = region("held");
        cep_attrs attrs = CEP_ATTRS_INIT;
        attrs.meta = meta;
        for (int i = 0; i < count; ++i) {
            cep_end(phase, cep_begin_with(phase, stream, &attrs), stream);
            if (i % 25 != 24) continue;
            (void)cep_flush(profiler, 0);
            std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
    }
};

TEST_F(ExhaustionTest, MetadataBehindAStalledGpuStaysWithinTheBudget) {
    if (CEP_TEST_SANITIZED != 0) GTEST_SKIP() << "the sanitizer uses additional memory";
    constexpr int count = 8000;
    const std::string meta = "{\"a\":\"" + std::string(16 * 1024 - 8, 'x') + "\"}";
    CUstream stream = open_plugged(default_options());
    // Memory of the driver, the events and the spans themselves does not count as metadata.
    record_held_spans(stream, count, nullptr);
    unplug();
    (void)flushed_rows();
    plug(stream);
    const long before_kib = status_kib("VmRSS:");
    record_held_spans(stream, count, meta.c_str());
    const long growth_kib = status_kib("VmHWM:") - before_kib;
    EXPECT_LE(growth_kib, budget_kib);
    const cep_stats held = stats();
    EXPECT_GT(held.dropped_meta, 0U);
    RecordProperty("growth_kib", std::to_string(growth_kib));
    expect_all_accounted_for();
    unplug();
    const Rows written = closed_rows();
    EXPECT_EQ(stats().abandoned, 0U);
    EXPECT_EQ(written.spans("held").size(), 2U * count - stats().dropped_ring - stats().dropped_pool);
}

TEST_F(ExhaustionTest, FullPoolIsCountedForEveryThreadAndEndsWithTheStall) {
    CUstream stream = open_plugged(with(&cep_options::pool_limit, 64));
    on_another_thread([&] { record_held_spans(stream, 100, nullptr); });
    record_held_spans(stream, 100, nullptr);
    const cep_stats held = stats();
    EXPECT_EQ(held.recorded, 200U);
    EXPECT_GE(held.dropped_pool, 200U - 32U);
    EXPECT_LE(fake.live_count("events"), 64 + 8);  // 64 and the events of anchors
    expect_all_accounted_for();
    unplug();
    EXPECT_EQ(flushed_rows().spans("held").size(), 200U - held.dropped_pool);
    for (int i = 0; i < 20; ++i) span("late", stream);
    EXPECT_EQ(flushed_rows().spans("late").size(), 20U);
    EXPECT_EQ(closed_rows().last("stats").integer("/dropped/pool"), static_cast<std::int64_t>(held.dropped_pool));
    EXPECT_EQ(fake.live_count("events"), 0);
}

TEST_F(ExhaustionTest, PoolHoldsExactlyItsLimit) {
    CUstream stream = open_with_stream(with(&cep_options::pool_limit, 50));
    cep_region* const phase = region("left_open");
    on_another_thread([&] {
        for (int i = 0; i < 30; ++i) (void)cep_begin(phase, stream);
    });
    EXPECT_EQ(stats().dropped_pool, 0U);
    for (int i = 0; i < 30; ++i) EXPECT_EQ(cep_begin(phase, stream) != CEP_SPAN_NONE, i < 20) << i;
    EXPECT_EQ(stats().dropped_pool, 10U);
}

/// A thread that keeps the events that it has used.
class IdleThread {
  public:
    explicit IdleThread(const std::function<void()>& first)
        : thread_([this, first] {
              first();
              turns_.arrive_and_wait();
              turns_.arrive_and_wait();
              if (then_) then_();
          }) {
        turns_.arrive_and_wait();
    }
    IdleThread(const IdleThread&) = delete;
    IdleThread& operator=(const IdleThread&) = delete;
    ~IdleThread() { work({}); }

    void work(const std::function<void()>& then) {
        if (!thread_.joinable()) return;
        then_ = then;
        turns_.arrive_and_wait();
        thread_.join();
    }

  private:
    std::barrier<> turns_{2};
    std::function<void()> then_;
    std::thread thread_;
};

TEST_F(ExhaustionTest, EventsThatOneThreadNoLongerUsesServeAnother) {
    CUstream stream = open_plugged(with(&cep_options::pool_limit, 256));
    const IdleThread idle([&] {
        driver().ctx_set_current(context);
        record_held_spans(stream, 128, nullptr);  // all 256 events
    });
    unplug();
    EXPECT_EQ(flushed_rows().spans("held").size(), 128U);
    plug(stream);
    for (int i = 0; i < 200; ++i) span("other_thread", stream);
    unplug();
    EXPECT_EQ(flushed_rows().spans("other_thread").size(), 128U);  // as many as may be in flight
    for (int i = 0; i < 100; ++i) span("later", stream);
    EXPECT_EQ(closed_rows().spans("later").size(), 100U);
    EXPECT_EQ(stats().dropped_pool, 72U);
}

TEST_F(ExhaustionTest, AThreadWhoseEventsServeAnotherGetsNoneBeyondTheLimit) {
    CUstream stream = open_plugged(with(&cep_options::pool_limit, 256));
    IdleThread idle([&] {
        driver().ctx_set_current(context);
        record_held_spans(stream, 128, nullptr);
    });
    unplug();
    EXPECT_EQ(flushed_rows().spans("held").size(), 128U);
    plug(stream);
    for (int i = 0; i < 100; ++i) span("other_thread", stream);
    idle.work([&] {
        for (int i = 0; i < 100; ++i) span("again", stream);
    });
    EXPECT_EQ(stats().dropped_pool, 100U - 28U);
    unplug();
    const Rows written = flushed_rows();
    EXPECT_EQ(written.spans("other_thread").size(), 100U);
    EXPECT_EQ(written.spans("again").size(), 28U);
    for (int i = 0; i < 100; ++i) span("later", stream);
    EXPECT_EQ(closed_rows().spans("later").size(), 100U);
    EXPECT_EQ(fake.live_count("events"), 0);
}

TEST_F(ExhaustionTest, OfThreadsAliveAtOnceThosePastTheSixteenthGetFewEvents) {
    constexpr int large_supplies = 16;
    constexpr int threads = 20;
    constexpr int events_of_a_small_supply = 256;
    constexpr int spans_each = 300;
    CUstream stream = open_with_stream();
    cep_region* const phase = region("left_open");
    std::barrier all_are_there(threads);
    std::vector<std::thread> running;
    running.reserve(threads);
    for (int i = 0; i < threads; ++i)
        running.emplace_back([&] {
            driver().ctx_set_current(context);
            all_are_there.arrive_and_wait();
            for (int span = 0; span < spans_each; ++span) (void)cep_begin(phase, stream);
            all_are_there.arrive_and_wait();
        });
    for (std::thread& thread : running) thread.join();
    EXPECT_EQ(stats().dropped_pool, (threads - large_supplies) * (spans_each - events_of_a_small_supply));
    expect_all_accounted_for();
    (void)closed_rows();
    EXPECT_EQ(fake.live_count("events"), 0);
}

TEST_F(ExhaustionTest, EveryLossOfFullPoolsAndFullRingsIsCounted) {
    cep_options options = default_options();
    options.pool_limit = 256;
    options.ring_capacity = 16;
    CUstream stream = open_with_stream(options);
    ASSERT_EQ(fake.inject("cuEventQuery:block"), 0);
    span("first", stream);
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 1; }));
    // A writer that keeps pace with a slow build empties the ring: again, until it was full.
    std::uint64_t recorded = 1;
    for (int round = 0; round < 100 && stats().dropped_ring == 0; ++round, recorded += 2000)
        for (int i = 0; i < 1000; ++i) {
            span("device", stream);
            span("host", CEP_HOST);
        }
    EXPECT_EQ(stats().recorded, recorded);
    EXPECT_GT(stats().dropped_ring, 0U);
    expect_all_accounted_for();
    fake.release();
    const Rows written = closed_rows();
    EXPECT_EQ(written.spans().size(), stats().written);
    EXPECT_EQ(stats().pending, 0U);
    expect_all_accounted_for();
    EXPECT_EQ(fake.live_count("events"), 0);
}

TEST_F(ExhaustionTest, SpansOnTheHostClockAreWrittenDespiteAStalledGpu) {
    CUstream stream = open_plugged(default_options());
    record_held_spans(stream, 100, nullptr);
    for (int i = 0; i < 100; ++i) span("host", CEP_HOST);
    EXPECT_EQ(cep_flush(profiler, 1000), CEP_ETIMEDOUT);
    EXPECT_EQ(rows().spans("host").size(), 100U);
    expect_all_accounted_for();
    unplug();
    EXPECT_EQ(closed_rows().spans("held").size(), 100U);
}

}  // namespace
}  // namespace cep::test
