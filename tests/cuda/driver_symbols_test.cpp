// SPDX-License-Identifier: Apache-2.0
//
// Drivers that lack functions. This program replaces dlsym, so that the library does not find them.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cep/cep.h"
#include "cuda_program.hpp"
#include "gpu_work.hpp"
#include "rows.hpp"
#include "sanitized.hpp"

namespace {

/// Names without their version suffix. Set after the test's own lookups.
std::vector<std::string> hidden;

[[maybe_unused]] bool is_hidden(const char* symbol) {
    for (const std::string& name : hidden)
        if (std::strncmp(symbol, name.c_str(), name.size()) == 0 &&
            (symbol[name.size()] == '\0' || symbol[name.size()] == '_'))
            return true;
    return false;
}

}  // namespace

// A sanitizer needs dlsym before anything of this program can run.
#if !CEP_TEST_SANITIZED
extern "C" void* dlsym(void* handle, const char* symbol) noexcept {
    using Lookup = void* (*)(void*, const char*);
#if defined(__x86_64__)
    static const auto real = reinterpret_cast<Lookup>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
#else
    static const auto real = reinterpret_cast<Lookup>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17"));
#endif
    return is_hidden(symbol) ? nullptr : real(handle, symbol);
}
#endif

namespace cep::test {
namespace {

using namespace cep::cuda;

/// Each test runs in its own process, because the library loads the driver's functions once.
class DriverSymbolsTest : public testing::Test {
  protected:
    void SetUp() override {
        if (CEP_TEST_SANITIZED != 0) GTEST_SKIP() << "the sanitizer replaces dlsym";
        if (dlopen(library_name, RTLD_NOW | RTLD_LOCAL) == nullptr) {
            ASSERT_EQ(std::getenv("FAKE_CUDA_EXPECTED"), nullptr) << "no libcuda.so.1";
            GTEST_SKIP() << "no driver";
        }
        std::string pattern = (std::filesystem::temp_directory_path() / "cep-symbols-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        directory = pattern;
    }
    void TearDown() override {
        if (!directory.empty()) std::filesystem::remove_all(directory);
    }

    [[noreturn]] void train(const std::vector<std::string>& lacking) const {
        const CudaProgram program = load_cuda_program();
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        if (program.library == nullptr || program.init(0) != result::success) std::_Exit(2);
        if (program.primary_ctx_retain(&context, 0) != result::success) std::_Exit(2);
        if (program.ctx_set_current(context) != result::success) std::_Exit(2);
        if (program.stream_create(&stream, stream_flags::non_blocking, 0) != result::success) std::_Exit(2);
        hidden = lacking;
        cep_options options;
        cep_profiler* profiler = nullptr;
        if (cep_options_init(&options, sizeof options) != CEP_OK) std::_Exit(3);
        options.directory = directory.c_str();
        options.rank = 0;
        options.world_size = 1;
        options.record_every_n_steps = 1;
        if (cep_open(&options, &profiler) != CEP_OK || cep_step(profiler, 0) != CEP_OK) std::_Exit(3);
        cep_region* const region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
        for (int i = 0; i < 10; ++i) cep_end(region, cep_begin(region, stream), stream);
        const int32_t code = cep_close(profiler, 60'000);
        std::fflush(nullptr);
        std::_Exit(code == CEP_OK ? 0 : 4);
    }

    /// The rows of a process whose driver lacks these functions.
    [[nodiscard]] Rows rows_without(const std::vector<std::string>& lacking) const {
        std::fflush(nullptr);
        const pid_t child = fork();
        if (child == 0) train(lacking);
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status)) << status;
        EXPECT_EQ(WEXITSTATUS(status), 0);
        return Rows(directory + "/cuda_events_rank_0.jsonl");
    }

    void expect_spans_on(const std::string& clock, const Rows& written) const {
        ASSERT_EQ(written.spans("forward").size(), 10U);
        for (const Row& row : written.spans("forward")) EXPECT_EQ(row.clock(), clock);
    }

    std::string directory;
};

TEST_F(DriverSymbolsTest, CompleteDriverTimesOnTheGpu) {
    expect_spans_on("gpu", rows_without({}));
}

TEST_F(DriverSymbolsTest, DriverWithoutOptionalFunctionsIsAccepted) {
    expect_spans_on("gpu", rows_without({"cuMemGetInfo", "cuDeviceGetPCIBusId", "cuStreamGetCtx", "cuStreamGetId",
                                         "cuGetErrorString"}));
}

TEST_F(DriverSymbolsTest, DriverWithoutContextIdsIsAccepted) {
    expect_spans_on("gpu", rows_without({"cuCtxGetId"}));
}

TEST_F(DriverSymbolsTest, DriverWithoutEventFunctionsMeansTheHostClock) {
    for (const char* needed : {"cuEventRecord", "cuEventQuery", "cuEventElapsedTime"}) {
        expect_spans_on("host", rows_without({needed}));
        std::filesystem::remove(directory + "/cuda_events_rank_0.jsonl");
    }
}

}  // namespace
}  // namespace cep::test
