// SPDX-License-Identifier: Apache-2.0
//
// The part of CudaDevice that maps each GPU's clock to the host's clock, by anchors.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cuda/cuda_device.hpp"

namespace cep::cuda {
namespace {

// An elapsed time of 1 s, as a float of milliseconds, is exact to 0.06 µs. While spans keep coming, the nearest anchor
// is never further away than 1 s.
constexpr std::int64_t longest_interval_ns = ns_per_s;
constexpr std::int64_t shortest_interval_ns = 20 * ns_per_ms;
// After a longer gap an elapsed time between anchors is too inexact to continue the chain: the GPU clock starts anew.
constexpr std::int64_t chain_limit_ns = 8 * ns_per_s;
// Longest wait for a new anchor within one pass. An idle GPU completes an anchor within 20 µs.
constexpr std::int64_t anchor_wait_ns = 200'000;
// After the published error has been raised (say, by one long span), it is not lowered for this long.
constexpr std::int64_t hold_raised_error_ns = 60 * ns_per_s;
// After this many failed anchors in a row the clock is given up: spans then take their start from the host.
constexpr int max_anchor_failures = 3;

void restart(ContextClock& clock) noexcept {
    clock.model.restart();
    clock.interval_ns = 0;
    for (ContextClock::Anchor& anchor : clock.recent) anchor.gpu_ns = std::nan("");
}

/// Makes a context current for a scope. code() tells whether that succeeded.
class CurrentContext {
  public:
    CurrentContext(const DriverApi& driver, const Context& context) noexcept
        : driver_(driver), code_(driver.ctx_push_current(context.handle())) {}
    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;
    ~CurrentContext() {
        CUcontext popped = nullptr;
        if (code_ == result::success) (void)driver_.ctx_pop_current(&popped);
    }
    [[nodiscard]] CUresult code() const noexcept { return code_; }

  private:
    const DriverApi& driver_;
    const CUresult code_;
};

[[nodiscard]] std::string text_of(const CUuuid& uuid) {
    static constexpr char hex[] = "0123456789abcdef";
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += hex[(uuid.bytes[i] >> 4) & 0xF];
        text += hex[uuid.bytes[i] & 0xF];
    }
    return text;
}

}  // namespace

void CudaDevice::keep_anchored(Context& context, std::int64_t now_ns) {
    ContextClock& clock = clocks_[&context];
    if (clock.unusable) return;
    if (clock.stream == nullptr && !open_clock(context, clock)) return;
    if (clock.pending == nullptr && (clock.model.empty() || now_ns - clock.recent[0].host_ns > clock.interval_ns))
        record_anchor(context, clock);
    if (clock.pending != nullptr) await_anchor(context, clock);
}

bool CudaDevice::open_clock(Context& context, ContextClock& clock) {
    const CurrentContext current(driver(), context);
    CUresult code = current.code();
    if (code == result::success) code = driver().stream_create(&clock.stream, stream_flags::non_blocking, 0);
    for (ContextClock::Anchor& anchor : clock.recent)
        if (code == result::success) code = driver().event_create(&anchor.event, event_flags::normal);
    if (code != result::success) {
        state_.count_error(&context, code);
        clock.unusable = true;
        return false;
    }
    read_identity(context);
    return true;
}

void CudaDevice::record_anchor(Context& context, ContextClock& clock) noexcept {
    if (!clock.model.empty() && monotonic_ns() - clock.recent[0].host_ns > chain_limit_ns) restart(clock);
    // The oldest anchor's event is reused, so that anchor is invalid now, even if a call below fails.
    ContextClock::Anchor& oldest = clock.recent.back();
    oldest.gpu_ns = std::nan("");
    const CurrentContext current(driver(), context);
    CUresult code = current.code();
    // The first record and query after a sleep are slow. Make them once, so that the bracket below is narrow.
    if (code == result::success) code = driver().event_record(oldest.event, clock.stream);
    if (code == result::success) (void)driver().event_query(oldest.event);
    const std::int64_t before_ns = monotonic_ns();
    if (code == result::success) code = driver().event_record(oldest.event, clock.stream);
    if (code != result::success) return anchor_failed(context, clock, code);
    clock.pending = oldest.event;
    clock.pending_before_ns = before_ns;
    std::rotate(clock.recent.begin(), clock.recent.end() - 1, clock.recent.end());
    clock.recent[0] = {clock.pending, std::nan(""), before_ns};
}

void CudaDevice::await_anchor(Context& context, ContextClock& clock) {
    const std::int64_t give_up_ns = monotonic_ns() + anchor_wait_ns;
    std::int64_t after_ns = 0;
    CUresult code = result::not_ready;
    do {
        code = driver().event_query(clock.pending);
        after_ns = monotonic_ns();
    } while (code == result::not_ready && after_ns < give_up_ns);
    if (code == result::not_ready) return;
    if (code != result::success) return anchor_failed(context, clock, code);
    complete_anchor(context, clock, after_ns);
}

void CudaDevice::anchor_failed(Context& context, ContextClock& clock, CUresult code) noexcept {
    state_.count_error(&context, code);
    clock.pending = nullptr;
    if (++clock.failures < max_anchor_failures) return;
    clock.unusable = true;
    restart(clock);
}

