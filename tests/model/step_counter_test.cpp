// SPDX-License-Identifier: Apache-2.0
#include "record/step_counter.hpp"

#include <algorithm>
#include <utility>

#include "checks.hpp"
#include "record/step_board.hpp"

namespace {

using namespace model;

using TwoSteps = cep::BasicStepBoard<2>;
using Number = std::pair<std::int64_t, std::uint32_t>;  ///< step, number within it

/// Each thread's numbers in their order. Each step's numbers are 0, 1, … without a gap or a duplicate.
struct Numbered : Scenario {
    /// A span begins: as a thread does that was interrupted after each of these lines.
    void begin(std::size_t thread) {
        TwoSteps::View view = board.read();
        if (!view.recording()) return;
        std::uint32_t number = 0;
        if (!counter.next(view, number, [this] { return board.read(); })) return;
        require(view.recording(), "a step that is not recorded");
        made.at(thread).emplace_back(view.step, number);
    }
    void finish() override {
        std::vector<Number> all;
        for (const auto& numbers : made) {
            require(std::is_sorted(numbers.begin(), numbers.end()), "a thread's numbers went backwards");
            all.insert(all.end(), numbers.begin(), numbers.end());
        }
        std::sort(all.begin(), all.end());
        for (std::size_t i = 0; i < all.size(); ++i) {
            const bool same_step = i > 0 && all[i - 1].first == all[i].first;
            require(all[i].second == (same_step ? all[i - 1].second + 1 : 0), "a number twice, or a gap");
        }
    }

    TwoSteps board;
    cep::StepCounter counter;
    std::array<std::vector<Number>, model::max_threads> made;
};

/// Two threads use a region while one of them begins the next step.
struct NextStep : Numbered {
    NextStep() { board.publish(1, true, true); }
    void run(std::size_t thread) override {
        begin(thread);
        if (thread == 1) board.publish(2, true, true);
        begin(thread);
    }
};

/// A third thread begins the steps, and the second of them is not recorded.
struct StepsOfAnother : Numbered {
    StepsOfAnother() { board.publish(1, true, true); }
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override {
        if (thread < 3) return begin(thread);
        board.publish(2, true, true);
        begin(thread);
        board.publish(3, false, true);
    }
};

TEST(StepCounterModel, GivesEachSpanOfAStepANumberOfItsOwn) {
    model::expect_holds(maker_of<NextStep>());
    model::expect_holds(maker_of<StepsOfAnother>());
}

/// 2³¹ steps and more lie between two spans of the region.
TEST(StepCounterModel, CountsFromZeroAfterALongPause) {
    struct Pause : Numbered {
        [[nodiscard]] std::size_t threads() const override { return 1; }
        void run(std::size_t) override {
            for (const std::uint32_t epoch : {1U, 0x80000002U, 0x90000000U, 0x10000000U}) {
                TwoSteps::View view(epoch, std::uint64_t{epoch} << 32 | 1);  // recorded
                for (std::uint32_t expected = 0; expected < 2; ++expected) {
                    std::uint32_t number = 9;
                    require(counter.next(view, number, [&] { return view; }) && number == expected, "not from 0");
                }
            }
        }
    };
    model::expect_holds(maker_of<Pause>());
}

TEST_THAT(StepCounterModel, NeedsEachOfItsOrders,
          model::expect_no_survivor({maker_of<NextStep>(), maker_of<StepsOfAnother>()}, "step_counter.hpp"))

}  // namespace
