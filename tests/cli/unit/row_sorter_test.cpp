// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>

#include "base/failure.hpp"

namespace cep::tool {
namespace {

enum class Order { shuffled, nearly_sorted };
enum class Texts { copied, in_their_file };

/// A file of rows: one for each of `steps`, each step twice.
class RowFile {
  public:
    RowFile(std::size_t rows, Order order) : steps_(rows), file_(std::tmpfile(), &std::fclose) {
        for (std::size_t i = 0; i < rows; ++i) steps_[i] = static_cast<std::int64_t>(i / 2);
        if (order == Order::shuffled) std::shuffle(steps_.begin(), steps_.end(), std::mt19937_64(1));
        for (std::size_t i = 0; order == Order::nearly_sorted && i + 7 < rows; i += 8)
            std::rotate(steps_.begin() + static_cast<std::ptrdiff_t>(i),
                        steps_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        steps_.begin() + static_cast<std::ptrdiff_t>(i) + 8);
        for (const std::int64_t step : steps_) std::fprintf(file_.get(), "%s\n", std::to_string(step).c_str());
        std::fflush(file_.get());
    }

    /// All rows, through a sorter.
    void add_to(RowSorter& sorter, std::uint32_t file, Texts texts) const {
        const int input = texts == Texts::in_their_file ? sorter.keep_input(::fileno(file_.get())) : -1;
        const auto take = [&] { return input < 0 ? sorter.take_batch() : sorter.take_empty_batch(); };
        RowBatch batch = take();
        RowEntry entry;
        entry.file = file;
        for (const std::int64_t step : steps_) {
            const std::string text = std::to_string(step);
            entry.first = step;
            entry.size = static_cast<std::uint32_t>(text.size());
            if (input < 0) {
                batch.add(entry, text);
            } else {
                batch.add_place(entry);
            }
            entry.position += text.size() + 1;
            if (batch.used_bytes() < sorter.batch_bytes()) continue;
            sorter.add(std::move(batch), input);
            batch = take();
        }
        if (input < 0) return sorter.give_back(std::move(batch));
        sorter.add(std::move(batch), input);
    }

  private:
    std::vector<std::int64_t> steps_;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

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

std::vector<std::string> sorted(std::size_t rows, std::size_t memory_bytes, Texts texts,
                                Order order = Order::shuffled) {
    RowSorter sorter(memory_bytes, testing::TempDir());
    RowFile(rows, order).add_to(sorter, 0, texts);
    return texts_of(sorter);
}

class SortedTexts : public testing::TestWithParam<Texts> {};

TEST_P(SortedTexts, SortsInMemory) {
    const std::vector<std::string> texts = sorted(1000, 1U << 20, GetParam());
    ASSERT_EQ(texts.size(), 1000U);
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], std::to_string(i / 2));
}

TEST_P(SortedTexts, SortsRowsThatAreNearlyInOrder) {
    const std::vector<std::string> expected = sorted(1000, 1U << 20, GetParam());
    EXPECT_EQ(sorted(1000, 1U << 20, GetParam(), Order::nearly_sorted), expected);
    EXPECT_EQ(sorted(1000, 1000, GetParam(), Order::nearly_sorted), expected);
}

TEST_P(SortedTexts, SortsOnDiskInSeveralRounds) {
    // 1,000 bytes hold a few rows: hundreds of runs that overlap, more than are merged at once.
    EXPECT_EQ(sorted(3000, 1000, GetParam()), sorted(3000, 1U << 20, GetParam()));
}

TEST_P(SortedTexts, ReadsWindowAfterWindowOfALongRun) {
    const std::vector<std::string> texts = sorted(200'000, 1U << 20, GetParam(), Order::nearly_sorted);
    ASSERT_EQ(texts.size(), 200'000U);
    for (std::size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(texts[i], std::to_string(i / 2));
}

INSTANTIATE_TEST_SUITE_P(RowSorter, SortedTexts, testing::Values(Texts::copied, Texts::in_their_file),
                         [](const testing::TestParamInfo<Texts>& texts) {
                             return texts.param == Texts::copied ? "Copied" : "InTheirFile";
                         });

TEST(RowSorter, EqualRowsComeInTheOrderOfTheFilesWhereverTheirTextsAre) {
    std::vector<std::vector<std::string>> results;
    for (const std::size_t memory_bytes : {1000U, 1U << 20}) {
        RowSorter sorter(memory_bytes, testing::TempDir());
        const RowFile file(500, Order::shuffled);
        file.add_to(sorter, 1, Texts::copied);
        file.add_to(sorter, 0, Texts::in_their_file);
        file.add_to(sorter, 2, Texts::in_their_file);
        results.push_back(texts_of(sorter));
        EXPECT_EQ(results.back().size(), 1500U);
    }
    EXPECT_EQ(results[0], results[1]);
}

TEST(RowSorter, KeepsEmptyTexts) {
    RowSorter sorter(1, testing::TempDir());
    for (int i = 0; i < 3; ++i) {
        RowBatch batch;
        batch.add({}, "");
        sorter.add(std::move(batch));
    }
    int rows = 0;
    sorter.finish([&](const RowEntry&, std::string_view text) { rows += text.empty(); });
    EXPECT_EQ(rows, 3);
}

TEST(RowSorter, SaysThatAFileBecameShorter) {
    RowSorter sorter(1U << 20, testing::TempDir());
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
    const int input = sorter.keep_input(::fileno(file.get()));
    RowEntry entry;
    entry.size = 10;
    RowBatch batch = sorter.take_empty_batch();
    batch.add_place(entry);
    sorter.add(std::move(batch), input);
    EXPECT_THROW(sorter.finish([](const RowEntry&, std::string_view) {}), ReadError);
}

}  // namespace
}  // namespace cep::tool
