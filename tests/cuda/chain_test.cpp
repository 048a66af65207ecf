// SPDX-License-Identifier: Apache-2.0
//
// Chains of phases on streams and on the host's clock. Runs on the fake driver and on a real GPU.
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

/// A training loop whose optimizer runs on a stream and is followed by data loading on the host.
class ChainOntoTheHostTest : public ProfilerTest {
  protected:
    void prepare() override {
        stopwatch.emplace(driver());
        stream = new_stream();
    }

    void open_with_stride(std::int64_t stride) {
        open(with(&cep_options::record_every_n_steps, stride));
        data = region("data");
        optimizer = region("optimizer");
    }

    /// Begins the optimizer's phase with `begin`, and the phase of the next data with `next`.
    void train(std::int64_t step, const std::function<void()>& next, const std::function<void()>& begin) {
        ASSERT_EQ(cep_step(profiler, step), CEP_OK);
        next();
        if (cep_recording(profiler) == 0) return;
        begin();
        spins.push_back(stopwatch->spin(stream, work_ns));
    }

    /// Every optimizer lasts as long as its work on the GPU's clock, and each data phase has the host's clock.
    void expect_true_durations(std::size_t steps) {
        const Rows written = closed_rows();
        const std::vector<Row> rows = written.spans("optimizer");
        ASSERT_EQ(rows.size(), steps);
        for (std::size_t i = 0; i < steps; ++i) {
            EXPECT_EQ(rows[i].clock(), "gpu") << rows[i].text;
            EXPECT_GE(rows[i].duration_ns(), stopwatch->length_ns(spins[i])) << rows[i].text;
            EXPECT_EQ(rows[i].integer("/stream"), 1);
        }
        for (const Row& row : written.spans("data")) EXPECT_EQ(row.clock(), "host");
        EXPECT_EQ(stats().abandoned + stats().dropped_pool + stats().open_spans, 0U);
        expect_all_accounted_for();
    }

    static constexpr std::uint64_t work_ns = 3 * ms;
    std::optional<Stopwatch> stopwatch;
    std::vector<std::size_t> spins;
    CUstream stream = nullptr;
    cep_region* data = nullptr;
    cep_region* optimizer = nullptr;
};

/// By cep_phase() or cep_switch(); and with a stride of 2, so that a step that is not recorded ends the optimizer's
/// phase.
class EveryChainTest : public ChainOntoTheHostTest,
                       public testing::WithParamInterface<std::tuple<bool, std::int64_t>> {};

TEST_P(EveryChainTest, PhaseOnAStreamLastsToTheEndOfItsWork) {
    const auto [switches, stride] = GetParam();
    open_with_stride(stride);
    cep_span span = CEP_SPAN_NONE;
    const auto go_on = [&, by_switch = switches](cep_region* to, void* on) {
        if (by_switch)
            span = cep_switch(span, to, on);
        else
            (void)cep_phase(profiler, to, on);
    };
    for (std::int64_t step = 0; step < 5 * stride; ++step)
        ASSERT_NO_FATAL_FAILURE(train(
            step, [&] { go_on(data, CEP_HOST); }, [&] { go_on(optimizer, stream); }));
    if (stride == 1) switches ? cep_end(optimizer, span, stream) : go_on(nullptr, CEP_HOST);
    expect_true_durations(5);
}

INSTANTIATE_TEST_SUITE_P(CallAndStride, EveryChainTest, testing::Combine(testing::Bool(), testing::Values(1, 2)));

TEST_F(ChainOntoTheHostTest, AnotherThreadsSwitchLastsToTheEndOfTheWork) {
    open_with_stride(1);
    for (int step = 0; step < 5; ++step) {
        ASSERT_EQ(cep_step(profiler, step), CEP_OK);
        const cep_span span = cep_begin(optimizer, stream);
        spins.push_back(stopwatch->spin(stream, work_ns));
        on_another_thread([&] { cep_end(data, cep_switch(span, data, CEP_HOST), CEP_HOST); });
    }
    expect_true_durations(5);
}

TEST_F(ChainOntoTheHostTest, PhaseWhoseStreamIsBeingCapturedIsSkippedAndTheNextOneTimed) {
    open_with_stride(1);
    (void)cep_phase(profiler, optimizer, stream);
    begin_capture(stream, capture_mode::thread_local_);
    (void)cep_phase(profiler, data, CEP_HOST);
    end_capture(stream);
    (void)cep_phase(profiler, nullptr, CEP_HOST);
    const Rows written = closed_rows();
    EXPECT_EQ(written.spans("data").size(), 1U);
    EXPECT_EQ(written.spans("optimizer").size(), 0U);
    EXPECT_EQ(stats().capture_skipped, 1U);
}

class StreamNumberTest : public FakeProfilerTest {};

TEST_F(StreamNumberTest, FailedRecordLeavesNoStreamsNumberToAnother) {
    CUstream stream = open_with_stream();
    span("on_the_stream", stream);
    ASSERT_EQ(fake.inject("cuEventRecord:fail=1@1"), 0);
    span("failed", stream);
    fake.clear_faults();
    span("on_the_default_stream", nullptr);
    const Rows written = closed_rows();
    EXPECT_EQ(written.span("on_the_stream").integer("/stream"), 1);
    EXPECT_EQ(written.span("on_the_default_stream").integer("/stream"), 0);
}

}  // namespace
}  // namespace cep::test
