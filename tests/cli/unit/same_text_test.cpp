// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cep::tool {
namespace {

TEST(SameText, IsEqualityWhateverTheLengthAndWhereverTheDifference) {
    for (std::size_t size = 0; size < 40; ++size) {
        std::string text(size, 'a');
        for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i);
        const std::string same = text;
        EXPECT_TRUE(same_text(text, same)) << size;
        EXPECT_FALSE(same_text(text, same + 'a')) << size;
        for (std::size_t i = 0; i < size; ++i) {
            std::string other = text;
            other[i] = '\0';
            EXPECT_FALSE(same_text(text, other)) << size << ' ' << i;
            EXPECT_FALSE(same_text(other, text)) << size << ' ' << i;
        }
    }
}

}  // namespace
}  // namespace cep::tool
