// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

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
        const PlainFile* const plain =
            texts == Texts::in_their_file ? sorter.keep_file(::fileno(file_.get()), "rows.jsonl") : nullptr;
        const auto take = [&] { return plain == nullptr ? sorter.take_batch() : sorter.take_empty_batch(); };
        RowBatch batch = take();
        RowEntry entry;
        entry.file = file;
        for (const std::int64_t step : steps_) {
            const std::string text = std::to_string(step);
            entry.first = step;
            if (plain == nullptr) {
                batch.add(entry, text);
            } else {
                batch.add_reference(entry, text);
            }
            entry.position += text.size() + 1;
            if (batch.used_bytes() < sorter.batch_bytes()) continue;
            sorter.add(std::move(batch), plain);
            batch = take();
        }
        if (plain == nullptr) return sorter.give_back(std::move(batch));
        sorter.add(std::move(batch), plain);
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

/// A plain file of two rows, one of which is sorted in memory or on disk before the file is changed.
class ChangedFile : public testing::TestWithParam<std::size_t> {
  protected:
    ChangedFile() : sorter_(GetParam(), testing::TempDir()), file_(std::tmpfile(), &std::fclose) {
        write(row_, 0);
        const PlainFile* const plain = sorter_.keep_file(::fileno(file_.get()), "rank.jsonl");
        RowBatch batch = sorter_.take_empty_batch();
        batch.add_reference({}, row_);
        sorter_.add(std::move(batch), plain);
    }

    void write(const std::string& text, long offset) {
        std::fseek(file_.get(), offset, SEEK_SET);
        std::fputs(text.c_str(), file_.get());
        std::fflush(file_.get());
    }

    /// The message of the failure; "" where there is none.
    std::string finish() {
        try {
            sorter_.finish([this](const RowEntry&, std::string_view text) { EXPECT_EQ(text, row_); });
        } catch (const ReadError& error) {
            return error.what();
        }
        return "";
    }

    const std::string row_ =
        R"({"name":"forward","step":100,"rank":3,"duration_ms":12.345678,"start_ns":1763700000123})";
    RowSorter sorter_;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

TEST_P(ChangedFile, MayGrow) {
    write("\n" + row_ + "\n", static_cast<long>(row_.size()));
    EXPECT_EQ(finish(), "");
}

TEST_P(ChangedFile, MustNotShrink) {
    ASSERT_EQ(::ftruncate(::fileno(file_.get()), static_cast<off_t>(row_.size()) - 1), 0);
    EXPECT_EQ(finish(), "rank.jsonl: was changed, other than by appending, while its rows were merged");
}

TEST_P(ChangedFile, MustNotHaveOtherRows) {
    write(R"({"name":"forward","step":100,"rank":3,"duration_ms":12.345678,"start_ns":1763700000999})"
          "\n" +
              row_,
          0);
    EXPECT_EQ(finish(), "rank.jsonl: was changed, other than by appending, while its rows were merged");
}

INSTANTIATE_TEST_SUITE_P(RowSorter, ChangedFile, testing::Values(1U, 1U << 20),
                         [](const testing::TestParamInfo<std::size_t>& memory_bytes) {
                             return memory_bytes.param == 1 ? "OnDisk" : "InMemory";
                         });

TEST(TextFingerprint, DependsOnSizeAndBytes) {
    const std::string row(200, 'x');
    for (std::size_t size : {0U, 1U, 7U, 8U, 9U, 63U, 64U, 65U, 199U})
        EXPECT_NE(text_fingerprint(row.substr(0, size)), text_fingerprint(row)) << size;
    for (std::size_t place : {0U, 3U, 28U, 100U, 199U}) {
        std::string other = row.substr(0, 57);
        other[place % other.size()] = 'y';
        EXPECT_NE(text_fingerprint(other), text_fingerprint(row.substr(0, 57))) << place;
    }
}

}  // namespace
}  // namespace cep::tool
