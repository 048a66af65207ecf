// SPDX-License-Identifier: Apache-2.0
#include "record/span_slots.hpp"

#include "checks.hpp"

namespace {

using namespace model;

/// The spans of thread 1, the owner. Every field of span n has the value n.
struct Spans : Scenario {
    static constexpr std::uint32_t none = ~0U;

    /// Owner.
    void begin(std::int64_t number) {
        const int claimed = slots.claim();
        require(claimed >= 0, "no slot");
        const auto index = static_cast<std::size_t>(std::max(claimed, 0));
        cep::SpanSlot& slot = slots.at(index);
        slot.region.store(reinterpret_cast<cep_region*>(number), std::memory_order_release);
        slot.step.store(number, std::memory_order_release);
        slot.seq.store(static_cast<std::uint32_t>(number), std::memory_order_release);
        slot.depth.store(static_cast<std::uint16_t>(number), std::memory_order_release);
        cep::note_write(&slot.stream_number, 1);
        auto* const event = number > 1 ? reinterpret_cast<cep::Event*>(number) : nullptr;
        slot.set_begin({number, event, static_cast<std::uint16_t>(number)}, nullptr);
        const std::uint32_t generation = slots.publish(index);
        last = static_cast<std::uint32_t>(index) << 16 | generation;
        handle.store(last, std::memory_order_release);
    }
    /// Any thread; true if it ended the span.
    bool end(std::uint32_t span, std::int64_t number, bool owner) {
        cep::SpanSlot* const slot = slots.find(span >> 16);
        if (slot == nullptr || !cep::SpanSlots::take(*slot, span & 0xFFFF)) return false;
        cep::note_read(&slot->stream_number, 1);
        require(slot->begin().stream == number, "another span's begin");
        require(slot->step.load(std::memory_order_relaxed) == number, "another span's step");
        cep::note_write(&slot->stream_number, 1);
        slot->stream_number = 99;
        ++ended.at(owner ? 1 : 2);
        owner ? slots.keep(span >> 16) : slots.release(span >> 16);
        return true;
    }
    int visit() {
        int open = 0;
        slots.visit_open([&](const cep::OpenSpan& span) {
            ++open;
            const std::int64_t number = span.step;
            require(number > 0 && reinterpret_cast<std::int64_t>(span.region) == number, "facts of two spans");
            require(span.begin_host_ns == number && span.seq == number, "facts of two spans");
            require(span.depth == number && span.on_device == (number > 1), "facts of two spans");
        });
        return open;
    }
    /// At the end: each of the first slots is either free or in use.
    void check_free(std::size_t count) {
        std::array<bool, 8> free{};
        for (std::size_t i = 0; i < count; ++i) {
            const auto index = static_cast<std::size_t>(slots.claim());
            require(index < free.size() && !free.at(index), "free twice");
            free.at(index) = true;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const bool open = (slots.at(i).state.load(std::memory_order_relaxed) & cep::SpanSlot::open_bit) != 0;
            require(open != free.at(i), open ? "free while open" : "lost");
        }
    }

    cep::MetaBudget budget;
    cep::SpanSlots slots{budget};
    cep::Atomic<std::uint32_t> handle{none};  ///< of the span begun last
    std::uint32_t last = none;
    std::array<int, 3> ended{};
};

/// Two other threads end spans on the owner's stack. Once the owner knows of an end, the span no longer counts.
struct EndedOnTheStack : Spans {
    EndedOnTheStack() {
        for (std::int64_t number = 1; number <= 2; ++number) {
            begin(number);
            stack.push(slots, {static_cast<std::uint16_t>(last >> 16), last & 0xFFFF});
        }
    }
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override {
        if (thread == 1) {
            (void)stack.depth(slots);
            const int known = told.load(std::memory_order_acquire);
            require(stack.depth(slots) <= 2 - known, "a span counts after its end");
        } else {
            const auto index = static_cast<std::uint16_t>(thread - 2);
            require(cep::SpanSlots::take(slots.at(index), 0), "not open");
            stack.note_ended_elsewhere();
            told.fetch_add(1, std::memory_order_release);
        }
    }
    void finish() override { require(stack.depth(slots) == 0, "a span counts after its end"); }

