// SPDX-License-Identifier: Apache-2.0
#include "write/rank_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

using namespace cep;

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
    static void add(RowBlock& block, const std::string& line, RowKind kind = RowKind::measurement) {
        block.text += line + "\n";
        block.finish_row(kind);
    }
    void open(RankFile& file) const {
        bool busy = false;
        ASSERT_EQ(file.open(config_, busy), CEP_OK) << cep_last_error();
        ASSERT_FALSE(busy);
    }
    [[nodiscard]] std::int64_t attempt() const {
        cep::RankDescriptor descriptor;
        RankFile file(descriptor);
        open(file);
        return file.attempt();
    }

    cep::Config config_;
    std::string directory_;
    cep::RankDescriptor descriptor_;
    RankFile file_{descriptor_};
    RowBlock block_;
    std::int64_t now_ns_ = 0;
};

TEST_F(RankFileTest, CountsAttemptsByTheRunRowsBeforeIt) {
    given("{\"type\":\"run\",\"schema\":1,\"run_id\":\"x\",\"attempt\":3}\n{\"name\":\"attempt\",\"attempt\":9}\n");
    EXPECT_EQ(attempt(), 4);
}

TEST_F(RankFileTest, CountsAttemptsByStatsRowsToo) {
    given(
        "{\"name\":\"x\"}\n{\"type\":\"stats\",\"rank\":0,\"step\":7,\"attempt\":5,\"recorded\":1}\n{\"name\":\"y\"}"
        "\n");
    EXPECT_EQ(attempt(), 6);
}

TEST_F(RankFileTest, TakesTheLastRowThatNamesAnAttempt) {
    given("{\"type\":\"run\",\"attempt\":9}\n{\"type\":\"run\",\"attempt\":2}\n{\"name\":\"y\"}\n");
    EXPECT_EQ(attempt(), 3);
}

/// So many bytes of lines that are no rows.
std::string lines_of(std::size_t bytes) {
    std::string text(bytes, 'x');
    for (std::size_t at = 99; at < bytes; at += 100) text[at] = '\n';
    if (bytes > 0) text.back() = '\n';
    return text;
}

TEST_F(RankFileTest, FindsAnAttemptWhereverTheBlocksItReadsCutItsRow) {
    constexpr std::size_t block_bytes = 256 * 1024;
    const std::string run = "{\"type\":\"run\",\"schema\":1,\"attempt\":41}\n";
    for (const std::size_t blocks : {1U, 2U, 4U})
        for (std::size_t cut = 0; cut <= run.size(); ++cut) {
            given("{\"name\":\"first\"}\n" + run + lines_of(blocks * block_bytes - cut));
            ASSERT_EQ(attempt(), 42) << cut << " bytes of the row are before the end of block " << blocks;
        }
}

TEST_F(RankFileTest, FindsAnAttemptNearlyAsFarBackAsItSearches) {
    given("{\"name\":\"first\"}\n{\"type\":\"run\",\"attempt\":41}\n" + lines_of(8'000'000));
    EXPECT_EQ(attempt(), 42);
}

TEST_F(RankFileTest, FindsAnAttemptAtTheEndOfALongRowThatABlockCuts) {
    const std::string run = R"({"type":"run","run_id":")" + std::string(1900, 'i') +
                            R"(","attempt":41})"
                            "\n";
    for (const std::size_t behind : {262'144U - 1930U, 262'144U - 1000U, 262'144U - 1U}) {
        given("{\"name\":\"first\"}\n" + run + lines_of(behind));
        EXPECT_EQ(attempt(), 42) << behind;
    }
}

TEST_F(RankFileTest, ReadsTheBeginningOfAFileWithoutAnAttemptAtItsEnd) {
    std::string text = "{\"type\":\"run\",\"attempt\":6}\n";
    text.append(20U << 20, 'x');
    text += '\n';
    given(text);
    EXPECT_EQ(attempt(), 7);
}

/// What of the rows is written into a file with that limit.
class FileLimitTest : public RankFileTest {
  protected:
    [[nodiscard]] std::string written(std::int64_t limit_bytes, const std::string& line, RowKind kind) {
        config_.max_file_bytes = limit_bytes;
        open(file_);
        add(block_, line, kind);
        EXPECT_TRUE(file_.append(block_, now_ns_, false));
        return contents();
    }
};

// In 8192 bytes, 2048 are kept for the profiler's own rows, and 1024 of these for the last.
struct Share {
    RowKind kind;
    std::size_t bytes;
};
class ShareTest : public FileLimitTest, public testing::WithParamInterface<Share> {};

TEST_P(ShareTest, TakesARowThatFillsItExactly) {
    const std::string line(GetParam().bytes - 1, 'x');
    EXPECT_EQ(written(8192, line, GetParam().kind), line + "\n");
    EXPECT_EQ(file_.dropped_file(), 0U);
}

