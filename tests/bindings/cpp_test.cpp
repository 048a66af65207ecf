// SPDX-License-Identifier: Apache-2.0
//
// The rows that the calls of cep.hpp write.
#include <gtest/gtest.h>

#include <cep/cep.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

static_assert(!std::is_copy_constructible_v<cep::Profiler> && std::is_nothrow_move_constructible_v<cep::Profiler>);
static_assert(!std::is_copy_constructible_v<cep::Span> && std::is_nothrow_move_assignable_v<cep::Span>);
static_assert(std::is_trivially_copyable_v<cep::Region>);
static_assert(noexcept(cep::Region().begin()) && noexcept(cep::Profiler().step(0)));

class Rows : public testing::Test {
  protected:
    Rows() {
        std::string pattern = std::filesystem::temp_directory_path() / "cep-cpp-XXXXXX";
        if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error(pattern);
        directory_ = pattern;
    }
    ~Rows() override { std::filesystem::remove_all(directory_); }

    [[nodiscard]] cep::Options options() const {
        cep::Options options;
        options.directory(directory_).rank(0).world_size(1).record_every_n_steps(1).backend(cep::Backend::host);
        return options;
    }

    /// A profiler in step 0, which is recorded.
    [[nodiscard]] cep::Profiler profiler() const {
        cep::Profiler profiler(options());
        profiler.step(0);
        return profiler;
    }

    [[nodiscard]] std::vector<std::string> lines(cep::Profiler& profiler) const {
        EXPECT_TRUE(profiler.flush());
        std::ifstream file(directory_ + "/cuda_events_rank_0.jsonl");
        std::vector<std::string> lines;
        for (std::string line; std::getline(file, line);) lines.push_back(line);
        return lines;
    }

    /// The lines of spans, which have no "type".
    [[nodiscard]] std::vector<std::string> spans(cep::Profiler& profiler) const {
        std::vector<std::string> spans;
        for (const std::string& line : lines(profiler))
            if (line.find(R"("type":)") == std::string::npos) spans.push_back(line);
        return spans;
    }

    std::string directory_;
};

struct RowsOfStep0 : Rows {
    cep::Profiler profiler = Rows::profiler();
};

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST_F(RowsOfStep0, SpanEndsWithItsScope) {
    {
        const cep::Span span = profiler.region("forward").begin(CEP_HOST);
        EXPECT_TRUE(span.recorded());
        EXPECT_EQ(profiler.stats().open_spans, 1u);
    }
    EXPECT_EQ(profiler.stats().open_spans, 0u);
    EXPECT_EQ(spans(profiler).size(), 1u);
}

TEST_F(RowsOfStep0, SpanEndsOnce) {
    {
        cep::Span span = profiler.region("forward").begin(CEP_HOST);
        span.end();
        EXPECT_FALSE(span.recorded());
        EXPECT_EQ(span.end(cep::Attributes().bytes(-1)), CEP_OK);
    }
    EXPECT_EQ(spans(profiler).size(), 1u);
    EXPECT_EQ(profiler.stats().recorded, 1u);
}

TEST_F(RowsOfStep0, MovedSpanEndsOnceOnAnotherThread) {
    cep::Span span = profiler.region("forward").begin(CEP_HOST);
    std::thread([moved = std::move(span)]() mutable { moved.end(); }).join();
    EXPECT_EQ(spans(profiler).size(), 1u);
}

TEST_F(RowsOfStep0, SpanThatIsAssignedToEndsFirst) {
    cep::Span span = profiler.region("forward").begin(CEP_HOST);
    span = profiler.region("backward").begin(CEP_HOST);
    EXPECT_EQ(profiler.stats().open_spans, 1u);
    EXPECT_TRUE(contains(spans(profiler).at(0), R"("name":"forward")"));
}

TEST_F(RowsOfStep0, SwitchEndsOnePhaseAndBeginsTheNext) {
    cep::Span span = profiler.region("forward").begin(CEP_HOST);
    span.switch_to(profiler.region("backward"));
    span.end();
    const std::vector<std::string> rows = spans(profiler);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_TRUE(contains(rows[0], R"("name":"forward")") && contains(rows[1], R"("name":"backward")"));
}

