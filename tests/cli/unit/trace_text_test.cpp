// SPDX-License-Identifier: Apache-2.0
#include "kernels/trace_text.hpp"

#include <gtest/gtest.h>

#include "kernels/event.hpp"
#include "kernels/trace_reader.hpp"
#include "text_source.hpp"

namespace cep::kernels {
namespace {

/// A text with the bytes behind it that the scanners may read.
struct Padded {
    std::string text;
    std::size_t size;
    explicit Padded(std::string content) : text(std::move(content)), size(text.size()) {
        text.append(text_padding_bytes, '\0');
    }
    [[nodiscard]] const char* begin() const { return text.data(); }
    [[nodiscard]] const char* end() const { return text.data() + size; }
};

std::ptrdiff_t nested_size(const Padded& text) {
    const ValueEnd found = find_nested_end(text.begin(), text.end());
    return found.why == ValueEnd::Why::whole ? found.at - text.begin() : -1;
}

TEST(TraceText, NestedValuesEndAtTheirOwnBracketWhereverBlocksBegin) {
    for (std::size_t padding = 0; padding < 140; ++padding) {
        const std::string object = R"({"a":")" + std::string(padding, 'x') + R"(\\\"}]","b":[{},{"c":"\\"}]})";
        EXPECT_EQ(nested_size(Padded(object + ",{}")), static_cast<std::ptrdiff_t>(object.size())) << padding;
        EXPECT_EQ(nested_size(Padded(object.substr(0, object.size() - 1))), -1) << padding;
    }
}

TEST(TraceText, ALineEndInsideAStringIsBroken) {
    const Padded text("{\"a\": \"b\"c\",\n \"d\": \"e\"}");
    EXPECT_EQ(find_nested_end(text.begin(), text.end()).why, ValueEnd::Why::broken);
}

Event event_of(const Padded& text) {
    ondemand::parser parser;
    return parse_event(parser, {text.begin(), text.size});
}

TEST(TraceEvent, WhatIsNotLookedAtIsNotValidated) {
    const Padded text(R"({ "ph" : "X" , "cat":"kernel","name":"a\"b" ,"pid":7,"x":NaN,"y":"\q","ts":1.5,"dur":2,)"
                      R"("args":{"z":Infinity,"device":3}})");
    const Event event = event_of(text);
    const auto* const gpu = std::get_if<GpuEvent>(&event);
    ASSERT_NE(gpu, nullptr);
    EXPECT_EQ(gpu->name, R"(a\"b)");
    EXPECT_EQ(gpu->device, 3);
    EXPECT_EQ(gpu->start_ns, 1500);
    EXPECT_EQ(gpu->duration_ns, 2000);
}

TEST(TraceEvent, WhatIsNotJsonIsBad) {
    for (const char* event : {"{a:1}", "{\"a\"}", "{\"a\" 1}", "{1:2}", "1"})
        EXPECT_TRUE(std::holds_alternative<BadEvent>(event_of(Padded(event)))) << event;
}

TEST(TraceText, EscapesAreResolved) {
    ondemand::parser parser;
    EXPECT_EQ(resolve_escapes(parser, R"(a\"b\\c\/\n\u00b5\ud83d\ude00)"), "a\"b\\c/\n\u00b5\U0001f600");
    for (const char* broken : {"\\ud83d x", "x \\u12", "end\\"})
        EXPECT_EQ(resolve_escapes(parser, broken), broken) << "stays as it is written";
}

TEST(TraceText, TheWindowGivesTheSameValuesWhateverItsBlocks) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += R"({"n":"some \"name\"","v":[1,2,{"x":"}"}]} , )";
    for (const std::size_t block_bytes : {64U, 65U, 100U, 4096U}) {
        tool::TextSource source(text, 37);
        TraceWindow window(source, {}, block_bytes);
        int values = 0;
        for (std::string_view value; window.peek() == '{'; ++values) {
            ASSERT_EQ(window.take_value(value).why, ValueEnd::Why::whole);
            EXPECT_EQ(value, R"({"n":"some \"name\"","v":[1,2,{"x":"}"}]})");
            ASSERT_EQ(window.peek(), ',');
            ++window.at;
        }
        EXPECT_EQ(values, 200) << block_bytes;
        EXPECT_EQ(window.offset_bytes(), text.size());
    }
}

TEST(TraceEvent, TimesKeepTheirNanoseconds) {
    EXPECT_EQ(parse_us_as_ns("4384145463006.696"), 4384145463006696);
    EXPECT_EQ(parse_us_as_ns("4384145463006.6965"), 4384145463006697);
    EXPECT_EQ(parse_us_as_ns("108.9995"), 109000);
    EXPECT_EQ(parse_us_as_ns("12"), 12000);
    EXPECT_EQ(parse_us_as_ns("0.5"), 500);
    EXPECT_EQ(parse_us_as_ns("-1.25"), -1250);
    EXPECT_EQ(parse_us_as_ns("1.5e3"), 1500000);
    EXPECT_EQ(parse_us_as_ns("\"7.5\""), 7500);
}

TEST(TraceEvent, WhatIsNoTimeIsNone) {
    for (const char* text : {"", "-", "NaN", "Infinity", "1e300", "99999999999999999999", "9999999999999999", "1.2.3",
                             "1x", "null", "\"\"", "{}"})
        EXPECT_FALSE(parse_us_as_ns(text)) << text;
}

TEST(TraceInputs, TheRankIsBehindTheWordRank) {
    EXPECT_EQ(rank_of_trace_name("a/rank3_trace.json.gz"), 3);
    EXPECT_EQ(rank_of_trace_name("trace_rank_012.json"), 12);
    EXPECT_EQ(rank_of_trace_name("run/rank-7/trace.json"), 7);
    EXPECT_EQ(rank_of_trace_name("host_123.1763700000.pt.trace.json"), std::nullopt);
    EXPECT_EQ(rank_of_trace_name("frank3.json"), std::nullopt);
    EXPECT_EQ(rank_of_trace_name("rank99999999999999999999.json"), std::nullopt);
}

}  // namespace
}  // namespace cep::kernels
