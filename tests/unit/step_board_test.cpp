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

TEST(StepBoard, ShowsWhatWasPublishedLast) {
    StepBoard board;
    board.publish(3, true, true);
    board.publish(4, false, true);
    const StepBoard::View view = board.read();
    EXPECT_EQ(view.step, 4);
    EXPECT_FALSE(view.recording() || board.recording());
    EXPECT_TRUE(view.in_window() && board.in_window());
}

TEST(StepBoard, CountsAnEpochForEachPublishAlsoOfTheSameStep) {
    StepBoard board;
    for (std::uint32_t i = 1; i <= 20; ++i) {
        board.publish(7, true, true);
        EXPECT_EQ(board.read().epoch(), i);
    }
}

TEST(StepBoard, HoldsTheLargestStep) {
    StepBoard board;
    const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    board.publish(largest, true, false);
    EXPECT_EQ(board.read().step, largest);
    EXPECT_TRUE(board.recording());
    EXPECT_FALSE(board.in_window());
}

TEST(StepBoard, StaysStoppedWhateverIsPublished) {
    StepBoard board;
    board.publish(1, true, true);
    board.stop();
    EXPECT_FALSE(board.recording() || board.in_window());
    EXPECT_EQ(board.read().step, 1);
    board.publish(2, true, true);
    EXPECT_FALSE(board.recording() || board.in_window() || board.read().recording() || board.read().in_window());
    EXPECT_EQ(board.read().step, 2);
    EXPECT_EQ(board.read().epoch(), 2U);
}

TEST(StepBoard, LeavesRoomInItsCacheLineForSessionAndSerialOfItsProfiler) {
    EXPECT_LE(sizeof(StepBoard) + 2 * sizeof(void*), 64U);
}

}  // namespace
