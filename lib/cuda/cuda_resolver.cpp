// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_resolver.hpp"

#include <algorithm>
#include <cmath>

#include "counts.hpp"
#include "rows.hpp"
#include "run_facts.hpp"
#include "schema.hpp"

namespace cep::cuda {

CudaResolver::~CudaResolver() {
    abandon_pending();
}

void CudaResolver::accept(const Record& record, std::string_view meta) {
    Pending pending{++accepted_, record, std::string(meta)};
    Context* context = record.end.event->context;
    if (record.begin.event->context != context)
        mixed_.push_back(std::move(pending));
    else
        queues_[{context, record.end.stream}].push_back(std::move(pending));
}

std::size_t CudaResolver::poll(std::unique_lock<std::mutex>& lock, const Emit& emit) {
    if (state_.driver.load(std::memory_order_acquire) == nullptr) {
        state_.driver.store(find_driver(), std::memory_order_release);
        return 0;
    }
    if (polling_) return 0;
    recycle_discarded();
    const std::size_t resolved = emit_mixed(emit);
    if (std::all_of(queues_.begin(), queues_.end(), [](const auto& entry) { return entry.second.empty(); }))
        return resolved;
    polling_ = true;
    const RelaxedCapture relaxed(*state_.driver.load(std::memory_order_acquire));
    const std::size_t polled = poll_queues(lock, emit);
    polling_ = false;
    return resolved + polled;
}

std::size_t CudaResolver::poll_queues(std::unique_lock<std::mutex>& lock, const Emit& emit) {
    std::size_t resolved = 0;
    const std::int64_t now_ns = monotonic_ns();
    for (auto& [key, queue] : queues_) {
        if (queue.empty()) continue;
        Context& context = *key.first;
        if (!context.lost()) check_existence(lock, context);
        if (!context.lost()) keep_anchored(lock, context, now_ns);
        if (!cancelled_.load(std::memory_order_acquire)) resolved += poll_queue(lock, context, queue, emit);
        if (cancelled_.load(std::memory_order_acquire)) break;
    }
    return resolved;
}

void CudaResolver::check_existence(std::unique_lock<std::mutex>& lock, Context& context) {
    const CUresult code = driver_call(lock, [&](const DriverApi&) {
        return state_.exists(context) ? result::success : result::context_is_destroyed;
    });
    if (code == result::context_is_destroyed) state_.count_error(&context, code);
}

std::size_t CudaResolver::poll_queue(std::unique_lock<std::mutex>& lock, Context& context, Queue& queue,
                                     const Emit& emit) {
    std::size_t resolved = 0;
    while (!queue.empty()) {
        const Pending& pending = queue.front();
        ResolvedSpan span{};
        const Outcome outcome = context.lost() ? Outcome::lost : resolve(lock, context, pending, span);
        if (outcome == Outcome::waiting || cancelled_.load(std::memory_order_acquire)) break;
        if (outcome == Outcome::resolved) {
            emit(span);
            release(pending.record.begin);
            release(pending.record.end);
        } else {
            abandon(pending);
        }
        queue.pop_front();
        ++resolved;
    }
    return resolved;
}

CudaResolver::Outcome CudaResolver::resolve(std::unique_lock<std::mutex>& lock, Context& context,
                                            const Pending& pending, ResolvedSpan& span) {
    const Record& record = pending.record;
    const CUevent begin = record.begin.event->handle;
    const CUevent end = record.end.event->handle;
    float elapsed_ms = 0;
    const CUresult code = driver_call(lock, [&](const DriverApi& driver) {
        const CUresult query = driver.event_query(end);
        return query == result::success ? driver.event_elapsed_time(&elapsed_ms, begin, end) : query;
    });
    if (code == result::not_ready) return Outcome::waiting;
    std::int64_t start_host_ns = 0;
    ContextClock& clock = clocks_[&context];
    if (code != result::success) {
        state_.count_error(&context, code);
        return Outcome::lost;
    }
    const Outcome start = host_time_of(lock, clock, record.begin, start_host_ns);
    if (start != Outcome::resolved) return start;
    span.record = &record;
    span.clock = schema::clock::gpu;
    span.duration_ns = std::llround(static_cast<double>(elapsed_ms) * 1e6);
    span.start_ns = start_host_ns;
    span.host_ns = record.end.host_ns - record.begin.host_ns;
    span.lag_ns = start_host_ns - record.begin.host_ns;
    span.device = context.device();
    span.meta = pending.meta;
    return Outcome::resolved;
}

std::size_t CudaResolver::emit_mixed(const Emit& emit) {
    for (const Pending& pending : mixed_) {
        const Record& record = pending.record;
        const std::int64_t duration_ns = record.end.host_ns - record.begin.host_ns;
        emit({&record, schema::clock::host, record.begin.host_ns, duration_ns, duration_ns, std::nullopt, -1,
              pending.meta});
        release(record.begin);
        release(record.end);
    }
    const std::size_t count = mixed_.size();
    mixed_.clear();
    return count;
}

void CudaResolver::recycle_discarded() noexcept {
    for (Context* context = state_.contexts.load(std::memory_order_acquire); context != nullptr;
         context = context->next.load(std::memory_order_acquire))
        for (Event* event = context->take_discarded(); event != nullptr;) {
            Event* const next = event->next_discarded;
            context->send_home(*event);
            event = next;
        }
}

void CudaResolver::release(const Stamp& stamp) noexcept {
    if (stamp.event->held.fetch_sub(stamp.holds, std::memory_order_acq_rel) == stamp.holds)
        stamp.event->context->send_home(*stamp.event);
}

void CudaResolver::abandon(const Pending& pending) noexcept {
    for (const Stamp* stamp : {&pending.record.begin, &pending.record.end})
        stamp->event->context->discard(*stamp->event, stamp->holds);
    abandoned_count_.fetch_add(1, std::memory_order_relaxed);
}

void CudaResolver::abandon(Queue& queue) noexcept {
    for (const Pending& pending : queue) abandon(pending);
    queue.clear();
}

void CudaResolver::abandon_pending() noexcept {
    for (auto& [key, queue] : queues_) abandon(queue);
    for (const Pending& pending : mixed_) abandon(pending);
    mixed_.clear();
}

std::uint64_t CudaResolver::settled() const noexcept {
    std::uint64_t first_pending = accepted_ + 1;
    for (const auto& [key, queue] : queues_)
        if (!queue.empty()) first_pending = std::min(first_pending, queue.front().id);
    if (!mixed_.empty()) first_pending = std::min(first_pending, mixed_.front().id);
    return first_pending - 1;
}

void CudaResolver::visit_pending(const std::function<void(const UnfinishedSpan&)>& visit) const {
    const auto visit_one = [&](const Pending& pending) {
        const Record& record = pending.record;
        visit({record.region, record.step, record.begin.host_ns, record.seq, record.depth, true});
    };
    for (const auto& [key, queue] : queues_) std::for_each(queue.begin(), queue.end(), visit_one);
    std::for_each(mixed_.begin(), mixed_.end(), visit_one);
}

void CudaResolver::describe(RunFacts& facts) const {
    const bool cuda = !device_name_.empty();
    facts.backend = cuda ? "cuda" : "host";
    facts.device_name = device_name_;
    facts.device_uuid = device_uuid_;
    facts.driver_version = driver_version_;
    facts.device_clock_error_ns = clock_error_ns_;
}

std::string CudaResolver::take_notice(bool first_of_host) {
    const HostFallback fallback = state_.fallback.load(std::memory_order_relaxed);
    if (first_of_host && fallback != fallback_told_) {
        fallback_told_ = fallback;
        const char* symbol = missing_driver_symbol();
        if (symbol != nullptr)
            return std::string("the CUDA driver has no ") + symbol + ": spans are timed on the host clock";
        return std::string(fallback == HostFallback::no_driver ? "no CUDA driver is loaded"
                                                               : "a recording thread has no CUDA context") +
               ": its spans are timed on the host clock (backend \"host\" says that this is meant)";
    }
    if (loss_told_) return {};
    for (Context* context = state_.contexts.load(std::memory_order_acquire); context != nullptr;
         context = context->next.load(std::memory_order_acquire)) {
        if (!context->lost()) continue;
        loss_told_ = true;
        const DriverApi& driver = *state_.driver.load(std::memory_order_acquire);
        const char* name = nullptr;
        const CUresult code = state_.last_error.load(std::memory_order_relaxed);
        (void)driver.get_error_name(code, &name);
        return "the CUDA context of device " + std::to_string(context->device()) + " is lost (" +
               (name != nullptr ? name : "error " + std::to_string(code)) + "): it is not profiled any more";
    }
    return {};
}

void CudaResolver::add_counts(Totals& totals) const noexcept {
    totals.cuda_errors += state_.errors.load(std::memory_order_relaxed);
    totals.clock_error_ns = clock_error_ns_.load(std::memory_order_relaxed);
    totals.abandoned += abandoned_count_.load(std::memory_order_relaxed);
}

void CudaResolver::release_idle() noexcept {
    const DriverApi* driver = state_.driver.load(std::memory_order_acquire);
    if (driver == nullptr) return;
    const RelaxedCapture relaxed(*driver);
    recycle_discarded();
    for (Context* context = state_.contexts.load(std::memory_order_acquire); context != nullptr;
         context = context->next.load(std::memory_order_acquire))
        if (!context->lost() && !state_.exists(*context)) context->set_lost();  // its objects went with it
    for (auto& [context, clock] : clocks_) {
        if (context->lost()) continue;
        for (const ContextClock::Anchor& anchor : clock.recent)  // the pending one is among them
            if (anchor.event != nullptr) (void)driver->event_destroy(anchor.event);
        if (clock.stream != nullptr) (void)driver->stream_destroy(clock.stream);
        clock = {};
    }
    for (Context* context = state_.contexts.load(std::memory_order_acquire); context != nullptr;
         context = context->next.load(std::memory_order_acquire))
        context->destroy_idle_events(*driver);
}

}  // namespace cep::cuda