TEST_F(RowsOfStep0, CurrentPhaseEndsWithTheNextOne) {
    EXPECT_EQ(profiler.phase(profiler.region("forward"), CEP_HOST), CEP_OK);
    EXPECT_EQ(profiler.phase(profiler.region("backward"), CEP_HOST), CEP_OK);
    profiler.end_phase(CEP_HOST);
    const std::vector<std::string> rows = spans(profiler);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_TRUE(contains(rows[0], R"("name":"forward")") && contains(rows[1], R"("name":"backward")"));
}

TEST_F(RowsOfStep0, ExceptionMarksTheRowOfTheSpanItLeaves) {
    const cep::Region forward = profiler.region("forward");
    try {
        const cep::Span span = forward.begin(CEP_HOST);
        throw std::runtime_error("as a failing phase does");
    } catch (const std::runtime_error&) {
        const cep::Span span = forward.begin(CEP_HOST);  // no error: the exception has been handled
    }
    const std::vector<std::string> rows = spans(profiler);
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_TRUE(contains(rows[0], R"("error":"exception")"));
    EXPECT_FALSE(contains(rows[1], "error"));
}

TEST_F(RowsOfStep0, SpanWithinADestructorOfAnUnwindingStackHasNoError) {
    struct Cleanup {
        cep::Region region;
        ~Cleanup() { const cep::Span span = region.begin(CEP_HOST); }
    };
    try {
        const Cleanup cleanup{profiler.region("cleanup")};
        throw std::runtime_error("elsewhere");
    } catch (const std::runtime_error&) {
    }
    EXPECT_FALSE(contains(spans(profiler).at(0), "error"));
}

