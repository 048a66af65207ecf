// SPDX-License-Identifier: Apache-2.0
//
// A CUDA program with a profiler. After each test it checks the rules that hold for all tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <type_traits>

#include "cep/cep.h"
#include "driver_fixture.hpp"
#include "rows.hpp"
#include "stopwatch.hpp"

namespace cep::test {

using fake_cuda::driver;

inline constexpr std::uint64_t us = 1000;
inline constexpr std::uint64_t ms = 1'000'000;

/// Much longer than any wait here takes. A test that reaches it fails.
inline constexpr std::int64_t patience_ms = 60'000;

[[nodiscard]] inline std::int64_t clock_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

[[nodiscard]] inline std::int64_t host_ns() {
    return clock_ns(CLOCK_MONOTONIC);
}

/// UNIX time minus the monotonic clock, from the narrowest of several brackets.
[[nodiscard]] inline std::int64_t unix_minus_host_ns() {
    std::int64_t best = 0;
    std::int64_t width = INT64_MAX;
    for (int i = 0; i < 100; ++i) {
        const std::int64_t before = host_ns();
        const std::int64_t unix_time = clock_ns(CLOCK_REALTIME);
        const std::int64_t after = host_ns();
        if (after - before >= width) continue;
        width = after - before;
        best = unix_time - (before + after) / 2;
    }
    return best;
}

/// Whether the condition becomes true within the patience.
template <typename Condition>
[[nodiscard]] bool eventually(const Condition& condition) {
    const std::int64_t deadline_ns = host_ns() + patience_ms * static_cast<std::int64_t>(ms);
    while (!condition()) {
        if (host_ns() > deadline_ns) return false;
        std::this_thread::yield();
    }
    return true;
}

/// The library's threads in this process, which are named after it.
[[nodiscard]] inline std::ptrdiff_t thread_count() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::count_if(begin(tasks), end(tasks), [](const auto& task) {
        std::string name;
        std::ifstream(task.path() / "comm") >> name;
        return name.rfind("cep", 0) == 0;
    });
}

