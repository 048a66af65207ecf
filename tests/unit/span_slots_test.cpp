// SPDX-License-Identifier: Apache-2.0
#include "span_slots.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

namespace {

using cep::SpanSlots;
using cep::SpanStack;

struct Begun {
    std::uint16_t index;
    std::uint32_t generation;
};

Begun begin(SpanSlots& slots) {
    const int index = slots.claim();
    EXPECT_GE(index, 0);
    return {static_cast<std::uint16_t>(index), slots.publish(static_cast<std::size_t>(index))};
}

void end(SpanSlots& slots, Begun span) {
    ASSERT_TRUE(SpanSlots::take(slots.at(span.index), span.generation));
    slots.release(span.index);
}

TEST(SpanSlots, GivesOutEachSlotOnceUntilItsLimit) {
    SpanSlots slots;
    std::set<int> claimed;
    for (std::size_t i = 0; i < SpanSlots::max_slots; ++i) claimed.insert(slots.claim());
    EXPECT_EQ(claimed.size(), SpanSlots::max_slots);
    EXPECT_EQ(slots.claim(), -1);
    slots.release(77);
    EXPECT_EQ(slots.claim(), 77);
}

TEST(SpanSlots, LetsASpanBeTakenOnce) {
    SpanSlots slots;
    const Begun span = begin(slots);
    EXPECT_TRUE(SpanSlots::is_open(slots.at(span.index), span.generation));
    EXPECT_TRUE(SpanSlots::take(slots.at(span.index), span.generation));
    EXPECT_FALSE(SpanSlots::take(slots.at(span.index), span.generation));
    EXPECT_FALSE(SpanSlots::is_open(slots.at(span.index), span.generation));
}

TEST(SpanSlots, TellsASpanFromAnEarlierOneInItsSlot) {
    SpanSlots slots;
    const Begun first = begin(slots);
    end(slots, first);
    const Begun second = begin(slots);
    ASSERT_EQ(second.index, first.index);
    EXPECT_FALSE(SpanSlots::take(slots.at(first.index), first.generation));
    EXPECT_TRUE(SpanSlots::take(slots.at(second.index), second.generation));
}

TEST(SpanSlots, FindsNoSlotThatWasNeverMade) {
    SpanSlots slots;
    EXPECT_EQ(slots.find(0), nullptr);
    begin(slots);
    EXPECT_NE(slots.find(0), nullptr);
    EXPECT_EQ(slots.find(SpanSlots::max_slots), nullptr);
    EXPECT_EQ(slots.find(64), nullptr);
}

TEST(SpanSlots, ShowsTheOpenOnes) {
    SpanSlots slots;
    const Begun a = begin(slots);
    begin(slots);
    end(slots, a);
    int open = 0;
    slots.visit_open([&](const cep::OpenSpan&) { ++open; });
    EXPECT_EQ(open, 1);
}

TEST(SpanStack, CountsTheSpansOpenOnTheThread) {
    SpanSlots slots;
    auto stack = std::make_unique<SpanStack>();
    const Begun outer = begin(slots);
    stack->push(slots, {outer.index, outer.generation});
    const Begun inner = begin(slots);
    stack->push(slots, {inner.index, inner.generation});
    EXPECT_EQ(stack->depth(slots), 2);
    end(slots, inner);  // elsewhere: the stack is not told
    EXPECT_EQ(stack->depth(slots), 1);
    end(slots, outer);
    EXPECT_EQ(stack->depth(slots), 0);
}

TEST(SpanStack, RemovesFromTheMiddle) {
    SpanSlots slots;
    auto stack = std::make_unique<SpanStack>();
    std::vector<Begun> spans;
    for (int i = 0; i < 3; ++i) {
        spans.push_back(begin(slots));
        stack->push(slots, {spans.back().index, spans.back().generation});
    }
    end(slots, spans[1]);
    stack->remove(spans[1].index, spans[1].generation);
    EXPECT_EQ(stack->depth(slots), 2);
    EXPECT_EQ(stack->innermost(slots, nullptr)->slot, spans[2].index);
}

TEST(SpanStack, OutlivesChainsOfSpansThatEndElsewhereUnderAnOpenOne) {
    SpanSlots slots;
    auto stack = std::make_unique<SpanStack>();
    Begun previous = begin(slots);
    stack->push(slots, {previous.index, previous.generation});
    for (std::size_t i = 0; i < 10 * SpanSlots::max_slots; ++i) {
        const Begun next = begin(slots);
        stack->push(slots, {next.index, next.generation});
        end(slots, previous);
        previous = next;
        ASSERT_EQ(stack->innermost(slots, nullptr)->slot, next.index);
    }
}

}  // namespace
