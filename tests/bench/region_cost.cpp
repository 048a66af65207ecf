// SPDX-License-Identifier: Apache-2.0
//
// The cost of a region for the trainer's thread and the GPU, compared with the bare CUDA events in it.
//
//     region_cost [--rounds=N] [--chains=N]
//
// Each round runs every arm once, in rotating order, as a burst of at most 256 records, which the GPU's queue accepts
// without delay (longer bursts measure the queue). Between bursts the device and the library catch up, untimed. Ratios
// compare bursts of the same round.
#include <array>
#include <atomic>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "machine.hpp"
#include "statistics.hpp"

namespace cep::bench {
namespace {

constexpr int burst_records = 256;
constexpr int burst_regions = burst_records / 2;
constexpr int warm_up_rounds = 20;

/// One way of doing something `items` times.
struct Arm {
    std::string name;
    int items;
    std::function<void()> burst;
    std::function<void()> after = {};  ///< runs untimed, after the device has finished
    Samples ns = {};                   ///< time of an item, by round
    Samples inside_ns = {};            ///< the same for a burst that times a part of itself
    Samples asleep_ns = {};            ///< the samples during which the library's threads did not run
    Samples awake_ns = {};
};

/// Times arms against each other on one thread.
class Bursts {
  public:
    Bursts(const Gpu& gpu, OpenProfiler& profiler) : gpu_(gpu), profiler_(profiler) {}

    void run(std::vector<Arm>& arms, long rounds) {
        for (long round = -warm_up_rounds; round < rounds; ++round)
            for (std::size_t i = 0; i < arms.size(); ++i) {
                Arm& arm = arms[(i + static_cast<std::size_t>(round + warm_up_rounds)) % arms.size()];
                const double ns = time(arm);
                if (round < 0) continue;
                arm.ns.push_back(ns);
                (threads_ran_ ? arm.awake_ns : arm.asleep_ns).push_back(ns);
            }
    }

  private:
    double time(const Arm& arm) {
        if (threads_.empty()) threads_.find();
        const std::int64_t cpu_before_ns = threads_.cpu_ns();
        const std::int64_t start_ns = now_ns();
        arm.burst();
        const std::int64_t end_ns = now_ns();
        threads_ran_ = threads_.cpu_ns() != cpu_before_ns;
        gpu_.synchronize();
        profiler_.flush();
        if (arm.after) arm.after();
        return static_cast<double>(end_ns - start_ns) / arm.items;
    }

    const Gpu& gpu_;
    OpenProfiler& profiler_;
    LibraryThreads threads_;
    bool threads_ran_ = false;
};

/// What a record of a span cannot do without: whose context it is, whether the stream is captured, when it was.
void checked_record(const Gpu& gpu, cuda::CUevent event, cuda::CUstream stream) {
    cuda::CUcontext context = nullptr;
    cuda::CUstreamCaptureStatus status = cuda::capture_status::none;
    (void)gpu.program().ctx_get_current(&context);
    (void)gpu.program().stream_is_capturing(stream, &status);
    keep(now_ns());
    gpu.record(event, stream);
}

/// The calls of a burst, on the events and stream of one thread.
class Calls {
  public:
    Calls(const Gpu& gpu, const OpenProfiler& profiler)
        : gpu_(gpu),
          stream_(gpu.make_stream()),
          region_(profiler.region("forward")),
          next_(profiler.region("backward")) {
        for (int i = 0; i < burst_records; ++i) events_.push_back(gpu.make_event());
    }

    void bare_records(int count) const {
        for (int i = 0; i < count; ++i) gpu_.record(events_[static_cast<std::size_t>(i)], stream_);
    }
    /// Reads the events on another thread, as the poller does, so that their memory is in that thread's core.
    void read_elsewhere() const {
        std::thread([this] {
            gpu_.enter();
            for (std::size_t i = 0; i + 1 < events_.size(); i += 2) {
                (void)gpu_.program().event_query(events_[i + 1]);
                keep(gpu_.elapsed_us(events_[i], events_[i + 1]));
            }
        }).join();
    }
    /// The minimum calls for each record of a profiler that must not invalidate a capture.
    void checked_records() const {
        for (const cuda::CUevent event : events_) checked_record(gpu_, event, stream_);
    }
    void regions() const {
        for (int i = 0; i < burst_regions; ++i) cep_end(region_, cep_begin(region_, stream_), stream_);
    }
    void regions_with_attributes() const {
        cep_attrs attrs{};
        attrs.struct_size = sizeof attrs;
        attrs.group = "dp";
        attrs.bytes = 4096;
        for (int i = 0; i < burst_regions; ++i) {
            attrs.coll = i;
            cep_end(region_, cep_begin_with(region_, stream_, &attrs), stream_);
        }
    }
    void host_regions() const {
        for (int i = 0; i < burst_regions; ++i) cep_end(region_, cep_begin(region_, CEP_HOST), CEP_HOST);
    }
    /// A chain with its first and last call: burst_records events in all.
    void switches() const {
        cep_span span = cep_begin(region_, stream_);
        for (int i = 0; i < burst_records - 2; ++i) span = cep_switch(span, i % 2 == 0 ? next_ : region_, stream_);
        cep_end(region_, span, stream_);
    }

