// SPDX-License-Identifier: Apache-2.0
//
// Open spans when memory has run out. This program replaces the operator new that does not throw.
#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "record/span_slots.hpp"

namespace {
thread_local bool no_memory = false;
}

void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return no_memory ? nullptr : ::operator new[](bytes);
}

void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return no_memory ? nullptr : ::operator new[](bytes, alignment);
}

namespace {

using namespace cep;

SpanStack::Entry begin(SpanSlots& slots) {
    const int index = slots.claim();
    EXPECT_GE(index, 0);
    return {static_cast<std::uint16_t>(index), slots.publish(static_cast<std::uint16_t>(index))};
}

TEST(NoMemory, OpensASpanThatIsNotOnTheStack) {
    MetaBudget budget;
    SpanSlots slots(budget);
    SpanStack stack;
    const SpanStack::Entry known = begin(slots);
    stack.push(slots, known);
    std::vector<SpanStack::Entry> spans;
    spans.reserve(100);
    for (int i = 0; i < 100; ++i) spans.push_back(begin(slots));
    no_memory = true;
    for (const SpanStack::Entry& span : spans) stack.push(slots, span);
    no_memory = false;
    EXPECT_GE(stack.depth(slots), 1);
    for (const SpanStack::Entry& span : spans) stack.remove(span);
    EXPECT_EQ(stack.depth(slots), 1);
    EXPECT_EQ(stack.innermost(slots, nullptr)->slot, known.slot);
    EXPECT_TRUE(SpanSlots::is_open(slots.at(spans.back().slot), spans.back().generation));
}

TEST(NoMemory, GivesNoSlotUntilMemoryIsAvailableAgain) {
    MetaBudget budget;
    SpanSlots slots(budget);
    no_memory = true;
    EXPECT_EQ(slots.claim(), -1);
    no_memory = false;
    EXPECT_EQ(slots.claim(), 0);
}

TEST(NoMemory, TakesNothingFromTheMetadatasBudget) {
    MetaBudget budget;
    SpanSlots slots(budget);
    const SpanStack::Entry span = begin(slots);
    no_memory = true;
    EXPECT_FALSE(slots.set_meta(slots.at(span.slot), "{}"));
    no_memory = false;
    EXPECT_EQ(budget.left(), MetaBudget::default_bytes);
    EXPECT_EQ(slots.at(span.slot).meta_text(), "");
}

}  // namespace