TEST_P(ShareTest, RefusesARowOfOneByteMore) {
    EXPECT_EQ(written(8192, std::string(GetParam().bytes, 'x'), GetParam().kind), "");
    EXPECT_EQ(file_.dropped_file(), GetParam().kind == RowKind::measurement ? 1U : 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShareTest,
                         testing::Values(Share{RowKind::measurement, 6144}, Share{RowKind::bookkeeping, 7168},
                                         Share{RowKind::closing, 8192}));

TEST_F(FileLimitTest, CountsWhatIsInTheFileAlready) {
    const std::string line(3071, 'x');
    given(line + "\n");
    EXPECT_EQ(written(8192, line, RowKind::measurement), line + "\n" + line + "\n");
    add(block_, "", RowKind::measurement);
    EXPECT_TRUE(file_.append(block_, now_ns_, false));
    EXPECT_EQ(file_.dropped_file(), 1U);
}

TEST_F(FileLimitTest, CountsWhatAnotherHasAppended) {
    EXPECT_EQ(written(8192, "x", RowKind::measurement), "x\n");
    const std::string others(6000, 'y');
    std::ofstream(path(), std::ios::app) << others;
    const std::int64_t later_ns = cep::monotonic_ns() + RankFile::check_interval_ns + cep::ns_per_s;
    EXPECT_EQ(file_.check(later_ns, false, false), RankFile::Change::none);
    add(block_, std::string(150, 'z'));
    EXPECT_TRUE(file_.append(block_, now_ns_, false));
    EXPECT_EQ(contents(), "x\n" + others);
    EXPECT_EQ(file_.dropped_file(), 1U);
}

TEST_F(FileLimitTest, CountsTheNewlineThatEndsACutLine) {
    given("{\"name\":\"forwa");
    const std::string line(8192 - 14 - 1 - 1, 'x');
    EXPECT_EQ(written(8192, line, RowKind::closing), "{\"name\":\"forwa\n" + line + "\n");
}

TEST_F(FileLimitTest, HasNoRoomForOneByteMoreBehindACutLine) {
    given("{\"name\":\"forwa");
    EXPECT_EQ(written(8192, std::string(8192 - 14 - 1, 'x'), RowKind::closing), "{\"name\":\"forwa");
}

/// Lets the file grow by this many bytes, as on a disk that is nearly full.
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

TEST_F(RankFileTest, CountsRowsLostToAFullDiskAndStartsANewLineLater) {
    open(file_);
    add(block_, "first");
    add(block_, "second");
    add(block_, "stats", RowKind::bookkeeping);
    {
        const FileSizeLimit full(9);
        EXPECT_FALSE(file_.append(block_, now_ns_, true));
        file_.give_up(block_);
    }
    EXPECT_TRUE(block_.empty());
    EXPECT_EQ(file_.dropped_io(), 1U);
    add(block_, "third");
    EXPECT_TRUE(file_.append(block_, now_ns_, true));
    EXPECT_EQ(contents(), "first\nsec\nthird\n");
}

TEST_F(RankFileTest, RetriesMoreAndMoreRarelyAndReportsFailureAndRecoveryOnce) {
    open(file_);
    add(block_, "row");
    int tries = 0;
    {
        const FileSizeLimit full(0);
        EXPECT_FALSE(file_.append(block_, now_ns_, false));
        EXPECT_NE(file_.take_notice().find(path()), std::string::npos);
        for (; now_ns_ < 60 * cep::ns_per_s; now_ns_ += cep::ns_per_ms) {
            const bool waited = file_.next_try_ns() <= now_ns_;
            EXPECT_FALSE(file_.append(block_, now_ns_, false));
            tries += waited;
        }
        EXPECT_EQ(file_.take_notice(), "");
    }
    EXPECT_GE(tries, 12);
    EXPECT_LE(tries, 18);
    EXPECT_TRUE(file_.append(block_, now_ns_ + 5 * cep::ns_per_s, false));
    EXPECT_NE(file_.take_notice().find("written again; 0 rows were lost"), std::string::npos);
    EXPECT_EQ(contents(), "row\n");
}

TEST_F(RankFileTest, KeepsItsAttemptWhateverFileItGoesOnWith) {
    given("{\"type\":\"run\",\"attempt\":6}\n");
    open(file_);
    std::filesystem::rename(path(), path() + ".1");
    given("{\"type\":\"run\",\"attempt\":2}\n");
    EXPECT_EQ(file_.check(cep::monotonic_ns() + 6 * cep::ns_per_s, false, false), RankFile::Change::replaced);
    EXPECT_EQ(file_.attempt(), 7);
}

TEST_F(RankFileTest, NoticesThatItWasCut) {
    config_.max_file_bytes = 100;
    open(file_);
    add(block_, std::string(60, 'x'));
    EXPECT_TRUE(file_.append(block_, now_ns_, false));
    std::filesystem::resize_file(path(), 0);
    EXPECT_EQ(file_.check(cep::monotonic_ns() + 6 * cep::ns_per_s, false, false), RankFile::Change::shrunk);
    add(block_, std::string(60, 'y'));
    EXPECT_TRUE(file_.append(block_, now_ns_, false));
    EXPECT_EQ(contents(), std::string(60, 'y') + "\n");
    EXPECT_EQ(file_.dropped_file(), 0U);
}

}  // namespace
