// SPDX-License-Identifier: Apache-2.0
//
// The part of CudaResolver that keeps each GPU's clock tied to the host's.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cuda/cuda_resolver.hpp"

namespace cep::cuda {
namespace {

// A float of milliseconds holds 1 s to 0.06 µs; the nearest of the recent anchors is never further than that while
// spans keep coming.
constexpr std::int64_t longest_interval_ns = ns_per_s;
constexpr std::int64_t shortest_interval_ns = 20 * ns_per_ms;
// After a longer silence a chain of elapsed times would lose more than it is worth: the GPU clock starts again.
constexpr std::int64_t chain_limit_ns = 8 * ns_per_s;
// How long to watch for a new anchor before leaving it to the next round: an idle GPU answers within 20 µs.
constexpr std::int64_t watch_ns = 200'000;
// After as many anchors in a row that failed there will be none: starts are then the host's.
constexpr int most_failures = 3;

void restart(ContextClock& clock) noexcept {
    clock.model.restart();
    clock.interval_ns = 0;
    for (ContextClock::Anchor& anchor : clock.recent) anchor.gpu_ns = std::nan("");
}

}  // namespace

void CudaResolver::keep_anchored(std::unique_lock<std::mutex>& lock, Context& context, std::int64_t now_ns) {
    ContextClock& clock = clocks_[&context];
    if (clock.unusable) return;
    if (clock.stream == nullptr && !open_clock(lock, context, clock)) return;
    if (clock.pending == nullptr && (clock.model.empty() || now_ns - clock.recent[0].host_ns > clock.interval_ns))
        record_anchor(lock, context, clock);
    if (clock.pending != nullptr) await_anchor(lock, context, clock);
}

bool CudaResolver::open_clock(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock) {
    const CUresult code = driver_call(lock, [&](const DriverApi& driver) {
        CUresult first = driver.ctx_push_current(context.handle());
        if (first != result::success) return first;
        first = driver.stream_create(&clock.stream, stream_flags::non_blocking, 0);
        for (ContextClock::Anchor& anchor : clock.recent)
            if (first == result::success) first = driver.event_create(&anchor.event, event_flags::normal);
        CUcontext popped = nullptr;
        (void)driver.ctx_pop_current(&popped);
        return first;
    });
    if (cancelled_.load(std::memory_order_acquire)) return false;
    if (code != result::success) {
        state_.count_error(&context, code);
        clock.unusable = true;
        return false;
    }
    read_identity(context);
    return true;
}

void CudaResolver::record_anchor(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock) {
    // The oldest anchor's event is used again.
    if (!clock.model.empty() && monotonic_ns() - clock.recent[0].host_ns > chain_limit_ns) restart(clock);
    const CUevent event = clock.recent.back().event;
    std::int64_t before_ns = 0;
    const CUresult code = driver_call(lock, [&](const DriverApi& driver) {
        CUresult push = driver.ctx_push_current(context.handle());
        if (push != result::success) return push;
        // The first record and query of a thread that has slept are slow; the bracket is to be narrow.
        push = driver.event_record(event, clock.stream);
        if (push == result::success) (void)driver.event_query(event);
        before_ns = monotonic_ns();
        if (push == result::success) push = driver.event_record(event, clock.stream);
        CUcontext popped = nullptr;
        (void)driver.ctx_pop_current(&popped);
        return push;
    });
    if (cancelled_.load(std::memory_order_acquire)) return;
    if (code != result::success) return anchor_failed(context, clock, code);
    clock.pending = event;
    clock.pending_before_ns = before_ns;
    std::rotate(clock.recent.begin(), clock.recent.end() - 1, clock.recent.end());
    clock.recent[0] = {event, std::nan(""), before_ns};
}

void CudaResolver::await_anchor(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock) {
    const std::int64_t give_up_ns = monotonic_ns() + watch_ns;
    std::int64_t after_ns = 0;
    CUresult code = result::not_ready;
    do {
        code = driver_call(lock, [&](const DriverApi& driver) { return driver.event_query(clock.pending); });
        after_ns = monotonic_ns();
    } while (code == result::not_ready && after_ns < give_up_ns && !cancelled_.load(std::memory_order_acquire));
    if (code == result::not_ready) return;
    if (code != result::success) return anchor_failed(context, clock, code);
    complete_anchor(lock, context, clock, after_ns);
}

void CudaResolver::anchor_failed(Context& context, ContextClock& clock, CUresult code) noexcept {
    state_.count_error(&context, code);
    clock.pending = nullptr;
    if (++clock.failures < most_failures) return;
    clock.unusable = true;
    restart(clock);
}

void CudaResolver::complete_anchor(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock,
                                   std::int64_t after_ns) {
    ContextClock::Anchor& newest = clock.recent[0];
    const ContextClock::Anchor& previous = clock.recent[1];
    clock.pending = nullptr;
    clock.failures = 0;
    const bool chained = !clock.model.empty() && !std::isnan(previous.gpu_ns);
    float elapsed_ms = 0;
    CUresult code = result::success;
    if (chained)
        code = driver_call(lock, [&](const DriverApi& driver) {
            return driver.event_elapsed_time(&elapsed_ms, previous.event, newest.event);
        });
    if (cancelled_.load(std::memory_order_acquire)) return;
    if (code != result::success) state_.count_error(&context, code);
    if (chained && code == result::success) {
        newest.gpu_ns = previous.gpu_ns + static_cast<double>(elapsed_ms) * 1e6;
    } else {
        restart(clock);
        newest.gpu_ns = 0;
    }
    newest.host_ns = (clock.pending_before_ns + after_ns) / 2;
    clock.model.add({newest.gpu_ns, clock.pending_before_ns, after_ns});
    clock.interval_ns =
        std::clamp(clock.interval_ns + clock.interval_ns / 2, shortest_interval_ns, longest_interval_ns);
    state_clock_error();
}

void CudaResolver::state_clock_error() noexcept {
    std::int64_t worst_ns = 0;
    for (const auto& [context, clock] : clocks_)
        if (!clock.model.empty()) worst_ns = std::max(worst_ns, clock.model.error_ns(clock.interval_ns));
    const std::int64_t stated_ns = clock_error_ns_.load(std::memory_order_relaxed);
    if (worst_ns <= stated_ns && worst_ns >= stated_ns / 4) return;
    // A little more than now, and no word of small gains: each change is one more run row.
    clock_error_ns_.store(worst_ns + worst_ns / 4, std::memory_order_relaxed);
    ++facts_version_;
}

CudaResolver::Outcome CudaResolver::host_time_of(std::unique_lock<std::mutex>& lock, ContextClock& clock,
                                                 const Stamp& stamp, std::int64_t& host_ns) {
    const ContextClock::Anchor* nearest = nullptr;
    for (const ContextClock::Anchor& anchor : clock.recent) {
        if (anchor.event == nullptr || std::isnan(anchor.gpu_ns)) continue;
        if (nearest == nullptr ||
            std::llabs(anchor.host_ns - stamp.host_ns) < std::llabs(nearest->host_ns - stamp.host_ns))
            nearest = &anchor;
    }
    if (nearest == nullptr) {
        host_ns = stamp.host_ns;  // where no anchor is to be had, the best that is known
        return clock.unusable ? Outcome::resolved : Outcome::waiting;
    }
    float elapsed_ms = 0;
    const CUevent event = stamp.event->handle;  // close() may take the span away during the call
    const CUresult code = driver_call(
        lock, [&](const DriverApi& driver) { return driver.event_elapsed_time(&elapsed_ms, nearest->event, event); });
    if (code == result::not_ready) return Outcome::waiting;
    if (code != result::success) {
        state_.count_error(stamp.event->context, code);
        return Outcome::lost;
    }
    const double gpu_ns = nearest->gpu_ns + static_cast<double>(elapsed_ms) * 1e6;
    clock.model.observe_submission(gpu_ns, stamp.host_ns);
    host_ns = std::max(clock.model.host_ns(gpu_ns), stamp.host_ns);  // no work starts before it is submitted
    return Outcome::resolved;
}

void CudaResolver::read_identity(Context& context) {
    const DriverApi& driver = *state_.driver.load(std::memory_order_acquire);
    char name[256] = "";
    CUuuid uuid{};
    (void)driver.device_get_name(name, sizeof name, context.device());
    if (driver.device_get_uuid(&uuid, context.device()) == result::success) {
        static constexpr char hex[] = "0123456789abcdef";
        device_uuid_ = "GPU-";
        for (int i = 0; i < 16; ++i) {
            if (i == 4 || i == 6 || i == 8 || i == 10) device_uuid_ += '-';
            device_uuid_ += hex[(uuid.bytes[i] >> 4) & 0xF];
            device_uuid_ += hex[uuid.bytes[i] & 0xF];
        }
    }
    int version = 0;
    (void)driver.driver_get_version(&version);
    driver_version_ = version;
    device_name_ = name;
    ++facts_version_;
}

}  // namespace cep::cuda
