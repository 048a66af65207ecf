// SPDX-License-Identifier: Apache-2.0
//
// The environment of a benchmark: a GPU with one context and work for it, a profiler, and timers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "cep/cep.h"
#include "gpu_work.hpp"

namespace cep::bench {

inline constexpr int skipped_status = 77;  ///< test harnesses read it as "skipped"

[[nodiscard]] inline std::int64_t clock_ns(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

[[nodiscard]] inline std::int64_t now_ns() {
    return clock_ns(CLOCK_MONOTONIC);
}

/// Ends the benchmark if a call fails that its results depend on.
inline void require(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "failed: %s (cep: %s)\n", what, cep_last_error());
    std::exit(1);
}

/// Prevents the compiler from removing a loop whose result is unused.
template <class T>
inline void keep(const T& value) {
    asm volatile("" : : "r,m"(value) : "memory");
}

/// The first GPU, with its primary context current on the calling thread. Without a driver the program ends as skipped.
class Gpu {
  public:
    Gpu() : program_(cuda::load_cuda_program()) {
        int devices = 0;
        if (program_.library == nullptr || program_.init(0) != 0 || program_.device_get_count(&devices) != 0 ||
            devices == 0) {
            std::fprintf(stderr, "skipped: no CUDA driver with a device\n");
            std::exit(skipped_status);
        }
        require(program_.primary_ctx_retain(&context_, 0) == 0, "cuDevicePrimaryCtxRetain");
        enter();
        work_ = cuda::GpuWork(program_);
        require(work_.error() == 0, "loading the spin kernel");
        announce();
    }

    [[nodiscard]] const cuda::CudaProgram& program() const { return program_; }
    [[nodiscard]] bool is_fake() const { return program_.is_fake(); }

    /// Makes the context current on the calling thread.
    void enter() const { require(program_.ctx_set_current(context_) == 0, "cuCtxSetCurrent"); }

    [[nodiscard]] cuda::CUstream make_stream() const {
        cuda::CUstream stream = nullptr;
        require(program_.stream_create_plain(&stream, cuda::stream_flags::non_blocking) == 0, "cuStreamCreate");
        return stream;
    }
    [[nodiscard]] cuda::CUevent make_event() const {
        cuda::CUevent event = nullptr;
        require(program_.event_create(&event, cuda::event_flags::normal) == 0, "cuEventCreate");
        return event;
    }
    void record(cuda::CUevent event, cuda::CUstream stream) const {
        require(program_.event_record(event, stream) == 0, "cuEventRecord");
    }
    void spin(cuda::CUstream stream, std::uint64_t duration_ns) const {
        require(work_.spin(stream, duration_ns) == 0, "launching the spin kernel");
    }
    void synchronize() const { require(program_.ctx_synchronize() == 0, "cuCtxSynchronize"); }
    [[nodiscard]] double elapsed_us(cuda::CUevent begin, cuda::CUevent end) const {
        float elapsed_ms = 0;
        require(program_.event_elapsed_time(&elapsed_ms, begin, end) == 0, "cuEventElapsedTime");
        return static_cast<double>(elapsed_ms) * 1e3;
    }

  private:
    void announce() const {
        char name[256] = "";
        int version = 0;
        (void)program_.device_get_name(name, sizeof name, 0);
        (void)program_.driver_get_version(&version);
        std::printf("device: %s, CUDA %d.%d%s\n", name, version / 1000, version % 1000 / 10,
                    is_fake() ? "   *** FAKE DRIVER: these figures say nothing about a GPU ***" : "");
    }

