// SPDX-License-Identifier: Apache-2.0
//
// The order of merged rows, against a plain sort by keys that are written down here as cep-merge(1) describes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "merge/merger.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

/// Section, its three numbers, the file, and the line in the file.
using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, int, int>;
struct KeyedRow {
    Key key;
    std::string text;
};
using Rows = std::vector<KeyedRow>;

/// Makes rows whose keys have few different values, so that rows tie in each part of the key. A file has one attempt
/// and begins with a run row for each rank, as the library writes it.
class RowMaker {
  public:
    explicit RowMaker(std::uint64_t seed) : random_(seed) {}

    KeyedRow make(int file, int line) {
        const std::int64_t step = pick(4);
        const bool begins = line < ranks;
        const std::int64_t rank = begins ? line : pick(ranks);
        const std::int64_t start = pick(3);
        const std::int64_t attempt = 1 + file % 3;
        const auto format = [file, line](const char* text, auto... numbers) {
            char row[256];
            std::snprintf(row, sizeof row, text, static_cast<long long>(numbers)...);
            return std::string(row) + R"(,"meta":{"file":)" + std::to_string(file) + R"(,"line":)" +
                   std::to_string(line) + "}}";
        };
        switch (begins ? 0 : pick(7)) {
            case 0:
                return {
                    {0, rank, start, attempt, file, line},
                    format(R"({"type":"run","schema":1,"rank":%lld,"start_unix_ns":%lld,"attempt":%lld,"run_id":"a")",
                           rank, start, attempt)};
            case 1:
                return {{3, rank, start, attempt, file, line},
                        format(R"({"type":"stats","rank":%lld,"start_ns":%lld,"attempt":%lld,"step":1)", rank, start,
                               attempt)};
            case 2:
                return {{2, 0, 0, 0, file, line}, format(R"({"type":"later","rank":%lld)", rank)};
            case 3:
                return {{1, step, INT64_MIN, rank, file, line},
                        format(R"({"name":"f","step":%lld,"rank":%lld,"duration_ms":1)", step, rank)};
            case 4:
                return {
                    {1, step, start, rank, file, line},
                    format(R"({"type":"mark","name":"m","step":%lld,"start_ns":%lld,"rank":%lld)", step, start, rank)};
            default:
                return {{1, step, start, rank, file, line},
                        format(R"({"name":"f","step":%lld,"start_ns":%lld,"rank":%lld,"duration_ms":1)", step, start,
                               rank)};
        }
    }

  private:
    static constexpr int ranks = 3;
    std::int64_t pick(int choices) { return std::uniform_int_distribution<int>(0, choices - 1)(random_); }
    std::mt19937_64 random_;
};

/// Gives the rows of one file to a sorter as reading it does.
void add_file(RowSorter& sorter, RunIndex& runs, const MergeOptions& options, const Rows& rows, int number) {
    FileMerge merge(options, sorter, runs, static_cast<std::size_t>(number));
    RunTracker tracker;
    for (const KeyedRow& row : rows) {
        const ParsedRow parsed(row.text);
        ASSERT_NE(parsed.get(), nullptr) << row.text << ": " << parsed.why();
        merge.take(*parsed, tracker.observe(*parsed), 0);
    }
    merge.end(tracker);
}

struct Sizes {
    int files;
    int rows;
    std::size_t memory_bytes;
};

class MergeOrder : public testing::TestWithParam<Sizes> {};

TEST_P(MergeOrder, IsThatOfAPlainSort) {
    const Sizes sizes = GetParam();
    RowMaker maker(static_cast<std::uint64_t>(sizes.files + sizes.rows));
    RowSorter sorter(sizes.memory_bytes, testing::TempDir());
    RunIndex runs;
    const MergeOptions options;
    Rows all;
    for (int file = 0; file < sizes.files; ++file) {
        Rows rows;
        for (int line = 0; line < sizes.rows; ++line) rows.push_back(maker.make(file, line));
        add_file(sorter, runs, options, rows, file);
        all.insert(all.end(), rows.begin(), rows.end());
    }
    std::sort(all.begin(), all.end(), [](const KeyedRow& a, const KeyedRow& b) { return a.key < b.key; });
    std::size_t next = 0;
    sorter.finish([&](const RowEntry&, std::string_view text) {
        ASSERT_LT(next, all.size());
        EXPECT_EQ(text, all[next++].text);
    });
    EXPECT_EQ(next, all.size());
}

INSTANTIATE_TEST_SUITE_P(Sizes, MergeOrder,
                         testing::Values(Sizes{1, 1, 1 << 20}, Sizes{1, 500, 1 << 20}, Sizes{2, 1, 1},
                                         Sizes{7, 90, 1 << 20}, Sizes{7, 90, 20'000}, Sizes{5, 400, 1'000},
                                         Sizes{40, 30, 1}),
                         [](const testing::TestParamInfo<Sizes>& sizes) {
                             return std::to_string(sizes.param.files) + "Files" + std::to_string(sizes.param.rows) +
                                    "Rows" + std::to_string(sizes.param.memory_bytes) + "Bytes";
                         });

}  // namespace
}  // namespace cep::tool
