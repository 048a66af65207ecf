// SPDX-License-Identifier: Apache-2.0
#include "record/step_board.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace {

using cep::StepBoard;

TEST(StepBoard, HasNoStepBeforeTheFirst) {
    const StepBoard board;
    const StepBoard::View view = board.read();
    EXPECT_EQ(view.step, -1);
    EXPECT_EQ(view.epoch(), 0U);
    EXPECT_FALSE(view.recording() || view.in_window() || board.recording() || board.in_window());
}

TEST(StepBoard, HoldsTheLargestStep) {
    StepBoard board;
    const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    board.publish(largest, true, false);
    EXPECT_EQ(board.read().step, largest);
    EXPECT_TRUE(board.recording());
    EXPECT_FALSE(board.in_window());
}

TEST(StepBoard, LeavesRoomInItsCacheLineForSessionAndSerialOfItsProfiler) {
    EXPECT_LE(sizeof(StepBoard) + 2 * sizeof(void*), 64U);
}

}  // namespace
