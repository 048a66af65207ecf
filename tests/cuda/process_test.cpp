// SPDX-License-Identifier: Apache-2.0
//
// Processes that exit without cep_close(), or fork, while work is on the GPU.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "cuda_program.hpp"
#include "rows.hpp"

extern char** environ;

namespace cep::test {
namespace {

class ProcessTest : public testing::Test {
  protected:
    void SetUp() override {
        const cuda::CudaProgram program = cuda::load_cuda_program();
        ASSERT_NE(program.library, nullptr) << "no libcuda.so.1";
        is_fake = program.is_fake();
        std::string pattern = (std::filesystem::temp_directory_path() / "cep-process-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        directory = pattern;
    }

    void TearDown() override {
        if (!directory.empty()) std::filesystem::remove_all(directory);
    }

    /// Runs the program in the folder of this one, and returns its exit status.
    [[nodiscard]] int run(const char* way) const {
        const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "process_program";
        std::string arguments[] = {program, directory, way};
        char* pointers[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
        pid_t pid = 0;
        EXPECT_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, pointers, environ), 0) << program;
        int status = 0;
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

    [[nodiscard]] Rows rows() const { return Rows(directory + "/cuda_events_rank_0.jsonl"); }

    std::string directory;
    bool is_fake = false;
};

TEST_F(ProcessTest, ExitWithoutCloseWritesWhatWasPending) {
    ASSERT_EQ(run("exit"), 0);
    const Rows written = rows();
    EXPECT_EQ(written.spans("pending").size(), 100U);
    EXPECT_EQ(written.open("left_open").size(), 1U);
    ASSERT_FALSE(written.all().empty());
    EXPECT_EQ(written.all().back().type(), "stats");
    EXPECT_EQ(written.last("stats").integer("/cuda_errors"), 0);
    EXPECT_EQ(written.last("stats").integer("/abandoned"), 0);
}

TEST_F(ProcessTest, ExitWithAHungGpuEndsAndNamesThePhase) {
    if (!is_fake) GTEST_SKIP() << "needs a GPU that hangs";
    ASSERT_EQ(run("hang"), 0);
    const Rows written = rows();
    EXPECT_EQ(written.spans("finished").size(), 1U);
    EXPECT_EQ(written.open("pending").size(), 100U);
    EXPECT_EQ(written.last("stats").integer("/abandoned"), 100);
}

TEST_F(ProcessTest, ForkedChildMakesNoDriverCallAndWritesNoRow) {
    ASSERT_EQ(run("fork"), 0);
    const Rows written = rows();
    EXPECT_EQ(written.spans("before").size(), 1U);
    EXPECT_EQ(written.spans("after").size(), 1U);
    EXPECT_EQ(written.spans("child").size(), 0U);
    // The parent writes a second run row at the first use of the GPU. A row from the child would only repeat one.
    std::set<std::string> runs;
    for (const Row& run : written.of_type("run")) EXPECT_TRUE(runs.insert(run.text).second) << run.text;
    EXPECT_FALSE(runs.empty());
}

}  // namespace
}  // namespace cep::test
