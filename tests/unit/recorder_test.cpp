// SPDX-License-Identifier: Apache-2.0
#include "record/recorder.hpp"

#include <gtest/gtest.h>

namespace {

using namespace cep;

/// A recorder on the host clock, whose rings nobody empties but the test, and the wakeups that the writer would get.
class RecorderTest : public testing::Test {
  protected:
    explicit RecorderTest(std::size_t ring_capacity = 128)
        : recorder_(config_with(ring_capacity), 1, wakeup_, nullptr) {
        // No thread has been started, so each notification tries to start it.
        wakeup_.set_start([](void* count) noexcept { ++*static_cast<int*>(count); }, &wakeups_);
    }

    void record(ThreadRecorder& thread, std::size_t spans) {
        for (std::size_t i = 0; i < spans; ++i) {
            const cep_span span = thread.begin(region_, context_, CEP_HOST, nullptr);
            ASSERT_NE(span, CEP_SPAN_NONE);
            thread.end(thread, cep::SpanId{span}, CEP_HOST, nullptr);
        }
    }
    [[nodiscard]] static std::size_t take_all(ThreadRecorder& thread) {
        cep::Measurement measurement;
        std::size_t taken = 0;
        while (thread.take(measurement)) ++taken;
        return taken;
    }
    [[nodiscard]] Totals totals() const {
        Totals totals;
        recorder_.add_counts(totals);
        return totals;
    }

    cep::Wakeup wakeup_;
    int wakeups_ = 0;
    Recorder recorder_;
    cep_region region_{"forward", cep::schema::Kind::compute, nullptr, nullptr};
    cep::StepContext context_{1, std::uint64_t{1} << 32 | 3};  // the first step, recorded

  private:
    [[nodiscard]] static cep::Config config_with(std::size_t ring_capacity) {
        cep::Config config;
        config.ring_capacity = ring_capacity;
        return config;
    }
};

TEST_F(RecorderTest, WakesTheWriterWhenARingBecomesHalfFull) {
    ThreadRecorder& thread = *recorder_.attach();
    record(thread, 63);
    EXPECT_EQ(wakeups_, 0);
    record(thread, 1);
    EXPECT_EQ(wakeups_, 1);
}

TEST_F(RecorderTest, WakesNobodyForARingThatIsEmptiedInTime) {
    ThreadRecorder& thread = *recorder_.attach();
    for (int round = 0; round < 10; ++round) {
        record(thread, 60);
        EXPECT_EQ(take_all(thread), 60U);
    }
    EXPECT_EQ(wakeups_, 0);
}

class SmallestRings : public RecorderTest {
  protected:
    SmallestRings() : RecorderTest(16) {}
};

TEST_F(SmallestRings, AreNoLargerForThreadsPastTheSixteenth) {
    for (std::size_t i = 0; i <= Recorder::full_rings; ++i) record(*recorder_.attach(), 20);
    EXPECT_EQ(totals().dropped_ring, (Recorder::full_rings + 1) * 4);
}

}  // namespace
