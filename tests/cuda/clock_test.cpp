// SPDX-License-Identifier: Apache-2.0
//
// start_ns against the true time, within the error that the run row states.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "passing_time.hpp"
#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

/// How wrong the starts are, in the order of the file, and the bound that holds for each.
struct Deviation {
    std::int64_t ns;
    std::int64_t stated_ns;
};

/// Rows of a file with, for each span, what the run row before it states.
template <typename TrueStart>
std::vector<Deviation> deviations(const Rows& written, const TrueStart& true_start_ns) {
    std::vector<Deviation> found;
    std::int64_t stated_ns = 0;
    for (const Row& row : written.all()) {
        if (row.type() == "run") stated_ns = row.integer("/clock_error_ns");
        if (row.type() == "span") found.push_back({row.start_ns() - true_start_ns(found.size()), stated_ns});
    }
    return found;
}

void print(const char* title, std::vector<Deviation> found) {
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.ns < b.ns; });
    if (found.empty()) return;
    std::printf("%s: start_ns minus truth, ns: min %ld median %ld max %ld; stated error: %ld (last span: %ld)\n", title,
                found.front().ns, found[found.size() / 2].ns, found.back().ns, found.front().stated_ns,
                found.back().stated_ns);
}

struct Clock {
    std::int64_t offset_ns;
    double drift_ppm;
};

class FakeClockTest : public FakeProfilerTest, public testing::WithParamInterface<Clock> {
  protected:
    void prepare() override {
        fake.set_clock(GetParam().offset_ns, GetParam().drift_ppm);
        open();
    }

    /// A span on an idle stream, and an event of the test's own that completes at the same instant as its begin.
    CUevent span_with_known_start(CUstream stream) {
        plug(stream);
        CUevent known = nullptr;
        span("phase", stream, [&] { known = record(stream); });
        unplug();
        return known;
    }

    [[nodiscard]] std::int64_t true_unix_ns(CUevent event) const {
        std::int64_t monotonic_ns = 0;
        std::uint64_t gpu_ns = 0;
        EXPECT_EQ(fake.event_times_ns(event, &monotonic_ns, &gpu_ns), 0);
        return monotonic_ns + unix_offset_ns_;
    }

    const std::int64_t unix_offset_ns_ = unix_minus_host_ns();
};

TEST_P(FakeClockTest, StartIsTheTrueTimeWithinTheStatedError) {
    CUstream stream = new_stream();
    std::vector<CUevent> known;
    // 2.5 s: a drift of 50 ppm makes 125 us.
    while (known.size() < 1250) {
        known.push_back(span_with_known_start(stream));
        if (known.size() % 50 == 1) {
            ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK);
        }
        ASSERT_TRUE(pass_time(2 * ms));
    }
    const auto found = deviations(closed_rows(), [&](std::size_t i) { return true_unix_ns(known[i]); });
    ASSERT_EQ(found.size(), known.size());
    constexpr std::int64_t own_error_ns = 1000;  // of unix_minus_host_ns()
    for (const Deviation& deviation : found) {
        EXPECT_LE(std::llabs(deviation.ns), deviation.stated_ns + own_error_ns);
        EXPECT_GT(deviation.stated_ns, 0);
    }
    print("fake", found);
}

TEST_P(FakeClockTest, DurationsAreExact) {
    CUstream stream = new_stream();
    plug(stream);
    for (int i = 0; i < 10; ++i) span("work", stream, [&] { EXPECT_EQ(work.spin(stream, 3 * ms), result::success); });
    unplug();
    for (const Row& row : flushed_rows().spans("work"))
        EXPECT_NEAR(static_cast<double>(row.duration_ns()), 3.0 * ms, 100.0);
}

INSTANTIATE_TEST_SUITE_P(OffsetAndDrift, FakeClockTest,
                         testing::Values(Clock{0, 0}, Clock{7'777'777'777, 50}, Clock{-3'333'333'333, -50},
                                         Clock{std::int64_t{1} << 62, 50}, Clock{0, 300}, Clock{0, -500},
                                         Clock{0, 600}));

class ClockErrorTest : public FakeProfilerTest {};

