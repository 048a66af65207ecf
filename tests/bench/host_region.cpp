// SPDX-License-Identifier: Apache-2.0
//
// Calls that make no CUDA call: regions on an unrecorded step, of a profiler that is off, and on the host clock.
#include <benchmark/benchmark.h>

#include <memory>

#include "machine.hpp"

namespace cep::bench {
namespace {

OpenProfiler& host_profiler() {
    static OpenProfiler profiler([](cep_options& options) { options.backend = CEP_BACKEND_HOST; });
    return profiler;
}

cep_profiler* off_profiler() {
    static cep_profiler* off = [] {
        cep_options options;
        require(cep_options_init(&options, sizeof options) == CEP_OK, "cep_options_init");
        options.enable = 0;
        cep_profiler* profiler = nullptr;
        require(cep_open(&options, &profiler) == CEP_OK, "cep_open");
        return profiler;
    }();
    return off;
}

/// The empty loop, which the other rows contain as well.
void empty_loop(benchmark::State& state) {
    for (auto _ : state) benchmark::ClobberMemory();
}

void unrecorded_region(benchmark::State& state) {
    if (state.thread_index() == 0) host_profiler().record(false);
    cep_region* region = host_profiler().region("forward");
    for (auto _ : state) cep_end(region, cep_begin(region, nullptr), nullptr);
}

void unrecorded_switch(benchmark::State& state) {
    if (state.thread_index() == 0) host_profiler().record(false);
    cep_region* region = host_profiler().region("forward");
    cep_span span = CEP_SPAN_NONE;
    for (auto _ : state) benchmark::DoNotOptimize(span = cep_switch(span, region, nullptr));
}

void region_of_a_profiler_that_is_off(benchmark::State& state) {
    cep_region* region = cep_region_get(off_profiler(), "forward", CEP_KIND_AUTO);
    for (auto _ : state) cep_end(region, cep_begin(region, nullptr), nullptr);
}

/// The two clock readings of a span on the host clock.
void two_clock_readings(benchmark::State& state) {
    for (auto _ : state) {
        benchmark::DoNotOptimize(now_ns());
        benchmark::DoNotOptimize(now_ns());
    }
}

/// Bursts fit the thread's ring; the flush after each is not timed. "ns" is a thread's time for a region. The benchmark
/// library's own column divides it by the number of threads.
void host_clock_region(benchmark::State& state) {
    constexpr int burst = 1024;
    double total_ns = 0;
    if (state.thread_index() == 0) host_profiler().record(true);
    cep_region* region = host_profiler().region("forward");
    while (state.KeepRunningBatch(burst)) {
        const std::int64_t start_ns = now_ns();
        for (int i = 0; i < burst; ++i) cep_end(region, cep_begin(region, CEP_HOST), CEP_HOST);
        const auto took_ns = static_cast<double>(now_ns() - start_ns);
        total_ns += took_ns;
        state.SetIterationTime(took_ns / 1e9);
        host_profiler().flush();
    }
    const double regions = static_cast<double>(state.iterations());
    state.counters["ns"] = benchmark::Counter(total_ns / regions, benchmark::Counter::kAvgThreads);
    if (state.thread_index() == 0) state.counters["lost"] = static_cast<double>(host_profiler().lost());
}

void counter_on_an_unrecorded_step(benchmark::State& state) {
    host_profiler().record(false);
    for (auto _ : state) benchmark::DoNotOptimize(cep_counter(host_profiler().get(), "loss", 1.0));
}

BENCHMARK(empty_loop);
BENCHMARK(unrecorded_region)->Threads(1)->Threads(8);
BENCHMARK(unrecorded_switch);
BENCHMARK(region_of_a_profiler_that_is_off);
BENCHMARK(counter_on_an_unrecorded_step);
BENCHMARK(two_clock_readings);
BENCHMARK(host_clock_region)->Threads(1)->Threads(8)->UseManualTime();

}  // namespace
}  // namespace cep::bench

BENCHMARK_MAIN();
