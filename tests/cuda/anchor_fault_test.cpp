// SPDX-License-Identifier: Apache-2.0
//
// Anchors that fail half-way: the starts of spans stay within the error that the run row states.
#include <string>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class AnchorFaultTest : public FakeProfilerTest {
  protected:
    /// A span whose true start the fake reports, and the error of its row.
    void expect_right_start(CUstream stream, const std::string& name) {
        const std::int64_t offset_ns = unix_minus_host_ns();
        const CUevent before = record(stream);
        span(name, stream, [&] { EXPECT_EQ(work.spin(stream, 200 * us), result::success); });
        const CUevent after = record(stream);
        wait_for(after);
        std::int64_t earliest_ns = 0;
        std::int64_t latest_ns = 0;
        std::uint64_t gpu_ns = 0;
        ASSERT_EQ(fake.event_times_ns(before, &earliest_ns, &gpu_ns), 0);
        ASSERT_EQ(fake.event_times_ns(after, &latest_ns, &gpu_ns), 0);
        const Rows written = flushed_rows();
        const Row row = written.span(name);
        const std::int64_t error_ns = written.last("run").integer("/clock_error_ns") + 100 * 1000;
        EXPECT_GE(row.start_ns(), earliest_ns + offset_ns - error_ns) << row.text;
        EXPECT_LE(row.end_ns(), latest_ns + offset_ns + error_ns) << row.text;
    }
};

// An anchor records its event twice: first to warm up, then to measure. If only the first record works, the event has
// lost its known time.
TEST_F(AnchorFaultTest, AnchorWhoseSecondRecordFailsIsNotUsed) {
    open();
    CUstream idle = new_stream();
    CUstream held = new_stream();
    write_span("warm", idle);
    // The first anchors are nearest to its submission. It starts when the gate opens.
    plug(held);
    span("long", held);
    // Make more anchors than the profiler keeps. The second record of the next one fails once the span can end.
    const std::uint64_t before = fake.call_count("cuEventRecord");
    ASSERT_TRUE(eventually([&] { return fake.call_count("cuEventRecord") >= before + std::uint64_t{2} * 8; }));
    ASSERT_EQ(fake.inject("cuEventRecord:block@2;cuEventRecord:fail=1@2"), 0);
    ASSERT_TRUE(eventually([&] { return fake.waiting_threads() == 1; }));
    const std::int64_t offset_ns = unix_minus_host_ns();
    const std::int64_t opened_from_ns = host_ns();
    unplug();
    const std::int64_t opened_by_ns = host_ns();
    fake.release();
    const Rows written = flushed_rows();
    fake.clear_faults();
    EXPECT_EQ(stats().cuda_errors, 1U);
    const std::int64_t error_ns = written.last("run").integer("/clock_error_ns") + static_cast<std::int64_t>(ms);
    const Row row = written.span("long");
    EXPECT_GE(row.start_ns(), opened_from_ns + offset_ns - error_ns) << row.text;
    EXPECT_LE(row.start_ns(), opened_by_ns + offset_ns + error_ns) << row.text;
    expect_right_start(idle, "later");
}

TEST_F(AnchorFaultTest, OccasionalAnchorFailuresDoNotSpoilStarts) {
    CUstream stream = open_with_stream();
    std::string rules;
    // While spans are recorded, every seventh record fails, of spans and of anchors.
    for (int call = 7; call < 700; call += 7)
        rules += (rules.empty() ? "" : ";") + std::string("cuEventRecord:fail=1@") + std::to_string(call);
    ASSERT_EQ(fake.inject(rules.c_str()), 0);
    for (int round = 0; round < 40; ++round) {
        for (int i = 0; i < 3; ++i) write_span("disturbed", stream);
    }
    fake.clear_faults();
    for (int i = 0; i < 5; ++i) expect_right_start(stream, "checked " + std::to_string(i));
}

}  // namespace
}  // namespace cep::test
