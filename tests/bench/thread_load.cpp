// SPDX-License-Identifier: Apache-2.0
//
// The cost of the library's threads: their share of a core while a trainer records at a steady rate, their maximum of
// rows a second, and the memory of the process over very many spans.
//
//     thread_load [--seconds=N] [--spans=N] [--rows=N] [--host]
//
// --host: only the parts that need no GPU.
#include <algorithm>
#include <cinttypes>
#include <memory>

#include "machine.hpp"
#include "statistics.hpp"

namespace cep::bench {
namespace {

constexpr std::int64_t ns_per_ms = 1'000'000;

void sleep_until(std::int64_t time_ns) {
    const timespec time{static_cast<std::time_t>(time_ns / 1'000'000'000), static_cast<long>(time_ns % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
    }
}

void record_regions(cep_region* region, void* stream, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) cep_end(region, cep_begin(region, stream), stream);
}

/// Records `per_ms` regions each millisecond. Returns the library threads' share of a core in %, by second.
Samples steady_rate(const OpenProfiler& profiler, cep_region* region, void* stream, std::int64_t per_ms, long seconds) {
    Samples percent;
    std::int64_t next_ns = now_ns();
    std::int64_t step = 0;
    LibraryThreads threads;
    threads.find();
    for (long second = 0; second < seconds; ++second) {
        const std::int64_t wall_before_ns = now_ns();
        const std::int64_t cpu_before_ns = threads.cpu_ns();
        for (int ms = 0; ms < 1000; ++ms) {
            if (ms % 10 == 0) (void)cep_step(profiler.get(), ++step);  // a step of 10 ms
            record_regions(region, stream, per_ms);
            sleep_until(next_ns += ns_per_ms);
        }
        percent.push_back(100.0 * static_cast<double>(threads.cpu_ns() - cpu_before_ns) /
                          static_cast<double>(now_ns() - wall_before_ns));
    }
    return percent;
}

void print_load(const char* clock, void* stream, long seconds) {
    for (const std::int64_t per_ms : {std::int64_t{1}, std::int64_t{100}}) {
        OpenProfiler profiler([](cep_options& options) {
            options.record_every_n_steps = 1;
            options.flush_every_n_steps = 10;
        });
        cep_region* region = profiler.region("forward");
        record_regions(region, stream, 1000);  // starts the threads, fills the pools
        profiler.flush();
        const cep_stats before = profiler.stats();
        const Samples percent = steady_rate(profiler, region, stream, per_ms, seconds);
        profiler.flush();
        const cep_stats after = profiler.stats();
        const double rows = static_cast<double>(after.written - before.written);
        const Spread spread = quartiles(percent);
        std::printf("%-10s %12" PRId64 " %11.2f %11.2f %11.2f %12.0f %10" PRIu64 "\n", clock, per_ms * 1000,
                    spread.median, spread.low, spread.high, static_cast<double>(after.self_ns - before.self_ns) / rows,
                    profiler.lost());
    }
}

/// Rows formatted and written in each second of the threads' CPU time.
void rows_a_second(long rows, long rounds) {
    Samples millions;
    std::uint64_t bytes = 0;
    std::uint64_t written = 0;
    std::uint64_t lost = 0;
    for (long round = 0; round < rounds; ++round) {
        OpenProfiler profiler([](cep_options& options) {
            options.backend = CEP_BACKEND_HOST;
            options.ring_capacity = 1 << 16;
        });
        cep_region* region = profiler.region("forward");
        record_regions(region, CEP_HOST, 20'000);
        profiler.flush();
        const cep_stats before = profiler.stats();
        for (long done = 0; done < rows; done += 20'000) {
            record_regions(region, CEP_HOST, 20'000);
            profiler.flush();
        }
        const cep_stats after = profiler.stats();
        written = after.written - before.written;
        bytes = after.bytes_written - before.bytes_written;
        millions.push_back(1e3 * static_cast<double>(written) / static_cast<double>(after.self_ns - before.self_ns));
        lost += profiler.lost();
    }
    const Spread spread = quartiles(millions);
    std::printf("\nrows formatted and written, host clock, a second of the threads' CPU\n");
    std::printf("%12s %10s %10s %14s %10s\n", "million/s", "q1", "q3", "bytes a row", "lost");
    std::printf("%12.2f %10.2f %10.2f %14.1f %10" PRIu64 "\n", spread.median, spread.low, spread.high,
                static_cast<double>(bytes) / static_cast<double>(written), lost);
}

/// Resident memory before, early in and late in very many spans with the default options.
void print_memory(const char* clock, void* stream, long spans) {
    const double before_mib = status_mib("VmRSS:");
    OpenProfiler profiler;
    cep_region* region = profiler.region("forward");
    double early_mib = 0;
    constexpr long batch = 1000;
    for (long done = 0; done < spans; done += batch) {
        record_regions(region, stream, batch);
        profiler.flush();
        if (done <= spans / 10) early_mib = status_mib("VmRSS:");
    }
    const double late_mib = status_mib("VmRSS:");
    std::printf("%-10s %12ld %12.2f %12.2f %14.2f %12.2f %10" PRIu64 "\n", clock, spans, before_mib,
                early_mib - before_mib, late_mib - early_mib, status_mib("VmHWM:") - before_mib, profiler.lost());
}

}  // namespace
}  // namespace cep::bench

int main(int count, char** arguments) {
    using namespace cep::bench;
    const long seconds = option(count, arguments, "seconds", 4);
    const long spans = option(count, arguments, "spans", 1'000'000);
    const bool host_only =
        std::any_of(arguments, arguments + count, [](const char* a) { return !std::strcmp(a, "--host"); });
    const std::unique_ptr<Gpu> gpu = host_only ? nullptr : std::make_unique<Gpu>();
    const char* clock = host_only ? "host" : gpu->is_fake() ? "gpu (fake)" : "gpu";
    void* stream = host_only ? CEP_HOST : static_cast<void*>(gpu->make_stream());

    // Measure memory first, before freed memory could be reused.
    std::printf("\nresident memory, MiB\n%-10s %12s %12s %12s %14s %12s %10s\n", "clock", "spans", "before",
                "first tenth", "the rest", "peak growth", "lost");
    print_memory(clock, stream, spans);
    rows_a_second(option(count, arguments, "rows", 500'000), 7);
    std::printf("\nthreads, %% of a core, by seconds\n%-10s %12s %11s %11s %11s %12s %10s\n", "clock", "regions/s",
                "median", "q1", "q3", "CPU ns a row", "lost");
    print_load(clock, stream, seconds);
    return 0;
}
