// SPDX-License-Identifier: Apache-2.0
#include "record/span_slots.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace cep;

/// Open spans of one thread, with their own budget.
struct Thread {
    MetaBudget budget;
    SpanSlots slots{budget};
    SpanStack stack;
};

struct OpenSpans : testing::Test {
    MetaBudget budget;
    SpanSlots slots{budget};
};

struct Begun {
    std::uint16_t index;
    std::uint32_t generation;
};

std::size_t claim(SpanSlots& slots) {
    const int index = slots.claim();
    EXPECT_GE(index, 0);
    return static_cast<std::size_t>(std::max(index, 0));
}

Begun begin(SpanSlots& slots) {
    const std::size_t index = claim(slots);
    return {static_cast<std::uint16_t>(index), slots.publish(index)};
}

void end(SpanSlots& slots, Begun span) {
    ASSERT_TRUE(SpanSlots::take(slots.at(span.index), span.generation));
    slots.release(span.index);
}

TEST_F(OpenSpans, GivesOutEachSlotOnceUntilItsLimitAlsoThoseKept) {
    for (int round = 0; round < 3; ++round) {
        std::set<const SpanSlot*> places;
        for (std::size_t i = 0; i < SpanSlots::max_slots; ++i) places.insert(slots.find(claim(slots)));
        EXPECT_EQ(places.size(), SpanSlots::max_slots);
        EXPECT_EQ(places.count(nullptr), 0U);
        EXPECT_EQ(slots.claim(), -1);
        for (std::size_t i = 0; i < SpanSlots::max_slots; ++i) slots.keep(i);
    }
}

TEST_F(OpenSpans, TellASpanFromTheNextOneInItsSlot) {
    const Begun first = begin(slots);
    end(slots, first);
    const Begun second = begin(slots);
    ASSERT_EQ(second.index, first.index);
    EXPECT_FALSE(SpanSlots::take_unshared(slots.at(first.index), first.generation));
    EXPECT_TRUE(SpanSlots::is_open(slots.at(second.index), second.generation));
}

TEST_F(OpenSpans, FindsNoSlotThatWasNeverMade) {
    EXPECT_EQ(slots.find(0), nullptr);
    begin(slots);
    EXPECT_NE(slots.find(0), nullptr);
    EXPECT_EQ(slots.find(SpanSlots::max_slots), nullptr);
    EXPECT_EQ(slots.find(8), nullptr);
    EXPECT_EQ(slots.find(512), nullptr);
}

TEST_F(OpenSpans, ShowsAllThatAreLeftOpen) {
    for (std::size_t i = 0; i < SpanSlots::max_slots; ++i) begin(slots);
    std::size_t open = 0;
    slots.visit_left_open([&](SpanSlot&) { ++open; });
    EXPECT_EQ(open, SpanSlots::max_slots);
}

TEST_F(OpenSpans, GivesAKeptSlotOutFirst) {
    begin(slots);
    const Begun inner = begin(slots);
    ASSERT_TRUE(SpanSlots::take(slots.at(inner.index), inner.generation));
    slots.keep(inner.index);
    EXPECT_EQ(slots.claim(), inner.index);
}

std::string object_of(std::size_t bytes) {
    return "{\"text\":\"" + std::string(bytes - 11, 'x') + "\"}";
}

/// Claims a slot and gives it metadata of that size.
std::size_t claim_with_meta(SpanSlots& slots, std::size_t bytes, bool& has_meta) {
    const std::size_t index = claim(slots);
    const std::string meta = object_of(bytes);
    has_meta = slots.set_meta(slots.at(index), meta);
    EXPECT_EQ(slots.at(index).meta_text(), has_meta ? meta : "");
    return index;
}

