// SPDX-License-Identifier: Apache-2.0
#include "rank_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

using cep::RankFile;
using cep::RowBlock;

class RankFileTest : public testing::Test {
  protected:
    RankFileTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "cep_rank_file_XXXXXX").string();
        directory_ = mkdtemp(pattern.data());
        config_.directory = directory_ + "/a/b";
    }
    ~RankFileTest() override { std::filesystem::remove_all(directory_); }

    [[nodiscard]] std::string path() const { return config_.directory + "/cuda_events_rank_0.jsonl"; }
    [[nodiscard]] std::string contents() const {
        std::ostringstream text;
        text << std::ifstream(path()).rdbuf();
        return text.str();
    }
    void given(const std::string& text) const {
        std::filesystem::create_directories(config_.directory);
        std::ofstream(path()) << text;
    }
    static void add(RowBlock& block, const std::string& line, bool measurement = true) {
        block.text += line + "\n";
        block.finish_row(measurement);
    }

    cep::Config config_;
    std::string directory_;
};

TEST_F(RankFileTest, MakesItsDirectoriesAndAppends) {
    for (const char* line : {"one", "two"}) {
        RankFile file;
        ASSERT_EQ(file.open(config_), CEP_OK);
        RowBlock block;
        add(block, line);
        EXPECT_TRUE(file.append(block, false));
        EXPECT_TRUE(block.empty());
        EXPECT_EQ(file.written(), 1U);
    }
    EXPECT_EQ(contents(), "one\ntwo\n");
}

TEST_F(RankFileTest, CountsAttemptsByTheRunRowsBeforeIt) {
    given("{\"type\":\"run\",\"schema\":1,\"run_id\":\"x\",\"attempt\":3}\n{\"name\":\"attempt\",\"attempt\":9}\n");
    RankFile file;
    ASSERT_EQ(file.open(config_), CEP_OK);
    EXPECT_EQ(file.find_attempt(), 4);
}

TEST_F(RankFileTest, StartsAtAttemptOne) {
    RankFile file;
    ASSERT_EQ(file.open(config_), CEP_OK);
    EXPECT_EQ(file.find_attempt(), 1);
}

TEST_F(RankFileTest, StartsAFreshLineAfterOneThatWasCutOff) {
    given("{\"name\":\"forwa");
    RankFile file;
    ASSERT_EQ(file.open(config_), CEP_OK);
    EXPECT_EQ(file.find_attempt(), 1);
    RowBlock block;
    add(block, "new");
    EXPECT_TRUE(file.append(block, false));
    EXPECT_EQ(contents(), "{\"name\":\"forwa\nnew\n");
}

TEST_F(RankFileTest, DropsMeasurementsPastTheLimitAndKeepsItsOwnRows) {
    config_.max_file_bytes = 10;
    RankFile file;
    ASSERT_EQ(file.open(config_), CEP_OK);
    RowBlock block;
    add(block, "12345678");
    add(block, "a span");
    add(block, "stats", false);
    EXPECT_TRUE(file.append(block, false));
    EXPECT_EQ(contents(), "12345678\nstats\n");
    EXPECT_EQ(file.written(), 1U);
    EXPECT_EQ(file.dropped_file(), 1U);
}

/// The file may grow by so many bytes, as on a disk that is nearly full.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) {
        std::signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before_);
        rlimit limit = before_;
        limit.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;
    ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

  private:
    rlimit before_{};
};

TEST_F(RankFileTest, FinishesALineThatAFullDiskInterrupted) {
    RankFile file;
    ASSERT_EQ(file.open(config_), CEP_OK);
    RowBlock block;
    add(block, "first");
    add(block, "second");
    {
        const FileSizeLimit full(9);
        EXPECT_FALSE(file.append(block, false));
        EXPECT_EQ(contents(), "first\nsec");
        EXPECT_EQ(file.written(), 1U);
    }
    add(block, "third");
    EXPECT_TRUE(file.append(block, false));
    EXPECT_EQ(contents(), "first\nsecond\nthird\n");
    EXPECT_EQ(file.written(), 3U);
    EXPECT_EQ(file.dropped_io(), 0U);
}

TEST_F(RankFileTest, CountsWhatAFullDiskCostAndStartsAFreshLineLater) {
    RankFile file;
    ASSERT_EQ(file.open(config_), CEP_OK);
    RowBlock block;
    add(block, "first");
    add(block, "second");
    add(block, "stats", false);
    {
        const FileSizeLimit full(9);
        EXPECT_FALSE(file.append(block, true));
    }
    EXPECT_TRUE(block.empty());
    EXPECT_EQ(file.dropped_io(), 1U);
    add(block, "third");
    EXPECT_TRUE(file.append(block, true));
    EXPECT_EQ(contents(), "first\nsec\nthird\n");
}

TEST_F(RankFileTest, KeepsABoundedBacklogWhileItCannotWrite) {
    RankFile file;
    ASSERT_EQ(file.open(config_), CEP_OK);
    const FileSizeLimit full(0);
    RowBlock block;
    const std::string line(1000, 'x');
    for (int i = 0; i < 10000; ++i) {
        add(block, line);
        if (i % 100 == 0) {
            EXPECT_FALSE(file.append(block, false));
        }
        ASSERT_LT(block.text.size(), RankFile::backlog_limit_bytes + 200 * line.size());
    }
    EXPECT_GT(file.dropped_io(), 0U);
    EXPECT_EQ(file.dropped_io() + block.measurements(), 10000U);
}

}  // namespace