void CudaDevice::complete_anchor(Context& context, ContextClock& clock, std::int64_t after_ns) {
    ContextClock::Anchor& newest = clock.recent[0];
    const ContextClock::Anchor& previous = clock.recent[1];
    clock.pending = nullptr;
    clock.failures = 0;
    bool chained = !clock.model.empty() && !std::isnan(previous.gpu_ns);
    float elapsed_ms = 0;
    if (chained) {
        const CUresult code = driver().event_elapsed_time(&elapsed_ms, previous.event, newest.event);
        chained = code == result::success;
        if (!chained) state_.count_error(&context, code);
    }
    if (chained) {
        newest.gpu_ns = previous.gpu_ns + static_cast<double>(elapsed_ms) * 1e6;
    } else {
        restart(clock);
        newest.gpu_ns = 0;
    }
    newest.host_ns = (clock.pending_before_ns + after_ns) / 2;
    clock.newest_gpu_ns = newest.gpu_ns;
    clock.model.add({newest.gpu_ns, clock.pending_before_ns, after_ns});
    if (!handle_failed_prediction(clock))
        clock.interval_ns =
            std::clamp(clock.interval_ns + clock.interval_ns / 2, shortest_interval_ns, longest_interval_ns);
    lower_clock_error();
    raise_clock_error(clock.model.error_ns(clock.interval_ns));
}

bool CudaDevice::handle_failed_prediction(ContextClock& clock) {
    if (!clock.model.prediction_failed()) return false;
    // Times mapped since the previous anchor may be wrong by the prediction error. New anchors soon measure the drift.
    raise_clock_error(clock_error_ns_.load(std::memory_order_relaxed) + clock.model.prediction_error_ns());
    clock.interval_ns = shortest_interval_ns;
    return true;
}

void CudaDevice::raise_clock_error(std::int64_t error_ns) {
    if (error_ns <= clock_error_ns_.load(std::memory_order_relaxed)) return;
    raised_ns_ = monotonic_ns();
    publish_clock_error(error_ns);
}

void CudaDevice::lower_clock_error() {
    // Small or brief improvements are not published, because each change writes another run row.
    std::int64_t worst_ns = 0;
    bool learning = false;
    for (const auto& [context, clock] : clocks_) {
        if (clock.model.empty()) continue;
        worst_ns = std::max(worst_ns, clock.model.error_ns(clock.interval_ns));
        learning = learning || clock.interval_ns < longest_interval_ns;
    }
    const bool settled = learning || monotonic_ns() - raised_ns_ > hold_raised_error_ns;
    if (settled && worst_ns < clock_error_ns_.load(std::memory_order_relaxed) / 4) publish_clock_error(worst_ns);
}

void CudaDevice::publish_clock_error(std::int64_t error_ns) {
    const std::int64_t published_ns = error_ns + error_ns / 4;  // some margin, so that it changes rarely
    clock_error_ns_.store(published_ns, std::memory_order_relaxed);
    const std::lock_guard guard(facts_mutex_);
    facts_.clock_error_ns = published_ns;
    facts_version_.fetch_add(1, std::memory_order_release);
}

CudaDevice::Outcome CudaDevice::host_time_of(ContextClock& clock, const Stamp& stamp, std::int64_t& host_ns) {
    const ContextClock::Anchor* nearest = nullptr;
    for (const ContextClock::Anchor& anchor : clock.recent) {
        if (anchor.event == nullptr || std::isnan(anchor.gpu_ns)) continue;
        if (nearest == nullptr ||
            std::llabs(anchor.host_ns - stamp.host_ns) < std::llabs(nearest->host_ns - stamp.host_ns))
            nearest = &anchor;
    }
    if (nearest == nullptr) {
        host_ns = stamp.host_ns;  // without an anchor, the submission time is the best estimate
        return clock.unusable || final_pass_ ? Outcome::without_start : Outcome::waiting;
    }
    float elapsed_ms = 0;
    const CUresult code = driver().event_elapsed_time(&elapsed_ms, nearest->event, stamp.event->handle);
    if (code == result::not_ready) return Outcome::waiting;
    if (code != result::success) {
        state_.count_error(stamp.event->context, code);
        return Outcome::lost;
    }
    const double elapsed_ns = static_cast<double>(elapsed_ms) * 1e6;
    const double gpu_ns = nearest->gpu_ns + elapsed_ns;
    clock.model.observe_submission(gpu_ns, stamp.host_ns);
    (void)handle_failed_prediction(clock);
    host_ns = std::max(clock.model.host_ns(gpu_ns), stamp.host_ns);  // work cannot start before it is submitted
    const auto distance_ns = static_cast<std::int64_t>(std::abs(gpu_ns - clock.newest_gpu_ns));
    raise_clock_error(clock.model.error_ns(distance_ns) +
                      ClockModel::elapsed_rounding_ns(static_cast<std::int64_t>(std::abs(elapsed_ns))));
    return Outcome::resolved;
}

void CudaDevice::read_identity(Context& context) {
    char name[256] = "";
    CUuuid uuid{};
    int version = 0;
    (void)driver().device_get_name(name, sizeof name, context.device());
    const bool has_uuid = driver().device_get_uuid(&uuid, context.device()) == result::success;
    (void)driver().driver_get_version(&version);
    const std::lock_guard guard(facts_mutex_);
    if (has_uuid) facts_.uuid = text_of(uuid);
    facts_.driver_version = version;
    facts_.name = name;
    facts_version_.fetch_add(1, std::memory_order_release);
}

}  // namespace cep::cuda
