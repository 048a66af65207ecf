// SPDX-License-Identifier: Apache-2.0
//
// The option capture_range: cuProfilerStart and cuProfilerStop round a window of steps.
#include <string>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

struct Calls {
    std::uint64_t start = 0;
    std::uint64_t stop = 0;

    bool operator==(const Calls&) const = default;
};

class CaptureRangeTest : public FakeProfilerTest {
  protected:
    void open_with(const char* range, std::int64_t record_every_n_steps = 1) {
        cep_options options = default_options();
        options.world_size = 8;
        options.record_every_n_steps = record_every_n_steps;
        options.capture_range = range;
        ASSERT_EQ(cep_open(&options, &profiler), CEP_OK) << cep_last_error();
    }
    void step(std::int64_t number) const { ASSERT_EQ(cep_step(profiler, number), CEP_OK); }
    void steps(std::int64_t first, std::int64_t last) const {
        for (std::int64_t number = first; number <= last; ++number) step(number);
    }
    [[nodiscard]] Calls calls() const {
        return {fake.call_count("cuProfilerStart"), fake.call_count("cuProfilerStop")};
    }
};

TEST_F(CaptureRangeTest, StartsAtItsFirstStepAndStopsBehindItsLast) {
    open_with("3-5");
    steps(0, 2);
    EXPECT_EQ(calls(), (Calls{0, 0}));
    step(3);
    EXPECT_EQ(calls(), (Calls{1, 0}));
    steps(4, 5);
    EXPECT_EQ(calls(), (Calls{1, 0}));
    step(6);
    EXPECT_EQ(calls(), (Calls{1, 1}));
}

TEST_F(CaptureRangeTest, StepsThatAreNotRecordedCount) {
    open_with("3-3", 10);
    steps(0, 9);
    EXPECT_EQ(calls(), (Calls{1, 1}));
}

TEST_F(CaptureRangeTest, StepsThatGoBackCaptureNothingAgain) {
    open_with("3-5");
    steps(0, 8);
    steps(2, 8);
    EXPECT_EQ(calls(), (Calls{1, 1}));
}

TEST_F(CaptureRangeTest, OnlyTheRanksThatItNamesCapture) {
    open_with("3-5@1,4-7");
    steps(0, 8);
    EXPECT_EQ(calls(), (Calls{0, 0}));
}

TEST_F(CaptureRangeTest, RankThatItNamesCaptures) {
    open_with("3-5@0,4-7");
    steps(0, 8);
    EXPECT_EQ(calls(), (Calls{1, 1}));
}

TEST_F(CaptureRangeTest, CloseStopsWhatIsUnderWay) {
    open_with("3-5");
    steps(0, 4);
    ASSERT_EQ(cep_close(profiler, patience_ms), CEP_OK);
    EXPECT_EQ(calls(), (Calls{1, 1}));
}

TEST_F(CaptureRangeTest, WaitsWhileSpansMeetACapture) {
    open_with("3-5");
    steps(0, 2);
    CUstream stream = new_stream();
    begin_capture(stream, capture_mode::global);
    span("inside", stream);
    step(3);
    EXPECT_EQ(calls(), (Calls{0, 0}));
    end_capture(stream);
    step(4);
    EXPECT_EQ(calls(), (Calls{1, 0}));
}

TEST_F(CaptureRangeTest, InvalidatesNoCaptureOfAnotherThread) {
    open_with("3-5");
    CUstream stream = new_stream();
    begin_capture(stream, capture_mode::global);
    on_another_thread([&] { steps(0, 8); });
    end_capture(stream);
    EXPECT_EQ(calls(), (Calls{1, 1}));
}

TEST_F(CaptureRangeTest, RunRowHasIt) {
    open_with("3-5");
    steps(0, 1);
    span("forward", new_stream());
    (void)closed_rows();
    std::FILE* const file = std::fopen(path().c_str(), "r");
    ASSERT_NE(file, nullptr);
    std::string line(65536, '\0');
    line.resize(std::fread(line.data(), 1, line.size(), file));
    (void)std::fclose(file);
    EXPECT_NE(line.find("\"capture_range\":[3,5]"), std::string::npos) << line;
}

TEST_F(CaptureRangeTest, NoneMakesNoCall) {
    open_with(nullptr);
    steps(0, 8);
    EXPECT_EQ(calls(), (Calls{0, 0}));
}

}  // namespace
}  // namespace cep::test