TEST_F(RowsOfStep0, ExceptionMarksTheRowOfASpanThatAnUnwindingThreadBegan) {
    struct Handover {
        cep::Region region;
        ~Handover() {
            std::thread([span = region.begin(CEP_HOST)]() mutable {
                try {
                    const cep::Span taken = std::move(span);
                    throw std::runtime_error("on the thread that took the span");
                } catch (const std::runtime_error&) {
                }
            }).join();
        }
    };
    try {
        const Handover handover{profiler.region("handed over")};
        throw std::runtime_error("elsewhere");
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(contains(spans(profiler).at(0), R"("error":"exception")"));
}

TEST_F(RowsOfStep0, AttributesAreWritten) {
    const auto given = cep::Attributes().bytes(5).flops(2.5).collective("dp", 7).meta(R"({"op":"sum"})");
    cep::Span span = profiler.region("sync", cep::Kind::comm).begin(CEP_HOST, given);
    EXPECT_EQ(span.end(cep::Attributes().error("Timeout")), CEP_OK);
    const std::string row = spans(profiler).at(0);
    for (const char* part : {R"("kind":"comm")", R"("bytes":5)", R"("flops":2.5)", R"("group":"dp")", R"("coll":7)",
                             R"("error":"Timeout")", R"("meta":{"op":"sum"})"})
        EXPECT_TRUE(contains(row, part)) << part << " in " << row;
}

TEST_F(RowsOfStep0, SpanIsRecordedWithoutInvalidAttributes) {
    EXPECT_TRUE(profiler.region("sync").begin(CEP_HOST, cep::Attributes().bytes(-1)).recorded());
    EXPECT_FALSE(contains(spans(profiler).at(0), "bytes"));
}

TEST_F(RowsOfStep0, SpansTimedElsewhereCountersAndMarksAreRows) {
    EXPECT_EQ(profiler.region("forward").record(0, 1'500'000), CEP_OK);
    EXPECT_EQ(profiler.region("forward").record(0, 1, cep::Attributes().bytes(3)), CEP_OK);
    EXPECT_EQ(profiler.counter("loss", 0.25), CEP_OK);
    EXPECT_EQ(profiler.mark("restart"), CEP_OK);
    std::string text;
    for (const std::string& line : lines(profiler)) text += line;
    for (const char* part :
         {R"("duration_ms":1.5)", R"("bytes":3)", R"("value":0.25)", R"("type":"mark","name":"restart")"})
        EXPECT_TRUE(contains(text, part)) << part << " in " << text;
}

TEST_F(Rows, FactsAreInTheRunRow) {
    cep::Options options = this->options();
    options.run_id("demo").meta(R"({"dp":1})");
    cep::Profiler profiler(std::move(options));
    profiler.set_meta(R"({"model":"tiny"})");
    const std::string row = lines(profiler).at(1);  // the run row that cep_set_meta() repeats
    for (const char* part : {R"("run_id":"demo")", R"("dp":1)", R"("model":"tiny")"})
        EXPECT_TRUE(contains(row, part)) << part << " in " << row;
}

TEST_F(Rows, NothingIsRecordedOnAnUnrecordedStep) {
    cep::Options options = this->options();
    cep::Profiler profiler(options.record_every_n_steps(2));
    for (std::int64_t step = 0; step < 4; ++step) {
        profiler.step(step);
        EXPECT_EQ(profiler.recording(), step % 2 == 0);
        EXPECT_EQ(profiler.region("forward").begin(CEP_HOST).recorded(), step % 2 == 0);
    }
    EXPECT_EQ(spans(profiler).size(), 2u);
}

TEST_F(Rows, MovedProfilerIsClosedByItsNewOwnerOnly) {
    cep::Profiler first = profiler();
    cep::Profiler second = std::move(first);
    first = cep::Profiler();
    EXPECT_TRUE(second.recording());
    second = cep::Profiler();
    EXPECT_EQ(second.native(), nullptr);
}

TEST_F(Rows, RegionsAndSpansOutliveTheirProfiler) {
    cep::Region forward;
    cep::Span span;
    {
        cep::Profiler profiler = this->profiler();
        forward = profiler.region("forward");
        span = forward.begin(CEP_HOST);
    }
    span.end();
    EXPECT_FALSE(forward.begin(CEP_HOST).recorded());
}

TEST_F(Rows, AProfilerKnowsWhetherItIsOnAndItsRank) {
    cep::Profiler profiler(options().rank(2).world_size(3));
    EXPECT_TRUE(profiler.enabled());
    EXPECT_EQ(profiler.rank(), 2);
    EXPECT_TRUE(profiler.close());
    EXPECT_FALSE(profiler.enabled());
    EXPECT_EQ(profiler.rank(), 2);
}

TEST(OffProfiler, AcceptsEveryCall) {
    cep::Profiler profiler;
    EXPECT_EQ(profiler.step(0), CEP_OK);
    cep::Span span = profiler.region("forward").begin();
    span.switch_to(cep::Region());
    span.end();
    EXPECT_EQ(profiler.counter("loss", 1.0), CEP_OK);
    EXPECT_EQ(profiler.mark("restart"), CEP_OK);
    profiler.set_meta("{}");
    EXPECT_EQ(profiler.stats().recorded, 0u);
    EXPECT_FALSE(profiler.enabled());
    EXPECT_EQ(profiler.rank(), 0);
    EXPECT_TRUE(profiler.flush() && profiler.close());
}

/// The code and message of the exception that a call throws.
template <typename Call>
std::pair<std::int32_t, std::string> thrown(Call call) {
    try {
        call();
    } catch (const cep::Error& error) {
        return {error.code(), error.what()};
    }
    return {CEP_OK, ""};
}

TEST(Errors, NameTheOption) {
    const auto [code, message] = thrown([] { cep::Profiler(cep::Options().record_every_n_steps(0)); });
    EXPECT_EQ(code, CEP_EOPTION);
    EXPECT_TRUE(contains(message, "record_every_n_steps")) << message;
    const auto bound = thrown([] { cep::Profiler(cep::Options().max_overhead_percent(-0.5)); });
    EXPECT_TRUE(contains(bound.second, "max_overhead_percent: -0.5")) << bound.second;
}

TEST(Errors, AreThrownForBadNamesPathsAndJson) {
    cep::Profiler profiler(cep::Options().enable(false));
    EXPECT_EQ(thrown([&] { (void)profiler.region(""); }).first, CEP_EINVAL);
    EXPECT_EQ(thrown([] { cep::Profiler(cep::Options().directory("/dev/null/none")); }).first, CEP_EIO);
    EXPECT_EQ(thrown([] { cep::Options().load_json("{"); }).first, CEP_EJSON);
}

TEST(OptionsObject, KeepsItsStringsWhenItMoves) {
    cep::Options options;
    options.directory("/dev/null/a").ranks({0, 2});
    const cep::Options moved = std::move(options);
    EXPECT_STREQ(moved.native().directory, "/dev/null/a");
    EXPECT_EQ(moved.native().ranks[1], 2);
}

TEST(OptionsObject, LaterCallsOverrideAConfiguration) {
    cep::Options options;
    options.load_json(R"({"directory": "/a", "start_step": 7})").start_step(1);
    EXPECT_EQ(options.native().start_step, 1);
    EXPECT_STREQ(options.native().directory, "/a");
    EXPECT_EQ(options.native().enable, 0);
}

}  // namespace
