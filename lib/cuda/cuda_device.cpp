// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.hpp"

#include <algorithm>
#include <cmath>

#include "base/counts.hpp"

namespace cep::cuda {
namespace {

constexpr std::size_t small_pool = 256;
// The search for the driver takes the loader's lock, which an import can hold for long. So pauses between searches
// grow.
constexpr std::int64_t first_search_pause_ns = ns_per_s / 4;
constexpr std::int64_t longest_search_pause_ns = 30 * ns_per_s;

}  // namespace

CudaDevice::~CudaDevice() {
    drop_spans();
}

void CudaDevice::drop_spans() noexcept {
    for (auto& [key, queue] : queues_) {
        for (const DeviceSpan& span : queue) recycle(span);
        queue.clear();
    }
    for (const DeviceSpan& span : mixed_spans_) recycle(span);
    mixed_spans_.clear();
}

std::unique_ptr<CudaThread> CudaDevice::make_thread(bool full_ring) {
    // Find the driver before the thread's first stamp, else its first spans would be timed on the host clock.
    if (state_.driver.load(std::memory_order_acquire) == nullptr)
        state_.driver.store(find_driver(), std::memory_order_release);
    const std::size_t capacity = full_ring ? state_.pool_limit : std::min(small_pool, state_.pool_limit);
    return std::make_unique<CudaThread>(state_, capacity);
}

void CudaDevice::release(const Stamp& stamp) noexcept {
    if (stamp.event != nullptr) stamp.event->context->release(*stamp.event, stamp.references);
}

void CudaDevice::release(const DeviceSpan& span) noexcept {
    release(span.begin);
    release(span.end);
}

void CudaDevice::recycle(const DeviceSpan& span) noexcept {
    for (const Stamp& stamp : {span.begin, span.end}) stamp.event->context->recycle(*stamp.event, stamp.references);
}

void CudaDevice::accept(const DeviceSpan& span) {
    Context* context = span.end.event->context;
    if (span.begin.event->context != context)
        mixed_spans_.push_back(span);
    else
        queues_[{context, span.end.stream}].push_back(span);
}

PollResult CudaDevice::poll(Ring<DeviceTimes>& results, bool final_pass) {
    final_pass_ = final_pass;
    PollResult result{.resolved = 0, .pending = false, .caught_up = true};
    if (state_.driver.load(std::memory_order_acquire) == nullptr) {
        search_for_driver();
        result.searching = state_.fallback.load(std::memory_order_relaxed) != HostFallback::none;
        return result;
    }
    recycle_released();
    report_mixed_spans(results, result);
    const auto has_spans = [](const auto& entry) { return !entry.second.empty(); };
    if (std::none_of(queues_.begin(), queues_.end(), has_spans)) return result;
    const RelaxedCapture relaxed(driver());
    const std::int64_t now_ns = monotonic_ns();
    for (auto& [key, queue] : queues_) {
        if (queue.empty()) continue;
        Context& context = *key.first;
        if (!context.lost()) check_existence(context);
        if (!context.lost()) keep_anchored(context, now_ns);
        poll_queue(context, queue, results, result);
    }
    return result;
}

bool CudaDevice::has_released_events() noexcept {
    bool found = false;
    for_each_context([&](const Context& context) { found = found || context.has_released(); });
    return found;
}

void CudaDevice::search_for_driver() {
    if (state_.fallback.load(std::memory_order_relaxed) == HostFallback::none) return;  // no thread needed it so far
    const std::int64_t now_ns = monotonic_ns();
    if (now_ns < next_search_ns_) return;
    state_.driver.store(find_driver(), std::memory_order_release);
    search_pause_ns_ = std::clamp(2 * search_pause_ns_, first_search_pause_ns, longest_search_pause_ns);
    next_search_ns_ = now_ns + search_pause_ns_;
}

void CudaDevice::check_existence(Context& context) noexcept {
    if (!state_.exists(context)) state_.count_error(&context, result::context_is_destroyed);
}

void CudaDevice::poll_queue(Context& context, Queue& queue, Ring<DeviceTimes>& results, PollResult& result) {
    for (; !queue.empty() && results.has_room(); ++result.resolved) {
        const DeviceSpan& span = queue.front();
        DeviceTimes times{.id = span.id,
                          .outcome = DeviceTimes::Outcome::lost,
                          .device = context.device(),
                          .start_ns = 0,
                          .duration_ns = 0};
        const Outcome outcome = context.lost() ? Outcome::lost : resolve(context, span, times);
        if (outcome == Outcome::unfinished || outcome == Outcome::waiting) {
            result.pending = true;
            if (outcome == Outcome::waiting) result.caught_up = false;
            return;
        }
        if (outcome == Outcome::resolved) times.outcome = DeviceTimes::Outcome::resolved;
        if (outcome == Outcome::without_start) times.outcome = DeviceTimes::Outcome::length;
        (void)results.push(times);
        recycle(span);
        queue.pop_front();
    }
    if (queue.empty()) return;
    result.pending = true;
    result.caught_up = false;
}

CudaDevice::Outcome CudaDevice::resolve(Context& context, const DeviceSpan& span, DeviceTimes& times) {
    const CUevent begin = span.begin.event->handle;
    const CUevent end = span.end.event->handle;
    float elapsed_ms = 0;
    CUresult code = driver().event_query(end);
    if (code == result::success) code = driver().event_elapsed_time(&elapsed_ms, begin, end);
    if (code == result::not_ready) return Outcome::unfinished;
    if (code != result::success) {
        state_.count_error(&context, code);
        return Outcome::lost;
    }
    times.duration_ns = std::llround(static_cast<double>(elapsed_ms) * 1e6);
    return host_time_of(clocks_[&context], span.begin, times.start_ns);
}

void CudaDevice::report_mixed_spans(Ring<DeviceTimes>& results, PollResult& result) {
    while (!mixed_spans_.empty() && results.has_room()) {
        const DeviceSpan& span = mixed_spans_.back();
        (void)results.push({.id = span.id,
                            .outcome = DeviceTimes::Outcome::host_clock,
                            .device = -1,
                            .start_ns = span.begin.host_ns,
                            .duration_ns = span.end.host_ns - span.begin.host_ns});
        recycle(span);
        mixed_spans_.pop_back();
        ++result.resolved;
    }
    if (mixed_spans_.empty()) return;
    result.pending = true;
    result.caught_up = false;
}

void CudaDevice::recycle_released() noexcept {
    for_each_context([](Context& context) { context.recycle_released(); });
}

DeviceFacts CudaDevice::facts() const {
    const std::lock_guard guard(facts_mutex_);
    DeviceFacts facts = facts_;
    facts.version = facts_version_.load(std::memory_order_relaxed);
    return facts;
}

std::string CudaDevice::take_notice(bool first_of_host) {
    const HostFallback fallback = state_.fallback.load(std::memory_order_relaxed);
    if (first_of_host && fallback != fallback_reported_) {
        fallback_reported_ = fallback;
        const char* symbol = missing_driver_symbol();
        if (symbol != nullptr)
            return std::string("the CUDA driver lacks ") + symbol +
                   ": spans are timed on the host clock; update the driver";
        return std::string(fallback == HostFallback::no_driver ? "no CUDA driver is loaded"
                                                               : "a recording thread has no CUDA context") +
               ": spans on streams are timed on the host clock (if that is intended, set backend to \"host\")";
    }
    const Context* lost = nullptr;
    for_each_context([&](const Context& context) { lost = context.lost() ? &context : lost; });
    if (loss_reported_ || lost == nullptr) return {};
    loss_reported_ = true;
    const char* name = nullptr;
    const CUresult code = state_.last_error.load(std::memory_order_relaxed);
    (void)driver().get_error_name(code, &name);
    return "the CUDA context of device " + std::to_string(lost->device()) + " is lost (" +
           (name != nullptr ? name : "error " + std::to_string(code)) + "): it is no longer profiled";
}

void CudaDevice::add_counts(Totals& totals) const noexcept {
    totals.cuda_errors += state_.errors.load(std::memory_order_relaxed);
    totals.clock_error_ns = clock_error_ns_.load(std::memory_order_relaxed);
}

void CudaDevice::shut_down() noexcept {
    drop_spans();
    if (state_.driver.load(std::memory_order_acquire) == nullptr) return;
    const RelaxedCapture relaxed(driver());
    recycle_released();
    for_each_context([this](Context& context) {
        if (!context.lost() && !state_.exists(context)) context.set_lost();  // destroyed, together with its objects
    });
    for (auto& [context, clock] : clocks_) {
        if (context->lost()) continue;
        for (const ContextClock::Anchor& anchor : clock.recent)  // includes the pending one
            if (anchor.event != nullptr) (void)driver().event_destroy(anchor.event);
        if (clock.stream != nullptr) (void)driver().stream_destroy(clock.stream);
        clock = {};
    }
    for_each_context([this](Context& context) { context.destroy_idle_events(driver()); });
}

}  // namespace cep::cuda