class ProfilerTest : public fake_cuda::DriverTest {
  protected:
    void SetUp() override {
        DriverTest::SetUp();
        threads_before_ = thread_count();
        if (HasFatalFailure() || IsSkipped()) return;
        std::string pattern = (std::filesystem::temp_directory_path() / "cep-cuda-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        directory = pattern;
        prepare();
    }

    /// What a fixture does once there are a driver and a directory.
    virtual void prepare() {}

    void TearDown() override {
        if (profiler != nullptr) {
            expect_all_accounted_for();
            (void)cep_close(profiler, patience_ms);
            expect_all_accounted_for();
        }
        if (driver().is_fake() && context != nullptr) {
            EXPECT_EQ(fake.synchronizing_call_count(), own_synchronizations_) << "the profiler made a call that waits";
            EXPECT_LE(fake.call_count("cuInit"), 1U) << "the profiler called cuInit";
            EXPECT_EQ(fake.misuse_count(), misuses_expected) << fake.last_misuse();
            EXPECT_EQ(fake.invalidated_capture_count(), 0U);
            await_abandoned_threads();
        }
        DriverTest::TearDown();
        if (!directory.empty()) std::filesystem::remove_all(directory);
    }

    /// A thread that a close gave up on still makes calls until it ends. Call it where none of them is held.
    void await_abandoned_threads() const {
        EXPECT_TRUE(eventually([&] { return thread_count() <= threads_before_; }));
    }

    [[nodiscard]] cep_options default_options() const {
        cep_options options;
        EXPECT_EQ(cep_options_init(&options, sizeof options), CEP_OK);
        options.directory = directory.c_str();
        options.rank = 0;
        options.world_size = 1;
        options.local_rank = 0;
        options.record_every_n_steps = 1;
        options.flush_every_n_steps = 1'000'000;
        return options;
    }

    /// The default options with a setting.
    template <typename Value>
    [[nodiscard]] cep_options with(Value cep_options::*member, std::type_identity_t<Value> value) const {
        cep_options options = default_options();
        options.*member = value;
        return options;
    }

    void open(const cep_options& options) {
        ASSERT_EQ(cep_open(&options, &profiler), CEP_OK) << cep_last_error();
        ASSERT_EQ(cep_step(profiler, 0), CEP_OK);
    }
    void open() { open(default_options()); }
    [[nodiscard]] CUstream open_with_stream(const cep_options& options) {
        open(options);
        return new_stream();
    }
    [[nodiscard]] CUstream open_with_stream() { return open_with_stream(default_options()); }

    [[nodiscard]] cep_region* region(const std::string& name) const {
        return cep_region_get(profiler, name.c_str(), CEP_KIND_AUTO);
    }

    /// Runs a body inside a span.
    template <typename Body>
    void span(const std::string& name, void* stream, const Body& body) const {
        cep_region* const phase = region(name);
        const cep_span begun = cep_begin(phase, stream);
        body();
        cep_end(phase, begun, stream);
    }
    void span(const std::string& name, void* stream) const {
        span(name, stream, [] {});
    }

    /// With a stream that is blocked.
    [[nodiscard]] CUstream open_plugged(const cep_options& options) {
        CUstream stream = open_with_stream(options);
        plug(stream);
        return stream;
    }

    /// A span whose row is in the file.
    void write_span(const std::string& name, void* stream) const {
        span(name, stream);
        (void)flushed_rows();
    }

    /// Waits for the GPU, as a trainer does.
    void synchronize(CUstream stream) {
        ++own_synchronizations_;
        ASSERT_EQ(driver().stream_synchronize(stream), result::success);
    }
    void wait_for(CUevent event) {
        ++own_synchronizations_;
        ASSERT_EQ(driver().event_synchronize(event), result::success);
    }

    /// Blocks a stream, so that later work is queued: until unplug() on the fake, for 5 ms on a real GPU.
    void plug(CUstream stream) const {
        EXPECT_EQ(driver().is_fake() ? fake.enqueue_gate(stream) : work.spin(stream, 5 * ms), result::success);
    }
    void unplug() const {
        if (driver().is_fake()) fake.open_gates();
    }

    static void begin_capture(CUstream stream, CUstreamCaptureMode mode) {
        ASSERT_EQ(driver().stream_begin_capture(stream, mode), result::success);
    }

    /// Ends a capture, which must be whole.
    static void end_capture(CUstream stream) {
        CUgraph graph = nullptr;
        ASSERT_EQ(driver().stream_end_capture(stream, &graph), result::success) << "the capture was invalidated";
        ASSERT_NE(graph, nullptr);
        ASSERT_EQ(driver().graph_destroy(graph), result::success);
    }

    [[nodiscard]] std::string path() const { return directory + "/cuda_events_rank_0.jsonl"; }
    [[nodiscard]] Rows rows() const { return Rows(path()); }
    /// Flushes, and reads the rows of the file.
    [[nodiscard]] Rows flushed_rows() const {
        EXPECT_EQ(cep_flush(profiler, patience_ms), CEP_OK) << cep_last_error();
        return rows();
    }
    [[nodiscard]] Rows closed_rows() const {
        EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error();
        return rows();
    }

    [[nodiscard]] cep_stats stats() const {
        cep_stats values{};
        values.struct_size = sizeof values;
        EXPECT_EQ(cep_get_stats(profiler, &values), CEP_OK);
        return values;
    }

    /// Checks the identity of cep_stats: every record is counted somewhere.
    void expect_all_accounted_for() const {
        const cep_stats now = stats();
        EXPECT_EQ(now.recorded, now.written + now.dropped_ring + now.dropped_slots + now.dropped_pool +
                                    now.dropped_file + now.dropped_io + now.capture_skipped + now.abandoned +
                                    now.open_spans + now.pending);
    }

    std::string directory;
    cep_profiler* profiler = nullptr;
    std::uint64_t misuses_expected = 0;

  private:
    std::uint64_t own_synchronizations_ = 0;
    std::ptrdiff_t threads_before_ = 0;
};

/// A test that needs to control the fake driver.
class FakeProfilerTest : public fake_cuda::OnFake<ProfilerTest> {
  protected:
    /// The driver is healthy again before the profiler is closed.
    void TearDown() override {
        if (driver().is_fake() && context != nullptr) {
            fake.clear_faults();
            fake.open_gates();
        }
        ProfilerTest::TearDown();
    }

    /// The calling thread's driver calls during a body.
    template <typename Body>
    [[nodiscard]] std::uint64_t calls_during(const char* function, const Body& body) const {
        const std::int32_t thread = static_cast<std::int32_t>(gettid());
        const std::uint64_t before = fake.thread_call_count(thread, function);
        body();
        return fake.thread_call_count(thread, function) - before;
    }
};

}  // namespace cep::test