    cep::SpanStack stack;
    cep::Atomic<int> told{0};
};

TEST_THAT(SpanStackModel, CountsNoSpanAfterItsEnd, model::expect_holds(maker_of<EndedOnTheStack>()))

/// Two threads end the same span: only one succeeds.
struct EndedTwice : Spans {
    void run(std::size_t thread) override {
        if (thread == 1) {
            begin(1);
            (void)end(last, 1, true);
        } else if (const std::uint32_t span = handle.load(std::memory_order_acquire); span != none) {
            (void)end(span, 1, false);
        }
    }
    void finish() override {
        require(ended[1] + ended[2] == 1, "not ended once");
        require(visit() == 0, "still open");
    }
};

TEST_THAT(SpanSlotsModel, EndsASpanOnce, model::expect_holds(maker_of<EndedTwice>()))

/// A reader looks while the owner ends spans that no other thread knows, each in the slot of the one before.
struct Unshared : Spans {
    void run(std::size_t thread) override {
        if (thread == 2) {
            require(visit() <= 1, "open twice");
            return;
        }
        for (std::int64_t number = 1; number <= 2; ++number) {
            begin(number);
            cep::SpanSlot& slot = slots.at(last >> 16);
            require(cep::SpanSlots::take_unshared(slot, last & 0xFFFF), "not open");
            require(!cep::SpanSlots::take_unshared(slot, last & 0xFFFF), "ended twice");
            slots.keep(last >> 16);
        }
    }
    void finish() override { require(visit() == 0, "still open"); }
};

TEST_THAT(SpanSlotsModel, EndsSpansThatNoOtherThreadKnows, model::expect_holds(maker_of<Unshared>()))

/// Another thread ends a span while the owner begins others, perhaps in the same slot.
struct EndedElsewhere : Spans {
    void run(std::size_t thread) override {
        if (thread == 1) {
            for (std::int64_t number = 1; number <= 3; ++number) begin(number);
        } else if (handle.load(std::memory_order_acquire) == 0) {
            (void)end(0, 1, false);
        }
    }
    void finish() override {
        require(visit() == 3 - ended[2], "lost or still open");
        check_free(4);
    }
};

TEST_THAT(SpanSlotsModel, UsesASlotAgainThatAnotherThreadReleased, model::expect_holds(maker_of<EndedElsewhere>()))

/// Another thread releases the last free slot: its writes to the slot happened before the owner's claim.
struct ComesBack : Spans {
    ComesBack() {
        for (std::size_t i = 1; i < cep::SpanSlots::max_slots; ++i) (void)slots.claim();
    }
    void run(std::size_t thread) override {
        if (thread == 1) {
            begin(1);
            if (const int claimed = slots.claim(); claimed >= 0)
                cep::note_write(&slots.at(static_cast<std::size_t>(claimed)).stream_number, 1);
        } else if (const std::uint32_t span = handle.load(std::memory_order_acquire); span != none) {
            (void)end(span, 1, false);
        }
    }
};

TEST_THAT(SpanSlotsModel, HandsASlotBackToItsOwner, model::expect_holds(maker_of<ComesBack>()))

/// A reader sees the fields of one span at a time, also in blocks that are allocated meanwhile.
struct Visited : Spans {
    void run(std::size_t thread) override {
        if (thread == 1) {
            begin(1);
            (void)end(last, 1, true);
            begin(2);  // in the same slot
        } else {
            (void)visit();
        }
    }
};

/// The same with a third thread that ends the span.
struct VisitedElsewhere : Spans {
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override {
        if (thread == 1) {
            begin(1);
            begin(2);
        } else if (thread == 2) {
            if (handle.load(std::memory_order_acquire) == 0) (void)end(0, 1, false);
        } else {
            (void)visit();
        }
    }
};

TEST(SpanSlotsModel, ShowsTheFactsOfOneSpanAtATime) {
    model::expect_holds(maker_of<Visited>());
    model::expect_holds(maker_of<VisitedElsewhere>());
}

/// An arbitrary handle, for a block that may just be allocated.
struct Guessed : Spans {
    void run(std::size_t thread) override {
        if (thread == 1)
            begin(1);
        else
            (void)end(0, 1, false);
    }
};

TEST_THAT(SpanSlotsModel, FindsASlotOnlyOnceItIsMade, model::expect_holds(maker_of<Guessed>()))

/// Threads that check whether a span is open.
struct Asked : Spans {
    void run(std::size_t thread) override {
        if (thread == 1) {
            begin(1);
            (void)end(last, 1, true);
            done.store(true, std::memory_order_release);
        } else if (done.load(std::memory_order_acquire)) {
            require(!cep::SpanSlots::is_open(slots.at(0), 0), "open after its end");
        }
    }
    cep::Atomic<bool> done{false};
};

TEST_THAT(SpanSlotsModel, IsNotOpenAfterItsEnd, model::expect_holds(maker_of<Asked>()))

/// One kilobyte is left. A request for two is refused, and does not take the one from another thread.
struct Exhausted : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1)
            require(!budget.take(2), "more than there is");
        else
            require(budget.take(1), "refused although there is enough");
    }
    void finish() override {
        require(budget.left() == 0, "miscounted");
        budget.give(1);
        require(budget.left() == 1, "miscounted");
    }
    cep::MetaBudget budget{1};
};

struct TakenAndGiven : Scenario {
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t) override {
        if (!budget.take(1)) return;
        require(inside.fetch_add(1, std::memory_order_relaxed) < 2, "more taken than there is");
        inside.fetch_add(-1, std::memory_order_relaxed);
        budget.give(1);
    }
    void finish() override { require(budget.left() == 2, "miscounted"); }
    cep::MetaBudget budget{2};
    cep::Atomic<int> inside{0};
};

TEST(MetaBudgetModel, IsNeverExceededAndRefusesNoRequestThatFits) {
    model::expect_holds(maker_of<Exhausted>());
    model::expect_holds(maker_of<TakenAndGiven>());
}

TEST(SpanSlotsModel, NeedsEachOfItsOrders) {
    model::expect_no_survivor(
        {maker_of<EndedTwice>(), maker_of<Guessed>(), maker_of<Exhausted>(), maker_of<TakenAndGiven>(),
         maker_of<Asked>(), maker_of<ComesBack>(), maker_of<EndedElsewhere>(), maker_of<Visited>(),
         maker_of<EndedOnTheStack>(), maker_of<Unshared>()},
        "span_slots.hpp");
}

}  // namespace
