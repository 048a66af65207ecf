// SPDX-License-Identifier: Apache-2.0
//
// The cost that cep.hpp adds to its C calls: regions on an unrecorded step and on the host clock.
#include <cep/cep.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include "../statistics.hpp"

namespace {

using cep::bench::Samples;

constexpr int rounds = 400;
constexpr int burst = 1024;  // fits the thread's ring; the flush after it is not timed

/// Nanoseconds a call within a burst.
template <typename Call>
double time_burst(cep::Profiler& profiler, Call call) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < burst; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    profiler.flush();
    return took.count() / burst;
}

/// Two ways to do one thing, in turns within each round, so that a disturbance affects both.
template <typename Native, typename Wrapped>
void compare(const std::string& what, cep::Profiler& profiler, Native native, Wrapped wrapped) {
    Samples native_ns, wrapped_ns;
    for (int round = 0; round < rounds; ++round) {
        const bool native_first = round % 2 == 0;
        if (!native_first) wrapped_ns.push_back(time_burst(profiler, wrapped));
        native_ns.push_back(time_burst(profiler, native));
        if (native_first) wrapped_ns.push_back(time_burst(profiler, wrapped));
    }
    cep::bench::print_row(what + ", C", native_ns);
    cep::bench::print_row(what + ", C++", wrapped_ns, &native_ns, "C");
}

void compare_regions(const std::string& what, cep::Profiler& profiler, cep::Region region) {
    cep_region* native = region.native();
    compare(
        what, profiler, [native] { cep_end(native, cep_begin(native, CEP_HOST), CEP_HOST); },
        [region] { const cep::Span span = region.begin(CEP_HOST); });
}

void compare_attributes(const std::string& what, cep::Profiler& profiler, cep::Region region) {
    cep_region* native = region.native();
    compare(
        what, profiler,
        [native] {
            cep_attrs attrs{};
            attrs.struct_size = sizeof attrs;
            attrs.bytes = 4096;
            attrs.group = "dp";
            attrs.coll = 7;
            cep_end(native, cep_begin_with(native, CEP_HOST, &attrs), CEP_HOST);
        },
        [region] { const cep::Span span = region.begin(CEP_HOST, cep::Attributes().bytes(4096).collective("dp", 7)); });
}

}  // namespace

int main() {
    const auto directory = std::filesystem::temp_directory_path() / "cep_bench_cpp_region";
    cep::Options options;
    options.directory(directory).record_every_n_steps(2).flush_every_n_steps(1'000'000).backend(cep::Backend::host);
    cep::Profiler profiler(options);
    const cep::Region region = profiler.region("forward");
    cep::bench::print_heading("C++: region", "ns");
    profiler.step(1);
    compare_regions("unrecorded step", profiler, region);
    profiler.step(2);
    compare_regions("recorded, host clock", profiler, region);
    compare_attributes("recorded with group, coll and bytes", profiler, region);
    std::printf("lost: %llu\n", static_cast<unsigned long long>(profiler.stats().dropped_ring));
    profiler.close();
    std::filesystem::remove_all(directory);
    return 0;
}
