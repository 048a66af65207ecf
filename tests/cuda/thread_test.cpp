// SPDX-License-Identifier: Apache-2.0
//
// Many threads, contexts and streams at once: nothing is lost or written twice.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class ThreadTest : public ProfilerTest {
  protected:
    static constexpr int threads = 8;
    static constexpr int rounds = 300;

    struct Place {
        CUcontext context = nullptr;
        std::array<CUstream, 2> streams{};
    };

    /// Two contexts, on two devices if there are two.
    void make_places() {
        int devices = 0;
        ASSERT_EQ(driver().device_get_count(&devices), result::success);
        for (std::size_t i = 0; i < places.size(); ++i) {
            const CUdevice device = devices > 1 ? static_cast<CUdevice>(i) : 0;
            ASSERT_EQ(driver().ctx_create(&places[i].context, 0, device), result::success);
            for (CUstream& stream : places[i].streams)
                ASSERT_EQ(driver().stream_create(&stream, stream_flags::non_blocking, 0), result::success);
        }
        ASSERT_EQ(driver().ctx_set_current(context), result::success);
    }

    void train(int thread) const {
        for (int round = 0; round < rounds; ++round) {
            const Place& place = places[static_cast<std::size_t>(round + thread) % places.size()];
            EXPECT_EQ(driver().ctx_set_current(place.context), result::success);
            CUstream stream = place.streams[static_cast<std::size_t>(round / 2) % 2];
            (void)cep_step(profiler, round);
            span("outer", stream, [&] {
                const cep_span chained = cep_switch(cep_begin(region("first"), stream), region("second"), stream);
                cep_end(region("second"), chained, stream);
            });
            span("host", CEP_HOST);
            (void)cep_phase(profiler, region("phase one"), stream);
            (void)cep_phase(profiler, region("phase two"), stream);
            (void)cep_phase(profiler, nullptr, stream);
        }
        EXPECT_EQ(driver().ctx_set_current(nullptr), result::success);
    }

    void run_threads() const {
        std::vector<std::thread> running;
        running.reserve(threads);
        for (int i = 0; i < threads; ++i) running.emplace_back([this, i] { train(i); });
        for (std::thread& thread : running) thread.join();
    }

    std::array<Place, 2> places{};
};

TEST_F(ThreadTest, EightThreadsOnTwoContextsLoseNothing) {
    cep_options options = default_options();
    options.flush_every_n_steps = 10;
    options.ring_capacity = 1 << 15;  // room for every span, even if all threads use the same ring one after the other
    open(options);
    make_places();
    std::atomic<bool> done{false};
    std::thread flusher([&] {
        while (!done.load()) {
            (void)cep_flush(profiler, 1);
            (void)stats();
        }
    });
    run_threads();
    done = true;
    flusher.join();
    const Rows written = closed_rows();
    for (const char* name : {"outer", "first", "second", "host", "phase one", "phase two"})
        EXPECT_EQ(written.spans(name).size(), static_cast<std::size_t>(threads * rounds)) << name;
    EXPECT_EQ(stats().written, static_cast<std::uint64_t>(6 * threads * rounds)) << written.last("stats").text;
    EXPECT_EQ(stats().cuda_errors, 0U);
    for (const Place& place : places) EXPECT_EQ(driver().ctx_destroy(place.context), result::success);
}

TEST_F(ThreadTest, CloseWhileThreadsRecordIsSafe) {
    open();
    make_places();
    std::thread closer([&] {
        while (stats().written < 100) std::this_thread::yield();
        (void)cep_close(profiler, patience_ms);
    });
    std::thread flusher([&] {
        for (int i = 0; i < 20; ++i) (void)cep_flush(profiler, 1);
        while (stats().written < 100) (void)cep_flush(profiler, 1);
    });
    run_threads();
    closer.join();
    flusher.join();
    EXPECT_GE(stats().written, 100U);
    EXPECT_EQ(rows().last("stats").integer("/written"), static_cast<std::int64_t>(stats().written));
    for (const Place& place : places) EXPECT_EQ(driver().ctx_destroy(place.context), result::success);
}

TEST_F(ThreadTest, SpansThatEndOnOtherThreadsAreAllWritten) {
    CUstream stream = open_with_stream();
    constexpr int count = 2000;
    std::array<std::atomic<cep_span>, 64> handed{};
    for (auto& slot : handed) slot = CEP_SPAN_NONE;
    cep_region* const phase = region("handed");
    std::thread ender([&] {
        EXPECT_EQ(driver().ctx_set_current(context), result::success);
        for (std::size_t i = 0; i < count; ++i) {
            cep_span span = CEP_SPAN_NONE;
            while ((span = handed[i % handed.size()].exchange(CEP_SPAN_NONE)) == CEP_SPAN_NONE)
                std::this_thread::yield();
            cep_end(phase, span, stream);
        }
    });
    for (std::size_t i = 0; i < count; ++i) {
        while (handed[i % handed.size()].load() != CEP_SPAN_NONE) std::this_thread::yield();
        handed[i % handed.size()] = cep_begin(phase, stream);
    }
    ender.join();
    EXPECT_EQ(closed_rows().spans("handed").size(), static_cast<std::size_t>(count));
}

}  // namespace
}  // namespace cep::test