  private:
    const Gpu& gpu_;
    cuda::CUstream stream_;
    cep_region* region_;
    cep_region* next_;
    std::vector<cuda::CUevent> events_;
};

void print_arms(const std::vector<Arm>& arms, const std::string& title, const std::vector<std::size_t>& peers) {
    print_heading(title, "ns");
    for (std::size_t i = 0; i < arms.size(); ++i)
        print_row(arms[i].name, arms[i].ns, peers[i] == i ? nullptr : &arms[peers[i]].ns, arms[peers[i]].name);
}

void print_by_threads(const Arm& arm) {
    print_row("  of these, library's threads asleep throughout (" + std::to_string(arm.asleep_ns.size()) + " bursts)",
              arm.asleep_ns);
    print_row("  of these, library's threads ran meanwhile (" + std::to_string(arm.awake_ns.size()) + " bursts)",
              arm.awake_ns);
}

void one_thread(const Gpu& gpu, long rounds) {
    OpenProfiler profiler;
    const Calls calls(gpu, profiler);
    const Calls read_calls(gpu, profiler);
    std::vector<Arm> arms = {
        {"one bare cuEventRecord", burst_records, [&] { calls.bare_records(burst_records); }},
        {"two bare cuEventRecord", burst_regions, [&] { calls.bare_records(burst_records); }},
        {"two bare records of events that another thread has read", burst_regions,
         [&] { read_calls.bare_records(burst_records); }, [&] { read_calls.read_elsewhere(); }},
        {"two records with context, capture and clock reads", burst_regions, [&] { calls.checked_records(); }},
        {"cep_begin + cep_end", burst_regions, [&] { calls.regions(); }},
        {"cep_begin_with(group, coll, bytes) + cep_end", burst_regions, [&] { calls.regions_with_attributes(); }},
        {"cep_switch", burst_records - 1, [&] { calls.switches(); }},
        {"cep_begin + cep_end, CEP_HOST", burst_regions, [&] { calls.host_regions(); }},
    };
    Bursts(gpu, profiler).run(arms, rounds);
    print_arms(arms, "recorded, 1 thread", {0, 1, 1, 1, 1, 1, 0, 7});
    print_by_threads(arms[4]);
    std::printf("spans lost: %llu\n", static_cast<unsigned long long>(profiler.lost()));
}

/// Calls that make no CUDA call: on a step that is not recorded, and of a profiler that is off.
void not_recorded(const Gpu& gpu, long rounds) {
    constexpr int calls = 10'000;
    OpenProfiler profiler;
    OpenProfiler off([](cep_options& options) { options.enable = 0; });
    cep_region* const region = profiler.region("forward");
    cep_region* const region_off = off.region("forward");
    const auto repeat = [](auto call) {
        return [call] {
            for (int i = 0; i < calls; ++i) call();
        };
    };
    std::vector<Arm> arms = {
        {"two clock readings", calls, repeat([] {
             keep(now_ns());
             keep(now_ns());
         })},
        {"cep_begin + cep_end", calls, repeat([=] { cep_end(region, cep_begin(region, nullptr), nullptr); })},
        {"cep_switch", calls, repeat([=] { keep(cep_switch(CEP_SPAN_NONE, region, nullptr)); })},
        {"cep_counter", calls, repeat([&] { keep(cep_counter(profiler.get(), "loss", 1.0)); })},
        {"cep_begin + cep_end, of a profiler that is off", calls,
         repeat([=] { cep_end(region_off, cep_begin(region_off, nullptr), nullptr); })},
    };
    profiler.record(false);
    Bursts(gpu, profiler).run(arms, rounds);
    print_arms(arms, "not recorded, 1 thread", {0, 1, 2, 3, 4});
}

/// one_thread() while another thread asks for a flush without pause, so that the poller polls at its fastest.
void beside_busy_threads(const Gpu& gpu, long rounds) {
    OpenProfiler profiler;
    const Calls calls(gpu, profiler);
    std::vector<Arm> arms = {
        {"one bare cuEventRecord", burst_records, [&] { calls.bare_records(burst_records); }},
        {"two bare cuEventRecord", burst_regions, [&] { calls.bare_records(burst_records); }},
        {"cep_begin + cep_end", burst_regions, [&] { calls.regions(); }},
        {"cep_switch", burst_records - 1, [&] { calls.switches(); }},
    };
    std::atomic<bool> stop{false};
    std::thread flusher([&] {
        while (!stop.load(std::memory_order_relaxed)) (void)cep_flush(profiler.get(), 20'000);
    });
    Bursts(gpu, profiler).run(arms, rounds);
    stop.store(true);
    flusher.join();
    print_arms(arms, "recorded, 1 thread, flushing without pause", {0, 1, 1, 0});
    print_by_threads(arms[2]);
}

/// One call at a time, after work that has replaced the contents of the caches, as a phase of a trainer does.
void out_of_caches(const Gpu& gpu, long rounds) {
    constexpr std::size_t other_work_bytes = 16 << 20;
    OpenProfiler profiler;
    const cuda::CUstream stream = gpu.make_stream();
    const cuda::CUevent events[] = {gpu.make_event(), gpu.make_event()};
    cep_region* const regions[] = {profiler.region("forward"), profiler.region("backward")};
    cep_span span = cep_begin(regions[0], stream);
    std::size_t turn = 0;
    struct alignas(64) Line {
        std::int64_t number = 0;
    };
    std::array<Line, 2> lines;  // at the least: one of the span, one of its record
    const auto checked = [&](std::size_t i) {
        checked_record(gpu, events[i], stream);
        lines[i].number = static_cast<std::int64_t>(i) + 1;
        keep(&lines[i]);
    };
    std::vector<Arm> arms = {
        {"one bare cuEventRecord", 1, [&] { gpu.record(events[0], stream); }},
        {"two bare cuEventRecord", 1,
         [&] {
             gpu.record(events[0], stream);
             gpu.record(events[1], stream);
         }},
        {"two records with context, capture and clock reads, a line written", 1,
         [&] {
             checked(0);
             checked(1);
         }},
        {"one record with context, capture and clock reads, a line written", 1, [&] { checked(0); }},
        {"cep_begin + cep_end", 1, [&] { cep_end(regions[1], cep_begin(regions[1], stream), stream); }},
        {"cep_switch", 1, [&] { span = cep_switch(span, regions[++turn % 2], stream); }},
        {"cep_begin + cep_end, CEP_HOST", 1, [&] { cep_end(regions[0], cep_begin(regions[0], CEP_HOST), CEP_HOST); }},
    };
    std::vector<std::uint64_t> other_work(other_work_bytes / sizeof(std::uint64_t));
    for (Arm& arm : arms)
        arm.burst = [&other_work, call = arm.burst, &arm] {
            for (std::uint64_t& word : other_work) ++word;
            keep(other_work.data());
            const std::int64_t start_ns = now_ns();
            call();
            arm.inside_ns.push_back(static_cast<double>(now_ns() - start_ns));
        };
    Bursts(gpu, profiler).run(arms, rounds);
    cep_end(regions[turn % 2], span, stream);
    for (Arm& arm : arms) arm.ns.assign(arm.inside_ns.begin() + warm_up_rounds, arm.inside_ns.end());
    print_arms(arms, "recorded, 1 thread, one call at a time, out of the caches", {0, 1, 1, 0, 1, 0, 6});
}

/// All threads run the same burst at the same time, each on its own stream. The slowest counts.
class Threads {
  public:
    Threads(const Gpu& gpu, OpenProfiler& profiler, int count)
        : gpu_(gpu), profiler_(profiler), barrier_(count + 1), took_ns_(static_cast<std::size_t>(count)) {
        for (std::size_t i = 0; i < took_ns_.size(); ++i) threads_.emplace_back([this, i] { work(i); });
    }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;
    ~Threads() {
        burst_ = nullptr;
        barrier_.arrive_and_wait();
        for (std::thread& thread : threads_) thread.join();
    }

    void run(const std::function<void(const Calls&)>& burst) {
        burst_ = &burst;
        barrier_.arrive_and_wait();
        barrier_.arrive_and_wait();
    }
    [[nodiscard]] double slowest_ns() const { return *std::max_element(took_ns_.begin(), took_ns_.end()); }

  private:
    void work(std::size_t index) {
        gpu_.enter();
        const Calls calls(gpu_, profiler_);
        for (;;) {
            barrier_.arrive_and_wait();
            if (burst_ == nullptr) return;
            const std::int64_t start_ns = now_ns();
            (*burst_)(calls);
            took_ns_[index] = static_cast<double>(now_ns() - start_ns);
            barrier_.arrive_and_wait();
        }
    }

    const Gpu& gpu_;
    OpenProfiler& profiler_;
    std::barrier<> barrier_;
    const std::function<void(const Calls&)>* burst_ = nullptr;
    Samples took_ns_;
    std::vector<std::thread> threads_;
};

void many_threads(const Gpu& gpu, long rounds, int count) {
    OpenProfiler profiler;
    Threads threads(gpu, profiler, count);
    const std::function<void(const Calls&)> bare = [](const Calls& calls) { calls.bare_records(burst_records); };
    const std::function<void(const Calls&)> regions = [](const Calls& calls) { calls.regions(); };
    Samples bare_ns;
    Samples regions_ns;
    for (long round = -warm_up_rounds; round < rounds; ++round)
        for (int half = 0; half < 2; ++half) {
            const bool is_bare = (round + half) % 2 == 0;
            threads.run(is_bare ? bare : regions);
            if (round >= 0) (is_bare ? bare_ns : regions_ns).push_back(threads.slowest_ns() / burst_regions);
            gpu.synchronize();
            profiler.flush();
        }
    print_heading("recorded, " + std::to_string(count) + " thread(s), a stream each; the slowest thread", "ns");
    print_row("two bare cuEventRecord", bare_ns);
    print_row("cep_begin + cep_end", regions_ns, &bare_ns, "two bare cuEventRecord");
    std::printf("spans lost: %llu\n", static_cast<unsigned long long>(profiler.lost()));
}

/// GPU time of chains of short kernels, with nothing, event pairs, or regions round each. A long kernel before the
/// chain ensures that the GPU never waits for the host.
void gpu_time(const Gpu& gpu, long chains) {
    constexpr int kernels = 64;
    constexpr std::uint64_t kernel_ns = 10'000;
    constexpr std::uint64_t head_start_ns = 2'000'000;
    OpenProfiler profiler;
    const cuda::CUstream stream = gpu.make_stream();
    const cuda::CUevent first = gpu.make_event();
    const cuda::CUevent last = gpu.make_event();
    std::vector<cuda::CUevent> events;
    for (int i = 0; i < 2 * kernels; ++i) events.push_back(gpu.make_event());
    cep_region* region = profiler.region("forward");
    cep_region* other = profiler.region("backward");
    cep_span span = CEP_SPAN_NONE;
    const std::vector<std::function<void(std::size_t)>> arms = {
        [&](std::size_t) { gpu.spin(stream, kernel_ns); },
        [&](std::size_t i) {
            gpu.record(events[2 * i], stream);
            gpu.spin(stream, kernel_ns);
            gpu.record(events[2 * i + 1], stream);
        },
        [&](std::size_t) {
            const cep_span one = cep_begin(region, stream);
            gpu.spin(stream, kernel_ns);
            cep_end(region, one, stream);
        },
        [&](std::size_t i) {
            span = cep_switch(i == 0 ? CEP_SPAN_NONE : span, i % 2 == 0 ? region : other, stream);
            gpu.spin(stream, kernel_ns);
            if (i + 1 == kernels) cep_end(region, span, stream);
        },
    };
    std::vector<Samples> us(arms.size());
    for (long chain = -5; chain < chains; ++chain) {
        std::vector<double> took_us(arms.size());
        for (std::size_t a = 0; a < arms.size(); ++a) {
            gpu.spin(stream, head_start_ns);
            gpu.record(first, stream);
            for (std::size_t i = 0; i < kernels; ++i) arms[a](i);
            gpu.record(last, stream);
            gpu.synchronize();
            took_us[a] = gpu.elapsed_us(first, last) / kernels;
            profiler.flush();
        }
        for (std::size_t a = 0; chain >= 0 && a < arms.size(); ++a)
            us[a].push_back(a == 0 ? took_us[a] * 1e3 : (took_us[a] - took_us[0]) * 1e3);
    }
    print_heading("GPU time, chain of " + std::to_string(kernels) + " kernels of 10 µs", "ns");
    print_row("a kernel, nothing round it", us[0]);
    print_row("  added by two bare cuEventRecord", us[1]);
    print_row("  added by cep_begin + cep_end", us[2], &us[1], "added by two bare cuEventRecord");
    print_row("  added by cep_switch (one event a kernel)", us[3], &us[1], "added by two bare cuEventRecord");
}

}  // namespace
}  // namespace cep::bench

int main(int count, char** arguments) {
    const cep::bench::Gpu gpu;
    const long rounds = cep::bench::option(count, arguments, "rounds", 300);
    cep::bench::one_thread(gpu, rounds);
    cep::bench::out_of_caches(gpu, rounds);
    cep::bench::beside_busy_threads(gpu, rounds);
    cep::bench::not_recorded(gpu, rounds);
    cep::bench::many_threads(gpu, rounds, 1);
    cep::bench::many_threads(gpu, rounds, 8);
    cep::bench::gpu_time(gpu, cep::bench::option(count, arguments, "chains", 100));
    return 0;
}
