// SPDX-License-Identifier: Apache-2.0
//
// A trainer that ends in an unusual way, for process_test. Arguments: the profiler's directory, and the way to end.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cep/cep.h"
#include "gpu_work.hpp"

// A forked child lacks the other threads, so memory that the C library keeps for their exit looks leaked in it.
extern "C" const char* __lsan_default_suppressions() {
    return "leak:__cxa_thread_atexit_impl\n";
}

namespace {

using namespace cep::cuda;

CudaProgram program;
CUstream stream = nullptr;
cep_profiler* profiler = nullptr;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "process_program: %s\n", what);
    std::_Exit(3);
}

void start(const char* directory) {
    program = load_cuda_program();
    require(program.library != nullptr, "no driver");
    CUcontext context = nullptr;
    require(program.init(0) == result::success, "cuInit");
    require(program.primary_ctx_retain(&context, 0) == result::success, "cuDevicePrimaryCtxRetain");
    require(program.ctx_set_current(context) == result::success, "cuCtxSetCurrent");
    require(program.stream_create(&stream, stream_flags::non_blocking, 0) == result::success, "cuStreamCreate");
    cep_options options;
    require(cep_options_init(&options, sizeof options) == CEP_OK, "cep_options_init");
    options.directory = directory;
    options.rank = 0;
    options.world_size = 1;
    options.record_every_n_steps = 1;
    require(cep_open(&options, &profiler) == CEP_OK, "cep_open");
    require(cep_step(profiler, 1) == CEP_OK, "cep_step");
}

void span(const char* name, std::uint64_t work_ns) {
    cep_region* const region = cep_region_get(profiler, name, CEP_KIND_AUTO);
    const cep_span begun = cep_begin(region, stream);
    static const GpuWork work(program);
    require(work.spin(stream, work_ns) == result::success, "launch");
    cep_end(region, begun, stream);
}

/// In the child: the profiler must not call the driver, which does not work after a fork.
int child(const fake_cuda::Controls& fake) {
    const std::uint64_t calls = fake.call_count != nullptr ? fake.call_count(nullptr) : 0;
    cep_region* const region = cep_region_get(profiler, "child", CEP_KIND_AUTO);
    for (int i = 0; i < 10; ++i) {
        (void)cep_step(profiler, i);
        cep_end(region, cep_begin(region, stream), stream);
    }
    (void)cep_flush(profiler, 1000);
    (void)cep_close(profiler, 1000);
    return fake.call_count == nullptr || fake.call_count(nullptr) == calls ? 0 : 4;
}

int fork_child() {
    const fake_cuda::Controls fake = fake_cuda::load_controls(program);
    span("before", 1000);
    require(cep_flush(profiler, 60'000) == CEP_OK, "cep_flush");
    const pid_t pid = fork();
    if (pid == 0) std::exit(child(fake));
    int status = 0;
    require(waitpid(pid, &status, 0) == pid, "waitpid");
    require(WIFEXITED(status), "the child was ended by a signal");
    span("after", 1000);
    return WEXITSTATUS(status);
}

}  // namespace

int main(int count, char** arguments) {
    require(count == 3, "two arguments");
    start(arguments[1]);
    if (std::strcmp(arguments[2], "fork") == 0) return fork_child();
    if (std::strcmp(arguments[2], "hang") == 0) {
        const fake_cuda::Controls fake = fake_cuda::load_controls(program);
        require(fake.hang != nullptr, "not the fake");
        span("finished", 1000);
        require(cep_flush(profiler, 60'000) == CEP_OK, "cep_flush");
        fake.hang();
    }
    for (int i = 0; i < 100; ++i) span("pending", 100'000);
    (void)cep_begin(cep_region_get(profiler, "left_open", CEP_KIND_AUTO), stream);
    return 0;
}