TEST(SpanMeta, IsKeptWithinTheBudgetAndRefusedBeyondIt) {
    MetaBudget budget(40'000);
    SpanSlots slots(budget);
    bool has_meta = false;
    for (int i = 0; i < 2; ++i) {
        claim_with_meta(slots, 16'384, has_meta);
        EXPECT_TRUE(has_meta);
    }
    claim_with_meta(slots, 16'384, has_meta);
    EXPECT_FALSE(has_meta);
    claim_with_meta(slots, 500, has_meta);
    EXPECT_TRUE(has_meta);
}

TEST(SpanMeta, SharesTheBudgetAmongThreads) {
    MetaBudget budget(20'000);
    SpanSlots first(budget);
    SpanSlots second(budget);
    bool has_meta = false;
    const std::size_t index = claim_with_meta(first, 16'384, has_meta);
    claim_with_meta(second, 16'384, has_meta);
    EXPECT_FALSE(has_meta);
    first.keep(index);
    claim_with_meta(second, 16'384, has_meta);
    EXPECT_TRUE(has_meta);
}

TEST(SpanMeta, ThatIsLargeIsFreedWhenTheSpanHasEnded) {
    MetaBudget budget;
    SpanSlots slots(budget);
    bool has_meta = false;
    slots.keep(claim_with_meta(slots, 1025, has_meta));
    EXPECT_EQ(budget.left(), MetaBudget::default_bytes);
    slots.release(claim_with_meta(slots, 16'384, has_meta));
    EXPECT_EQ(budget.left(), MetaBudget::default_bytes);
}

TEST(SpanMeta, ThatIsSmallLeavesItsBufferForTheNextSpan) {
    MetaBudget budget;
    SpanSlots slots(budget);
    bool has_meta = false;
    const std::size_t first = claim_with_meta(slots, 100, has_meta);
    const char* const buffer = slots.at(first).meta.get();
    slots.keep(first);
    const std::size_t second = claim_with_meta(slots, 128, has_meta);
    EXPECT_EQ(second, first);
    EXPECT_EQ(slots.at(second).meta.get(), buffer);
}

TEST(SpanMeta, OfFreeSlotsLeavesHalfTheBudgetToOpenSpans) {
    MetaBudget budget(64 * 1024);
    SpanSlots slots(budget);
    std::vector<std::size_t> claimed;
    claimed.reserve(64);
    bool has_meta = false;
    for (int i = 0; i < 64; ++i) claimed.push_back(claim_with_meta(slots, 1024, has_meta));
    EXPECT_EQ(budget.left(), 0U);
    for (const std::size_t index : claimed) slots.release(index);
    EXPECT_GE(budget.left(), 32U * 1024);
}

TEST(SpanMeta, GivesTheBudgetBackWithTheSlots) {
    MetaBudget budget;
    {
        SpanSlots slots(budget);
        bool has_meta = false;
        for (int i = 0; i < 30; ++i) claim_with_meta(slots, 2000, has_meta);
    }
    EXPECT_EQ(budget.left(), MetaBudget::default_bytes);
}

TEST(SpanMeta, OfAnEarlierSpanIsNotTheNextOnes) {
    MetaBudget budget(100);
    SpanSlots slots(budget);
    bool has_meta = false;
    slots.keep(claim_with_meta(slots, 60, has_meta));
    EXPECT_TRUE(has_meta);
    claim_with_meta(slots, 2000, has_meta);
    EXPECT_FALSE(has_meta);
}

TEST(SpanSlots, TakeLittleMemoryForAThreadWithFewOpenSpans) {
    constexpr std::size_t first_block_bytes = 8 * sizeof(SpanSlot);
    constexpr std::size_t first_stack_bytes = 16 * sizeof(SpanStack::Entry);
    EXPECT_LE(sizeof(SpanSlots) + sizeof(SpanStack) + first_block_bytes + first_stack_bytes, 2048U);
}

TEST(SpanStack, CompactsSpansThatOtherThreadsEndBelowAnOpenOne) {
    Thread thread;
    SpanSlots& slots = thread.slots;
    SpanStack* const stack = &thread.stack;
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

TEST(SpanStack, HoldsAsManySpansAsCanBeOpen) {
    Thread thread;
    std::vector<Begun> spans;
    for (std::size_t i = 0; i < SpanSlots::max_slots; ++i) {
        spans.push_back(begin(thread.slots));
        thread.stack.push(thread.slots, {spans.back().index, spans.back().generation});
    }
    EXPECT_EQ(thread.stack.depth(thread.slots), SpanSlots::max_slots);
    for (; !spans.empty(); spans.pop_back()) {
        ASSERT_EQ(thread.stack.innermost(thread.slots, nullptr)->slot, spans.back().index);
        end(thread.slots, spans.back());
        thread.stack.remove({spans.back().index, spans.back().generation});
    }
    EXPECT_TRUE(thread.stack.empty());
}

}  // namespace
