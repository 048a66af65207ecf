// SPDX-License-Identifier: Apache-2.0
#include "model/partial.hpp"
#include "read/partial_format.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/failure.hpp"

namespace cep::tool {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

std::string written(const PartialScope& scope, const InputCounts& inputs, const JobParts& parts) {
    const std::string path = testing::TempDir() + "/cep_partial_test";
    {
        Output output(path);
        write_partial(output, {scope, inputs, parts});
        output.close();
    }
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    std::remove(path.c_str());
    return text.str();
}

PartialSummary read(const std::string& text) {
    PartialReader reader;
    std::uint64_t number = 0;
    for (const std::string& line : lines_of(text)) reader.take(line, ++number);
    return reader.finish();
}

std::string why_refused(const std::string& text) {
    try {
        static_cast<void>(read(text));
    } catch (const ReadError& error) {
        return error.what();
    }
    return "";
}

PhaseSeries phase_of(const std::string& name, SampleList samples) {
    PhaseSeries phase;
    phase.name = name;
    phase.kind = schema::Kind::comm;
    phase.clock = Clock::mixed;
    phase.samples = std::move(samples);
    phase.may_repeat = true;
    return phase;
}

JobParts some_parts() {
    RunSeries series;
    series.has_run = true;
    series.run.rank = 7;
    series.run.run_id = "a \"quoted\" \x01 id";
    series.run.attempt = INT64_MAX;
    series.run.start_unix_ns = INT64_MIN;
    series.run.record_every_n_steps = 10;
    series.has_stats = true;
    series.stats.recorded = UINT64_MAX;
    series.stats.self_ms = 0.1;
    series.steps = {INT64_MIN, 0, INT64_MAX};  // of which the last two are left
    series.phases.push_back(phase_of("all_reduce", {{1.0 / 3, INT64_MAX, 0.1F, UINT32_MAX, 2, UINT32_MAX},
                                                    {0, Sample::no_start, std::nanf(""), 0, 1, 0},
                                                    {1e300, -1, -2.5F, 1, 1, 7}}));
    series.phases.back().fold();
    PhaseSeries folded =
        phase_of("öther", {{0, 0, 0, 0, 1, 1U << 28}, {2.5, 0, 0, 0, 1, 0}, {1e-3, 0, 0, 0, 1, 1U << 28}});
    folded.fold();
    series.phases.push_back(folded);
    JobParts parts;
    parts.choice = StepChoice(StepChoice::halvings_of(INT64_MAX));
    parts.ranks[7].push_back(series);
    parts.open_spans.push_back({"backward", 7, 5, 2, std::nullopt, 0.5, 12});
    parts.marks["checkpoint"] = {{0, 1, 2, 9}, {-5, 100}, 6};
    parts.coverage.seen = {0, 1, 7};
    parts.coverage.any_unlisted = true;
    parts.coverage.world_size = 16;
    return parts;
}

std::string some_text() {
    InputCounts inputs;
    inputs.files = 3;
    inputs.rows = 1ULL << 60;
    inputs.shown.push_back({"a\nb", 4, "not valid JSON"});
    inputs.unreadable.push_back("c: Permission denied");
    PartialScope scope;
    scope.filter.set_steps("5:");
    scope.filter.set_ranks("3,1-2,7");
    scope.filter.set_phases("b,a");
    scope.attempt = 4;
    return written(scope, inputs, some_parts());
}

TEST(Partial, WhatIsReadIsWrittenAsItWas) {
    const std::string text = some_text();
    const PartialSummary partial = read(text);
    EXPECT_EQ(written(partial.scope, partial.inputs, partial.parts), text);
}

TEST(Partial, NumbersKeepEveryBit) {
    const PartialSummary partial = read(some_text());
    const RunSeries& series = partial.parts.ranks.at(7).at(0);
    EXPECT_EQ(series.steps.all(), (std::vector<std::int64_t>{INT64_MIN, 0, INT64_MAX}));
    EXPECT_EQ(series.run.attempt, INT64_MAX);
    EXPECT_EQ(series.run.start_unix_ns, INT64_MIN);
    EXPECT_FALSE(series.run.pid.has_value());
    EXPECT_EQ(series.stats.recorded, UINT64_MAX);
    EXPECT_EQ(series.phases[0].samples[0].duration_ms, 1.0 / 3);
    EXPECT_EQ(series.phases[0].samples[0].place, UINT32_MAX);
    EXPECT_EQ(series.phases[0].samples[0].start_ns, INT64_MAX);
    EXPECT_EQ(series.phases[0].samples[0].collective, UINT32_MAX);
    EXPECT_EQ(series.phases[0].samples[0].lag_ms, 0.1F);
    EXPECT_FALSE(series.phases[0].samples[1].has_start());
    EXPECT_TRUE(std::isnan(series.phases[0].samples[1].lag_ms));
    EXPECT_EQ(series.phases[0].samples[2].duration_ms, 1e300);
    EXPECT_EQ(series.phases[1].in_histogram.count, 3U);
    EXPECT_EQ(series.phases[1].in_histogram.top_level_ms, 2.5);
    EXPECT_EQ(partial.inputs.rows, 1ULL << 60);
    EXPECT_EQ(partial.parts.open_spans[0].start_ns, std::nullopt);
}

TEST(Partial, ScopeIsTheSameInWhateverWordsItIsGiven) {
    PartialScope scope;
    scope.filter.set_steps("5:");
    scope.filter.set_ranks("7,1-3");
    scope.filter.set_phases("a,b,a");
    scope.attempt = 4;
    EXPECT_EQ(read(some_text()).scope, scope);
    EXPECT_EQ(scope.describe(), "--steps 5: --ranks 1-3,7 --phases a,b --attempt 4");
    EXPECT_EQ(PartialScope{}.describe(), "no filter");
}

TEST(Partial, LongSeriesAreSpreadOverLines) {
    JobParts parts;
    RunSeries& series = parts.ranks[0].emplace_back();
    PhaseSeries& phase = series.phases.emplace_back(phase_of("f", {}));
    for (std::uint32_t i = 0; i < 100'000; ++i) {
        series.steps.push_back(i);
        phase.samples.push_back({0.25 * i, INT64_MIN + 1 + i, 0.1F * static_cast<float>(i), UINT32_MAX - i, i, i});
    }
    const std::string text = written({}, {}, parts);
    for (const std::string& line : lines_of(text)) EXPECT_LT(line.size(), 1U << 20);
    const PartialSummary partial = read(text);
    const RunSeries& again = partial.parts.ranks.at(0).at(0);
    EXPECT_EQ(again.steps, series.steps);
    ASSERT_EQ(again.phases[0].samples.size(), phase.samples.size());
    EXPECT_EQ(again.phases[0].samples.back().duration_ms, phase.samples.back().duration_ms);
}

TEST(Partial, IsKnownByItsFirstLine) {
    EXPECT_TRUE(begins_partial(lines_of(some_text())[0]));
    EXPECT_FALSE(begins_partial(R"({"type":"run","rank":0})"));
    EXPECT_FALSE(begins_partial(""));
}

// The line of a type, changed; the checksum would not fit either, but the first thing that is wrong is said.
std::string why_refused_with(const std::string& type, const std::string& from, const std::string& to) {
    std::string text = some_text();
    const std::size_t line = text.find("{\"type\":\"" + type + "\"");
    const std::size_t at = text.find(from, line);
    EXPECT_LT(at, text.find('\n', line)) << type << " has no " << from;
    return why_refused(text.replace(at, from.size(), to));
}

TEST(Partial, ValuesThatCannotBeAreRefused) {
    EXPECT_NE(why_refused_with("samples", "\"step_index\":[2", "\"step_index\":[3").find("a malformed sample"),
              std::string::npos);
    EXPECT_NE(why_refused_with("samples", "\"step_index\":[2,", "\"step_index\":[").find("different lengths"),
              std::string::npos);
    EXPECT_NE(why_refused_with("samples", "[0.3333333333333333", "[-1").find("a malformed sample"), std::string::npos);
    EXPECT_NE(why_refused_with("samples", "4294967295", "4294967296").find("too large"), std::string::npos);
    EXPECT_NE(why_refused_with("steps", "[-9", "[\"x\",-9").find("not such a number"), std::string::npos);
    EXPECT_NE(why_refused_with("marks", "[0,2]", "[2,0]").find("a malformed range"), std::string::npos);
    EXPECT_NE(why_refused_with("marks", "[0,2]", "[0,9223372036854775807]").find("too long"), std::string::npos);
    EXPECT_NE(why_refused_with("histogram", "0.005", "0.01").find("another precision"), std::string::npos);
    EXPECT_NE(why_refused_with("histogram", "\"first_bucket\":-", "\"first_bucket\":-99999999").find("histogram"),
              std::string::npos);
    EXPECT_NE(why_refused_with("inputs", "\"rows\":", "\"rows\":-").find("no rows"), std::string::npos);
    EXPECT_NE(why_refused_with("series", "\"rank\":7", "\"name\":7").find("no rank"), std::string::npos);
    EXPECT_NE(why_refused_with("partial", "\"5:\"", "\"9:1\"").find("--steps"), std::string::npos);
    EXPECT_NE(why_refused_with("coverage", "coverage", "weather").find("an unknown type"), std::string::npos);
}

TEST(Partial, EveryCutIsNoticed) {
    const std::vector<std::string> lines = lines_of(some_text());
    std::string text;
    for (const std::string& line : lines) {
        EXPECT_NE(why_refused(text), "");
        text += line + "\n";
    }
    EXPECT_EQ(why_refused(text), "");
    EXPECT_NE(why_refused(text + lines.back() + "\n").find("something behind the end"), std::string::npos);
}

TEST(Partial, LinesOutOfPlaceAreRefused) {
    const std::string head = lines_of(some_text())[0] + "\n";
    for (
        const char* line :
        {R"({"type":"phase","name":"f","kind":"","clock":"","may_repeat":false})", R"({"type":"steps","steps":[1]})",
         R"({"type":"samples","duration_ms":[],"start_ns":[],"lag_ms":[],"collective":[],"step_index":[],"place":[]})"})
        EXPECT_EQ(why_refused(head + line + "\n"), "line 2: out of place");
    EXPECT_EQ(why_refused("{\"type\":\"series\",\"rank\":0}\n"), "line 1: of another version");
}

}  // namespace
}  // namespace cep::tool
