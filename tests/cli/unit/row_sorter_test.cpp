// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cep::tool {
namespace {

enum class Order { shuffled, nearly_sorted };

/// A file of rows, each step twice, through a sorter.
void add_rows(RowSorter& sorter, std::uint32_t file, std::size_t rows, Order order) {
    std::vector<std::int64_t> steps(rows);
    for (std::size_t i = 0; i < rows; ++i) steps[i] = static_cast<std::int64_t>(i / 2);
    if (order == Order::shuffled) std::shuffle(steps.begin(), steps.end(), std::mt19937_64(1));
    for (std::size_t i = 0; order == Order::nearly_sorted && i + 7 < rows; i += 8)
        std::rotate(steps.begin() + static_cast<std::ptrdiff_t>(i), steps.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    steps.begin() + static_cast<std::ptrdiff_t>(i) + 8);
    RowCollector collector(sorter, file);
    for (const std::int64_t step : steps) {
        RowEntry entry;
        entry.first = step;
        collector.add(entry, std::to_string(step));
    }
    collector.end();
}

std::vector<std::string> texts_of(RowSorter& sorter) {
    std::vector<std::string> texts;
    RowEntry last;
    sorter.finish([&](const RowEntry& row, std::string_view text) {
        EXPECT_TRUE(texts.empty() || last < row) << text;
        EXPECT_EQ(row.first, std::stoll(std::string(text)));
        last = row;
        texts.emplace_back(text);
    });
    return texts;
}

std::vector<std::string> sorted(std::size_t rows, std::size_t memory_bytes, Order order = Order::shuffled) {
    RowSorter sorter(memory_bytes, testing::TempDir());
    add_rows(sorter, 0, rows, order);
    return texts_of(sorter);
}

TEST(RowSorter, SortsRowsThatAreNearlyInOrder) {
    const std::vector<std::string> expected = sorted(1000, 1U << 20);
    EXPECT_EQ(sorted(1000, 1U << 20, Order::nearly_sorted), expected);
    EXPECT_EQ(sorted(1000, 1000, Order::nearly_sorted), expected);
}

TEST(RowSorter, SortsOnDiskInSeveralRounds) {
    // 1,000 bytes hold a few rows: hundreds of runs that overlap, more than are merged at once.
    EXPECT_EQ(sorted(3000, 1000), sorted(3000, 1U << 20));
}

TEST(RowSorter, ReadsWindowAfterWindowOfALongRun) {
    const std::vector<std::string> texts = sorted(200'000, 1U << 20, Order::nearly_sorted);
    ASSERT_EQ(texts.size(), 200'000U);
    for (std::size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(texts[i], std::to_string(i / 2));
}

}  // namespace
}  // namespace cep::tool
