// SPDX-License-Identifier: Apache-2.0
#include "row_sorter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

namespace cep::analysis {
namespace {

enum class Order { shuffled, nearly_sorted };

std::vector<std::string> sorted(std::size_t rows, std::size_t memory_bytes, Order order = Order::shuffled) {
    RowSorter sorter(memory_bytes, testing::TempDir());
    std::vector<std::int64_t> steps(rows);
    for (std::size_t i = 0; i < rows; ++i) steps[i] = static_cast<std::int64_t>(i / 2);
    if (order == Order::shuffled) std::shuffle(steps.begin(), steps.end(), std::mt19937_64(1));
    for (std::size_t i = 0; order == Order::nearly_sorted && i + 7 < rows; i += 8)
        std::rotate(steps.begin() + static_cast<std::ptrdiff_t>(i), steps.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    steps.begin() + static_cast<std::ptrdiff_t>(i) + 8);
    RowBatch batch = sorter.take_batch();
    for (std::size_t i = 0; i < rows; ++i) {
        SortedRow row;
        row.key.first = steps[i];
        row.key.line = i;
        batch.add(row, std::to_string(steps[i]));
        if (batch.used_bytes() < sorter.batch_bytes()) continue;
        sorter.add(std::move(batch));
        batch = sorter.take_batch();
    }
    sorter.give_back(std::move(batch));
    std::vector<std::string> texts;
    std::uint64_t last_line = 0;
    sorter.finish([&](const SortedRow& row, std::string_view text) {
        const bool tie = !texts.empty() && texts.back() == text;
        EXPECT_TRUE(!tie || last_line < row.key.line) << "ties keep their order";
        last_line = row.key.line;
        texts.emplace_back(text);
    });
    return texts;
}

TEST(RowSorter, SortsInMemory) {
    const std::vector<std::string> texts = sorted(1000, 1U << 20);
    ASSERT_EQ(texts.size(), 1000U);
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], std::to_string(i / 2));
}

TEST(RowSorter, SortsRowsThatAreNearlyInOrder) {
    EXPECT_EQ(sorted(1000, 1U << 20, Order::nearly_sorted), sorted(1000, 1U << 20));
    EXPECT_EQ(sorted(1000, 1000, Order::nearly_sorted), sorted(1000, 1U << 20));
}

TEST(RowSorter, SortsOnDiskInSeveralRounds) {
    // 1,000 bytes hold a few rows: hundreds of spill files, more than are merged at once.
    EXPECT_EQ(sorted(3000, 1000), sorted(3000, 1U << 20));
}

TEST(RowSorter, KeepsEmptyTexts) {
    RowSorter sorter(1, testing::TempDir());
    for (int i = 0; i < 3; ++i) {
        RowBatch batch;
        batch.add({}, "");
        sorter.add(std::move(batch));
    }
    int rows = 0;
    sorter.finish([&](const SortedRow&, std::string_view text) { rows += text.empty(); });
    EXPECT_EQ(rows, 3);
}

}  // namespace
}  // namespace cep::analysis
