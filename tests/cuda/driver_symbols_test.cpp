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
#include "fake_controls.hpp"
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

    /// A thread with a context and a stream of its own, and a profiler of a driver that lacks these functions.
    struct Job {
        CudaProgram program = load_cuda_program();
        fake_cuda::Controls fake = fake_cuda::load_controls(program);
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        cep_profiler* profiler = nullptr;

        Job(const std::string& directory, const std::vector<std::string>& lacking) {
            if (program.library == nullptr || program.init(0) != result::success) std::_Exit(2);
            if (program.ctx_create(&context, 0, 0) != result::success) std::_Exit(2);
            if (program.stream_create(&stream, stream_flags::non_blocking, 0) != result::success) std::_Exit(2);
            hidden = lacking;
            cep_options options;
            if (cep_options_init(&options, sizeof options) != CEP_OK) std::_Exit(3);
            options.directory = directory.c_str();
            options.rank = 0;
            options.world_size = 1;
            options.record_every_n_steps = 1;
            if (cep_open(&options, &profiler) != CEP_OK || cep_step(profiler, 0) != CEP_OK) std::_Exit(3);
        }
        void record_spans() const {
            cep_region* const region = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
            for (int i = 0; i < 10; ++i) cep_end(region, cep_begin(region, stream), stream);
        }
        void close() const {
            if (cep_close(profiler, 60'000) != CEP_OK) std::_Exit(4);
        }
        void destroy_context() const {
            if (program.ctx_destroy(context) != result::success) std::_Exit(5);
        }
    };

    /// The rows of a process whose driver lacks these functions. `body` is what its job does.
    template <class Body>
    [[nodiscard]] Rows rows_without(const std::vector<std::string>& lacking, Body body) const {
        std::fflush(nullptr);
        const pid_t child = fork();
        if (child == 0) {
            const Job job(directory, lacking);
            body(job);
            std::fflush(nullptr);
            std::_Exit(0);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status)) << status;
        EXPECT_EQ(WEXITSTATUS(status), 0);
        return Rows(directory + "/cuda_events_rank_0.jsonl");
    }
    [[nodiscard]] Rows rows_without(const std::vector<std::string>& lacking) const {
        return rows_without(lacking, [](const Job& job) {
            job.record_spans();
            job.close();
        });
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

// What cep.h tells the users of such a driver to do.
TEST_F(DriverSymbolsTest, WithoutContextIdsAProfilerThatIsClosedFirstUsesNoDestroyedContext) {
    expect_spans_on("gpu", rows_without({"cuCtxGetId"}, [](const Job& job) {
                        job.record_spans();
                        job.close();
                        job.destroy_context();
                        if (job.program.is_fake() && job.fake.misuse_count() > 0) std::_Exit(6);
                    }));
}

// Why they have to: nothing else tells whether a context still exists. A real driver may end the process then.
TEST_F(DriverSymbolsTest, WithoutContextIdsAProfilerThatIsStillOpenUsesTheDestroyedContext) {
    if (!load_cuda_program().is_fake()) GTEST_SKIP() << "a real driver may end the process";
    expect_spans_on("gpu", rows_without({"cuCtxGetId"}, [](const Job& job) {
                        job.record_spans();
                        if (cep_flush(job.profiler, 60'000) != CEP_OK) std::_Exit(4);
                        job.destroy_context();
                        job.close();
                        if (job.fake.misuse_count() == 0) std::_Exit(6);
                    }));
}

// With ids, the same program is right: reading the id of a context is all that the library does with a destroyed one.
TEST_F(DriverSymbolsTest, WithContextIdsAProfilerThatIsStillOpenOnlyReadsTheId) {
    if (!load_cuda_program().is_fake()) GTEST_SKIP() << "needs the fake's counts";
    expect_spans_on("gpu", rows_without({}, [](const Job& job) {
                        job.record_spans();
                        if (cep_flush(job.profiler, 60'000) != CEP_OK) std::_Exit(4);
                        job.destroy_context();
                        job.close();
                        if (job.fake.misuse_count() != 1) std::_Exit(6);
                        if (std::string(job.fake.last_misuse()) != "a context that does not exist") std::_Exit(7);
                    }));
}

TEST_F(DriverSymbolsTest, DriverWithoutEventFunctionsMeansTheHostClock) {
    for (const char* needed : {"cuEventRecord", "cuEventQuery", "cuEventElapsedTime"}) {
        expect_spans_on("host", rows_without({needed}));
        std::filesystem::remove(directory + "/cuda_events_rank_0.jsonl");
    }
}

}  // namespace
}  // namespace cep::test
