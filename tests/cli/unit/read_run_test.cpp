// SPDX-License-Identifier: Apache-2.0
#include "read/read_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "own_path.hpp"
#include "rows.hpp"

namespace cep::tool {
namespace {

/// The lines and steps of one file, in the order they came in.
class StepSink : public RowSink {
  public:
    explicit StepSink(std::int64_t failing_step) : failing_step_(failing_step) {}
    void take(const Row& row, RunOfRow, std::uint64_t line) override {
        if (row.step == failing_step_) throw std::runtime_error("step " + std::to_string(*row.step));
        EXPECT_EQ(line, steps.size() + 1);
        steps.push_back(row.step.value_or(-1));
    }
    void end(const RunTracker&) override { ended = true; }

    std::vector<std::int64_t> steps;
    bool ended = false;

  private:
    std::int64_t failing_step_;
};

class ReadRun : public testing::TestWithParam<unsigned> {
  protected:
    ReadRun() { std::filesystem::create_directories(folder_); }
    ~ReadRun() override { std::filesystem::remove_all(folder_); }

    // Steps of file n: n × 100,000 and up.
    void write_files(const std::vector<int>& row_counts) {
        for (std::size_t n = 0; n < row_counts.size(); ++n) {
            const std::string path = folder_ + "/" + std::to_string(n) + ".jsonl";
            std::ofstream file(path);
            for (int row = 0; row < row_counts[n]; ++row)
                file << span_json(0, static_cast<int>(n) * 100'000 + row, row) << '\n';
            file.flush();
            // As if larger, so that as many threads are started as are asked for.
            set_.files.push_back({path, std::uint64_t{64} << 20, std::nullopt});
        }
    }
    InputCounts read(std::int64_t failing_step = -1) {
        RunSelection all({RunChoice::Mode::all, ""});
        taken_.clear();
        return read_run(
            set_, {GetParam(), {1000, 1U << 20}}, all, [] {},
            [&](const InputFile&, std::size_t) { return std::make_unique<StepSink>(failing_step); },
            [&](StepSink&& sink, FileReport&& report) {
                EXPECT_TRUE(sink.ended);
                EXPECT_EQ(report.rows, sink.steps.size());
                taken_.push_back(std::move(sink.steps));
            });
    }

    std::string folder_ = own_path("cep-read-run-") + std::to_string(GetParam());
    InputSet set_;
    std::vector<std::vector<std::int64_t>> taken_;
};

TEST_P(ReadRun, GivesFilesAndRowsInOrder) {
    const std::vector<int> row_counts{2000, 1, 0, 300, 300, 300, 5, 5, 5, 5, 5000, 7};
    write_files(row_counts);
    EXPECT_EQ(read().rows, 7928U);
    ASSERT_EQ(taken_.size(), row_counts.size());
    for (std::size_t n = 0; n < row_counts.size(); ++n) {
        ASSERT_EQ(taken_[n].size(), static_cast<std::size_t>(row_counts[n]));
        for (std::size_t row = 0; row < taken_[n].size(); ++row)
            ASSERT_EQ(taken_[n][row], static_cast<std::int64_t>(n * 100'000 + row));
    }
}

TEST_P(ReadRun, ReadsOneFile) {
    write_files({20'000});
    EXPECT_EQ(read().rows, 20'000U);
    EXPECT_TRUE(std::is_sorted(taken_.front().begin(), taken_.front().end()));
}

TEST_P(ReadRun, ThrowsOnWhatASinkThrowsAndTakesTheFilesBefore) {
    write_files({500, 500, 500, 500, 500});
    EXPECT_THROW(
        try { read(300'123); } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "step 300123");
            throw;
        },
        std::runtime_error);
    EXPECT_EQ(taken_.size(), 3U);
}

TEST_P(ReadRun, ThrowsOnWhatTheTakerThrows) {
    write_files({50, 50, 50});
    const auto make = [](const InputFile&, std::size_t) { return std::make_unique<StepSink>(-1); };
    const auto take = [](StepSink&& sink, FileReport&&) {
        if (sink.steps.front() == 100'000) throw std::logic_error("taken");
    };
    RunSelection all({RunChoice::Mode::all, ""});
    EXPECT_THROW(read_run(
                     set_, {GetParam(), {}}, all, [] {}, make, take),
                 std::logic_error);
}

TEST_P(ReadRun, AFileThatIsNotThereStopsNothing) {
    write_files({10, 10});
    set_.files.insert(set_.files.begin() + 1, {folder_ + "/nowhere", 0, std::nullopt});
    const InputCounts counts = read();
    EXPECT_EQ(counts.rows, 20U);
    EXPECT_EQ(counts.unreadable_files, 1U);
    EXPECT_EQ(taken_.size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(Threads, ReadRun, testing::Values(1U, 2U, 7U));

}  // namespace
}  // namespace cep::tool
