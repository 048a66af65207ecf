// SPDX-License-Identifier: Apache-2.0
//
// The explorer finds exactly the results that C++ allows for well-known small programs.
#include "explorer.hpp"

#include "atomic.hpp"
#include "checks.hpp"

namespace {

using cep::Atomic;
using namespace model;

template <std::memory_order Store, std::memory_order Load>
struct MessagePassing : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            data = 1;
            ready.store(true, Store);
        } else if (ready.load(Load)) {
            require(data == 1, "stale data");
        }
    }
    Plain<int> data;
    Atomic<bool> ready{false};
};

TEST_THAT(Explorer, AllowsMessagesBetweenReleaseAndAcquire,
          expect_holds(maker_of<MessagePassing<std::memory_order_release, std::memory_order_acquire>>()))

TEST(Explorer, FindsTheRaceOfAMessageWithoutReleaseOrAcquire) {
    expect_fails(maker_of<MessagePassing<std::memory_order_relaxed, std::memory_order_acquire>>(), "data race");
    expect_fails(maker_of<MessagePassing<std::memory_order_release, std::memory_order_relaxed>>(), "data race");
}

struct WriteAfterRelease : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            ready.store(true, std::memory_order_release);
            data = 1;
        } else if (ready.load(std::memory_order_acquire)) {
            (void)static_cast<int>(data);
        }
    }
    Plain<int> data;
    Atomic<bool> ready{false};
};

TEST_THAT(Explorer, FindsTheRaceOfAWriteThatFollowsTheRelease, expect_fails(maker_of<WriteAfterRelease>(), "data race"))

struct StoreBuffering : Scenario {
    void run(std::size_t thread) override {
        (thread == 1 ? x : y).store(1, std::memory_order_release);
        seen[thread - 1] = (thread == 1 ? y : x).load(std::memory_order_acquire);
    }
    void finish() override { require(seen[0] + seen[1] > 0, "both stores are late"); }
    Atomic<int> x{0};
    Atomic<int> y{0};
    std::array<int, 2> seen{};
};

TEST_THAT(Explorer, LetsStoresBeSeenLate, expect_fails(maker_of<StoreBuffering>(), "both stores are late"))

struct Coherence : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            x.store(1, std::memory_order_relaxed);
            x.store(2, std::memory_order_relaxed);
        } else {
            const int first = x.load(std::memory_order_relaxed);
            require(x.load(std::memory_order_relaxed) >= first, "an older store after a newer one");
        }
    }
    Atomic<int> x{0};
};

TEST_THAT(Explorer, KeepsTheOrderOfOneLocation, expect_holds(maker_of<Coherence>()))

struct IndependentReads : Scenario {
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override {
        if (thread == 1) {
            x.store(1, std::memory_order_relaxed);
        } else if (thread == 2) {
            if (x.load(std::memory_order_relaxed) == 1) y.store(1, std::memory_order_release);
        } else if (y.load(std::memory_order_acquire) == 1) {
            require(x.load(std::memory_order_relaxed) == 1, "what another has seen is not seen");
        }
    }
    Atomic<int> x{0};
    Atomic<int> y{0};
};

TEST_THAT(Explorer, LetsNobodySeeOlderThanWhatHappenedBefore, expect_holds(maker_of<IndependentReads>()))

/// A relaxed update by another thread continues a release sequence.
struct ReleaseSequence : Scenario {
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override {
        if (thread == 1) {
            data = 1;
            count.store(1, std::memory_order_release);
        } else if (thread == 2) {
            count.fetch_add(2, std::memory_order_relaxed);
        } else if (count.load(std::memory_order_acquire) == 3) {
            require(data == 1, "stale data");
        }
    }
    Plain<int> data;
    Atomic<int> count{0};
};

TEST_THAT(Explorer, FollowsAReleaseSequence, expect_holds(maker_of<ReleaseSequence>()))

template <bool Atomically>
struct SharedCount : Scenario {
    void run(std::size_t) override {
        if (Atomically)
            count.fetch_add(1, std::memory_order_relaxed);
        else
            count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    void finish() override { require(count.load(std::memory_order_relaxed) == 2, "a count is lost"); }
    Atomic<int> count{0};
};

TEST(Explorer, FindsTheLostUpdate) {
    expect_holds(maker_of<SharedCount<true>>());
    expect_fails(maker_of<SharedCount<false>>(), "a count is lost");
}

/// Two threads with two independent operations each: one order represents all six.
struct Independent : Scenario {
    void run(std::size_t thread) override {
        for (int i = 0; i < 2; ++i) (thread == 1 ? x : y).store(i, std::memory_order_release);
    }
    Atomic<int> x{0};
    Atomic<int> y{0};
};

TEST_THAT(Explorer, TriesOrdersThatMakeNoDifferenceOnce,
          EXPECT_LE(model::explore(maker_of<Independent>()).executions, 3U))

template <bool Sets>
struct Waiting : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            if (Sets) set.store(true, std::memory_order_relaxed);
        } else {
            while (!set.load(std::memory_order_relaxed) && !given_up) {
                model::yield_thread();
                given_up = ++turns > 3;
            }
        }
    }
    Atomic<bool> set{false};
    int turns = 0;
    bool given_up = false;
};

TEST(Explorer, LetsAThreadWaitForAnother) {
    expect_holds(maker_of<Waiting<true>>());
    expect_fails(maker_of<Waiting<false>>(), "deadlock: threads wait for each other");
}

}  // namespace
