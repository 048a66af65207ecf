// SPDX-License-Identifier: Apache-2.0
#include "base/ring.hpp"

#include "checks.hpp"

namespace {

using namespace model;

/// The consumer gets the pushed items in order, also if the ring is full in between.
struct Passing : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            for (int tries = 0; tries < 4 && pushed < 3; ++tries)
                if (ring.push(static_cast<std::uint8_t>(pushed + 1))) ++pushed;
        } else {
            for (int tries = 0; tries < 3; ++tries) take();
        }
    }
    bool take() {
        std::uint8_t item = 0;
        if (!ring.pop(item)) return false;
        require(item == ++taken, "not the next item");
        return true;
    }
    void finish() override {
        while (take()) {
        }
        require(taken == pushed && pushed >= 2, "items are lost");
        require(ring.size() == 0 && ring.pushed() == static_cast<std::size_t>(pushed), "miscounted");
    }
    cep::Ring<std::uint8_t> ring{2};
    int pushed = 0;
    int taken = 0;
};

TEST_THAT(RingModel, PassesItemsInOrder, model::expect_holds(maker_of<Passing>()))

/// A thread that sees a pushed item sees the producer's earlier writes. It never sees more items taken than pushed.
struct Counting : Scenario {
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override {
        std::uint8_t item = 0;
        if (thread == 1) {
            for (std::uint8_t i = 1; i <= 2; ++i) {
                begun.store(i, std::memory_order_relaxed);
                (void)ring.push(i);
            }
        } else if (thread == 2) {
            for (int i = 0; i < 2; ++i) (void)ring.pop(item);
        } else {
            const std::size_t pushed = ring.pushed();
            require(begun.load(std::memory_order_relaxed) >= pushed, "pushed before it was begun");
            const std::size_t size = ring.size();
            require(size <= 2, "more taken than pushed");
            require(begun.load(std::memory_order_relaxed) >= size, "in the ring before it was begun");
        }
    }
    cep::Ring<std::uint8_t> ring{2};
    cep::Atomic<std::size_t> begun{0};
};

TEST_THAT(RingModel, CountsForAnyThread, model::expect_holds(maker_of<Counting>()))

/// A text arrives with its item, also across the end of the byte ring.
struct Texts : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            for (const std::string_view text : {"abc", "de", "fgh"}) {
                const bool fits = bytes.push(text);
                (void)ring.push(fits ? static_cast<std::uint8_t>(text.size()) : 0);
            }
        } else {
            for (int tries = 0; tries < 4; ++tries) take();
        }
    }
    void take() {
        std::uint8_t size = 0;
        if (!ring.pop(size)) return;
        const std::string_view expected = std::array{"abc", "de", "fgh"}.at(taken++);
        std::string text;
        if (size > 0) bytes.pop(size, text);
        require(size == 0 || text == expected, "not the text of the item");
    }
    cep::Ring<std::uint8_t> ring{4};
    cep::ByteRing bytes{4};
    std::size_t taken = 0;
};

TEST_THAT(RingModel, PassesTextsWithTheirItems, model::expect_holds(maker_of<Texts>()))

TEST_THAT(RingModel, NeedsEachOfItsOrders,
          model::expect_no_survivor({maker_of<Passing>(), maker_of<Counting>(), maker_of<Texts>()}, "ring.hpp"))

}  // namespace