    cuda::CudaProgram program_;
    cuda::CUcontext context_ = nullptr;
    cuda::GpuWork work_;
};

/// A profiler in a temporary directory, which is removed with it.
class OpenProfiler {
  public:
    /// `configure(options)` may change options. By default only steps divisible by 2 are recorded, and rows are written
    /// only by a flush.
    template <class Configure>
    explicit OpenProfiler(Configure configure) {
        std::string pattern = (std::filesystem::temp_directory_path() / "cep_bench_XXXXXX").string();
        require(mkdtemp(pattern.data()) != nullptr, "mkdtemp");
        directory_ = pattern;
        cep_options options;
        require(cep_options_init(&options, sizeof options) == CEP_OK, "cep_options_init");
        options.directory = directory_.c_str();
        options.record_every_n_steps = 2;
        options.flush_every_n_steps = INT64_MAX;
        configure(options);
        require(cep_open(&options, &profiler_) == CEP_OK, "cep_open");
        record(true);
    }
    OpenProfiler() : OpenProfiler([](cep_options&) {}) {}
    OpenProfiler(const OpenProfiler&) = delete;
    OpenProfiler& operator=(const OpenProfiler&) = delete;
    ~OpenProfiler() {
        (void)cep_close(profiler_, 5000);
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }

    /// Goes to a step that is recorded, or to one that is not.
    void record(bool recorded) { require(cep_step(profiler_, recorded ? 2 : 1) == CEP_OK, "cep_step"); }
    void flush() { require(cep_flush(profiler_, 20'000) == CEP_OK, "cep_flush"); }
    [[nodiscard]] cep_region* region(const char* name) const {
        cep_region* region = cep_region_get(profiler_, name, CEP_KIND_AUTO);
        require(region != nullptr, "cep_region_get");
        return region;
    }
    [[nodiscard]] cep_stats stats() const {
        cep_stats stats{};
        stats.struct_size = sizeof stats;
        require(cep_get_stats(profiler_, &stats) == CEP_OK, "cep_get_stats");
        return stats;
    }
    /// The number of lost spans.
    [[nodiscard]] std::uint64_t lost() const {
        const cep_stats now = stats();
        return now.dropped_ring + now.dropped_slots + now.dropped_pool + now.dropped_file + now.dropped_io +
               now.capture_skipped + now.abandoned;
    }
    [[nodiscard]] cep_profiler* get() const { return profiler_; }

  private:
    std::string directory_;
    cep_profiler* profiler_ = nullptr;
};

/// The CPU clock id of a thread of this process, in the encoding of Linux (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED).
[[nodiscard]] inline clockid_t thread_cpu_clock(pid_t thread_id) {
    return static_cast<clockid_t>(~static_cast<unsigned int>(thread_id) << 3 | 6);
}

/// The library's threads in this process, by their names.
class LibraryThreads {
  public:
    void find() {
        clocks_.clear();
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            char comm[64] = "";
            std::FILE* file = std::fopen((task.path() / "comm").c_str(), "r");
            if (file == nullptr) continue;
            const bool ours = std::fgets(comm, sizeof comm, file) != nullptr && std::strncmp(comm, "cep-", 4) == 0;
            std::fclose(file);
            if (ours)
                clocks_.push_back(thread_cpu_clock(static_cast<pid_t>(std::stol(task.path().filename().string()))));
        }
    }
    [[nodiscard]] bool empty() const noexcept { return clocks_.empty(); }
    [[nodiscard]] std::int64_t cpu_ns() const noexcept {
        std::int64_t sum_ns = 0;
        for (const clockid_t clock : clocks_) sum_ns += clock_ns(clock);
        return sum_ns;
    }

  private:
    std::vector<clockid_t> clocks_;
};

/// A size from a line of /proc/self/status: "VmRSS:", "VmHWM:".
[[nodiscard]] inline double status_mib(const char* key) {
    std::FILE* file = std::fopen("/proc/self/status", "r");
    require(file != nullptr, "/proc/self/status");
    double mib = 0;
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr)
        if (std::strncmp(line, key, std::strlen(key)) == 0) mib = std::strtod(line + std::strlen(key), nullptr) / 1024;
    std::fclose(file);
    return mib;
}

/// The number after `--name=`, or `otherwise`.
[[nodiscard]] inline long option(int count, char** arguments, const char* name, long otherwise) {
    const std::string prefix = std::string("--") + name + "=";
    for (int i = 1; i < count; ++i)
        if (std::strncmp(arguments[i], prefix.c_str(), prefix.size()) == 0)
            return std::strtol(arguments[i] + prefix.size(), nullptr, 10);
    return otherwise;
}

}  // namespace cep::bench
