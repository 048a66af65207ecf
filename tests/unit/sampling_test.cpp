// SPDX-License-Identifier: Apache-2.0
#include "options/sampling.hpp"

#include <gtest/gtest.h>

namespace {

// What files show of the windows and strides is in tests/api; the writer's own interval hides when a flush was due.
TEST(Sampling, FlushesAtAbsoluteSteps) {
    const cep::Sampling sampling{3, INT64_MAX, 2, 5};
    EXPECT_TRUE(sampling.flushes(0));
    EXPECT_TRUE(sampling.flushes(5));
    EXPECT_FALSE(sampling.flushes(3));
}

}  // namespace
