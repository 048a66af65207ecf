// SPDX-License-Identifier: Apache-2.0
//
// The option max_overhead_percent on CUDA events. Runs on the fake driver and on a real GPU.
#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class OverheadBoundTest : public ProfilerTest {
  protected:
    static constexpr int batch_steps = 4000;

    /// Steps of one span each, with a flush after them, in which the writer looks at the cost.
    void run_batch() {
        for (int i = 0; i < batch_steps; ++i, ++step) {
            ASSERT_EQ(cep_step(profiler, step), CEP_OK);
            recorded += cep_recording(profiler);
            span("forward", stream);
            if (i % 100 == 0) synchronize(stream);  // else the GPU's queue fills up
        }
        ASSERT_EQ(cep_flush(profiler, patience_ms), CEP_OK) << cep_last_error();
    }

    /// Calls so far; 0 on a real driver, which does not count them.
    [[nodiscard]] std::uint64_t event_records() const {
        return driver().is_fake() ? fake.call_count("cuEventRecord") : 0;
    }

    CUstream stream = nullptr;
    std::int64_t step = 0;
    std::int64_t recorded = 0;
};

TEST_F(OverheadBoundTest, StepsThatAreLeftOutMakeNoEvents) {
    cep_options options = default_options();
    options.max_overhead_percent = 0.01;
    options.ring_capacity = 1 << 14;
    open(options);
    stream = new_stream();
    while (recorded == step) ASSERT_NO_FATAL_FAILURE(run_batch());  // until the stride is lengthened
    const std::uint64_t records_before = event_records();
    recorded = 0;
    ASSERT_NO_FATAL_FAILURE(run_batch());
    EXPECT_LT(recorded, batch_steps / 8);
    // The poller records a few events of its own, for the GPU's clock.
    EXPECT_LT(event_records() - records_before, static_cast<std::uint64_t>(2 * recorded + batch_steps / 4));
    const Rows written = closed_rows();
    EXPECT_EQ(written.spans("forward").size(), stats().recorded);
}

}  // namespace
}  // namespace cep::test
