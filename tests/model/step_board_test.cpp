// SPDX-License-Identifier: Apache-2.0
#include "record/step_board.hpp"

#include "checks.hpp"

namespace {

using namespace model;

using Board = cep::BasicStepBoard<7>;
using SmallBoard = cep::BasicStepBoard<2>;  ///< publishers have to wait for a slot

/// Odd steps are recorded, those from 2 on are in the window.
template <class Board>
void publish(Board& board, std::int64_t step) {
    board.publish(step, step % 2 != 0, step >= 2);
}

template <class View>
void check(const View& view) {
    require(view.step >= 0 ? view.epoch() > 0 : view.epoch() == 0, "a step with another's epoch");
    require(view.recording() == (view.step > 0 && view.step % 2 != 0), "a step with another's recording");
    require(view.in_window() == (view.step >= 2), "a step with another's window");
}

/// A reader and a publisher of several steps, which reuses slots.
template <class Board>
struct Sequence : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            for (std::int64_t step = 1; step <= 3; ++step) publish(board, step);
        } else {
            std::uint32_t epoch = 0;
            for (int i = 0; i < 2; ++i) {
                const auto view = board.read();
                check(view);
                require(view.step == (view.epoch() == 0 ? -1 : std::int64_t{view.epoch()}),
                        "a step with another's epoch");
                require(view.epoch() >= epoch, "back to an earlier step");
                epoch = view.epoch();
            }
        }
    }
    void finish() override { require(board.read().step == 3, "not the last step"); }
    Board board;
};

TEST(StepBoardModel, PairsEachStepWithItsOwnEpochAndFlags) {
    model::expect_holds(maker_of<Sequence<Board>>());
    model::expect_holds(maker_of<Sequence<SmallBoard>>());
}

/// Two publishers at once and a reader.
template <class Board>
struct Publishers : Scenario {
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override {
        if (thread == 3)
            check(board.read());
        else
            publish(board, static_cast<std::int64_t>(thread));
    }
    void finish() override {
        const auto view = board.read();
        check(view);
        require(view.epoch() == 2, "a publish without an epoch");
    }
    Board board;
};

TEST(StepBoardModel, TakesManyPublishersAtOnce) {
    model::expect_holds(maker_of<Publishers<Board>>());
    model::expect_holds(maker_of<Publishers<SmallBoard>>());
}

/// Two publishers at once, one of them twice: another thread reuses a slot.
struct PublishersInTurn : Scenario {
    void run(std::size_t thread) override {
        publish(board, thread == 1 ? 1 : 2);
        check(board.read());
        if (thread == 1) {
            publish(board, 3);
            check(board.read());
        }
    }
    void finish() override {
        require(board.read().epoch() == 3 && board.read().step != 1, "an older step in the end");
        check(board.read());
    }
    SmallBoard board;
};

TEST_THAT(StepBoardModel, TakesPublishersInTurn, model::expect_holds(maker_of<PublishersInTurn>()))

/// A thread that reads a step sees the writes before its publish.
struct Published : Scenario {
    void run(std::size_t thread) override {
        if (thread == 1) {
            made_before = 1;
            publish(board, 1);
        } else if (board.read().step == 1) {
            require(made_before == 1, "published before it was made");
        }
    }
    model::Plain<int> made_before;
    Board board;
};

TEST_THAT(StepBoardModel, PublishesWhatWasDoneBefore, model::expect_holds(maker_of<Published>()))

/// A stop is final, whatever other threads publish meanwhile or later.
template <std::size_t Threads>
struct StoppingOf : Scenario {
    [[nodiscard]] std::size_t threads() const override { return Threads; }
    void run(std::size_t thread) override {
        if (thread == 1) {
            board.stop();
            require(!board.recording() && !board.in_window(), "goes on recording");
        } else {
            publish(board, 3);
        }
    }
    void finish() override {
        require_stopped(Threads - 1);
        publish(board, 3);
        require_stopped(Threads);
    }
    void require_stopped(std::size_t publishes) {
        const auto view = board.read();
        require(!view.recording() && !view.in_window() && !board.recording() && !board.in_window(),
                "goes on recording");
        require(view.step == 3 && view.epoch() == publishes, "not the last step");
    }
    Board board;
};

using Stopping = StoppingOf<2>;
using StoppingTwo = StoppingOf<3>;

TEST(StepBoardModel, StaysStoppedWhenPublishesRaceWithTheStop) {
    model::expect_holds(maker_of<Stopping>());
    model::expect_holds(maker_of<StoppingTwo>());
}

TEST(StepBoardModel, NeedsEachOfItsOrders) {
    model::expect_no_survivor({maker_of<Sequence<SmallBoard>>(), maker_of<PublishersInTurn>(),
                               maker_of<Publishers<Board>>(), maker_of<Published>(), maker_of<Stopping>()},
                              "step_board.hpp",
                              // Orders the store of a slot's earlier publisher before that of the next one.
                              {"claim_slot: update without acquire"});
}

/// Step and flags in two separate words, the mistake that the board avoids.
class TwoWords {
  public:
    struct View {
        std::int64_t step;
        std::uint64_t flags;
        [[nodiscard]] std::uint32_t epoch() const { return static_cast<std::uint32_t>(flags >> 2); }
        [[nodiscard]] bool recording() const { return (flags & 1) != 0; }
        [[nodiscard]] bool in_window() const { return (flags & 2) != 0; }
    };
    void publish(std::int64_t step, bool recording, bool in_window) noexcept {
        step_.store(step, std::memory_order_release);
        const std::uint64_t epoch = (flags_.load(std::memory_order_relaxed) >> 2) + 1;
        flags_.store(epoch << 2 | (recording ? 1U : 0U) | (in_window ? 2U : 0U), std::memory_order_release);
    }
    [[nodiscard]] View read() const noexcept {
        const std::uint64_t flags = flags_.load(std::memory_order_acquire);
        return {step_.load(std::memory_order_acquire), flags};
    }

  private:
    cep::Atomic<std::int64_t> step_{-1};
    cep::Atomic<std::uint64_t> flags_{0};
};

TEST_THAT(StepBoardModel, FindsFaultInTwoWords,
          model::expect_fails(maker_of<Sequence<TwoWords>>(), "a step with another's"))

/// A word and slots by epoch, but the reader does not check the word again after reading the slot.
class Unchecked : public TwoWords {
  public:
    void publish(std::int64_t step, bool recording, bool in_window) noexcept {
        const std::uint64_t epoch = (word_.load(std::memory_order_relaxed) >> 2) + 1;
        steps_[epoch % 2].store(step, std::memory_order_release);
        word_.store(epoch << 2 | (recording ? 1U : 0U) | (in_window ? 2U : 0U), std::memory_order_release);
    }
    [[nodiscard]] View read() const noexcept {
        const std::uint64_t word = word_.load(std::memory_order_acquire);
        return {steps_[word >> 2 & 1].load(std::memory_order_acquire), word};
    }

  private:
    std::array<cep::Atomic<std::int64_t>, 2> steps_{std::int64_t{-1}, std::int64_t{-1}};
    cep::Atomic<std::uint64_t> word_{0};
};

TEST_THAT(StepBoardModel, FindsFaultInASlotThatIsNotCheckedAgain,
          model::expect_fails(maker_of<Sequence<Unchecked>>(), "a step with another's"))

}  // namespace