TEST_F(ClockErrorTest, StatedErrorIsThatOfTheWorstDevice) {
    open();
    span("zero", new_stream());
    const std::int64_t small_ns = flushed_rows().last("run").integer("/clock_error_ns");
    CUcontext second = nullptr;
    ASSERT_EQ(driver().primary_ctx_retain(&second, 1), result::success);
    ASSERT_EQ(driver().ctx_set_current(second), result::success);
    // The poller sees its first anchor on that device late.
    ASSERT_EQ(fake.inject("cuEventQuery:fail=600"), 0);
    constexpr std::uint64_t own_records_of_a_span = 2;
    const std::uint64_t records_before = fake.call_count("cuEventRecord");
    span("one", new_stream());
    ASSERT_TRUE(eventually([&] { return fake.call_count("cuEventRecord") > records_before + own_records_of_a_span; }));
    const std::uint64_t queries = fake.call_count("cuEventQuery");
    ASSERT_TRUE(eventually([&] { return fake.call_count("cuEventQuery") > queries; }));
    constexpr std::int64_t late_ns = 5'000'000;
    skip_time(late_ns);
    fake.clear_faults();
    const Rows written = flushed_rows();
    EXPECT_EQ(written.span("one").clock(), "gpu");
    EXPECT_GE(written.last("run").integer("/clock_error_ns"), late_ns / 2);
    EXPECT_LT(small_ns, late_ns / 2);
    // Another anchor on the first device does not make the second one's error smaller.
    ASSERT_EQ(driver().ctx_set_current(context), result::success);
    CUstream stream = new_stream();
    const std::uint64_t records = fake.call_count("cuEventRecord");
    std::uint64_t own_records = 0;
    ASSERT_TRUE(eventually([&] {
        span("zero", stream);
        own_records += 2;
        (void)cep_flush(profiler, patience_ms);
        return fake.call_count("cuEventRecord") > records + own_records;
    }));
    ASSERT_EQ(cep_set_meta(profiler, R"({"note":"again"})"), CEP_OK);
    const std::int64_t stated_ns = flushed_rows().last("run").integer("/clock_error_ns");
    // On a busy machine the second device may have had another anchor, too, and a smaller error since.
    const bool only_the_first = fake.call_count("cuEventRecord") == records + own_records + 1;
    EXPECT_TRUE(!only_the_first || stated_ns >= late_ns / 2) << stated_ns;
}

/// On a real GPU the truth is the GPU's own nanosecond clock, tied to the host's by the test itself.
class RealClockTest : public ProfilerTest {
  protected:
    void SetUp() override {
        if (driver().is_fake()) GTEST_SKIP() << "the fake has no kernel that reads a clock";
        ProfilerTest::SetUp();
    }
    void prepare() override {
        stopwatch = std::make_unique<Stopwatch>(driver());
        open();
    }

    struct Tie {
        std::int64_t unix_minus_gpu_ns = 0;
        std::int64_t error_ns = INT64_MAX;
    };

    /// The kernel starts after it was launched and before it is seen to be done.
    Tie tie(CUstream stream) {
        const std::int64_t unix_offset_ns = unix_minus_host_ns();
        Tie best;
        for (int i = 0; i < 200; ++i) {
            const std::int64_t before_ns = host_ns();
            const std::size_t spin = stopwatch->spin(stream, 0);
            synchronize(stream);
            const std::int64_t after_ns = host_ns();
            if ((after_ns - before_ns) / 2 >= best.error_ns) continue;
            best.error_ns = (after_ns - before_ns) / 2;
            best.unix_minus_gpu_ns = (before_ns + after_ns) / 2 + unix_offset_ns - stopwatch->start_gpu_ns(spin);
        }
        return best;
    }

    std::unique_ptr<Stopwatch> stopwatch;
};

TEST_F(RealClockTest, StartIsTheTrueTimeWithinTheStatedError) {
    CUstream stream = new_stream();
    (void)tie(stream);  // warms up
    const Tie first = tie(stream);
    const std::int64_t began_ns = host_ns();
    std::vector<std::size_t> spins;
    while (host_ns() < began_ns + 8'000'000'000) {
        (void)stopwatch->spin(stream, 5 * ms);  // so that the event and the kernel behind it are queued
        span("phase", stream, [&] { spins.push_back(stopwatch->spin(stream, 10 * us)); });
        if (spins.size() % 50 == 0) (void)cep_flush(profiler, patience_ms);
        synchronize(stream);
    }
    const Tie last = tie(stream);
    const std::int64_t lasted_ns = host_ns() - began_ns;
    const auto change_ns = static_cast<double>(last.unix_minus_gpu_ns - first.unix_minus_gpu_ns);
    const std::int64_t first_start_ns = stopwatch->start_gpu_ns(spins.front());
    const auto truth = [&](std::size_t i) {
        const std::int64_t gpu_ns = stopwatch->start_gpu_ns(spins[i]);
        const double share = static_cast<double>(gpu_ns - first_start_ns) / static_cast<double>(lasted_ns);
        return gpu_ns + first.unix_minus_gpu_ns + static_cast<std::int64_t>(change_ns * share);
    };
    const auto found = deviations(closed_rows(), truth);
    ASSERT_EQ(found.size(), spins.size());
    // Between the event and the kernel behind it passes what an event costs.
    constexpr std::int64_t event_cost_ns = 5'000;
    const std::int64_t own_error_ns = std::max(first.error_ns, last.error_ns) + event_cost_ns;
    for (const Deviation& deviation : found) EXPECT_LE(std::llabs(deviation.ns), deviation.stated_ns + own_error_ns);
    print("GPU", found);
    std::printf("GPU clock drift over %.1f s: %.2f ppm; the test's own ties are within %ld and %ld ns\n",
                static_cast<double>(lasted_ns) * 1e-9, change_ns / static_cast<double>(lasted_ns) * 1e6, first.error_ns,
                last.error_ns);
}

}  // namespace
}  // namespace cep::test
