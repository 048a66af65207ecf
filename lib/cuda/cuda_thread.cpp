// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_thread.hpp"

#include <exception>
#include <new>

namespace cep::cuda {

CudaState::~CudaState() {
    for (Context* context = contexts.load(std::memory_order_relaxed); context != nullptr;) {
        const std::unique_ptr<Context> owned(context);
        context = context->next.load(std::memory_order_relaxed);
    }
}

Context* CudaState::find_or_add_context(CUcontext handle) noexcept {
    const DriverApi& api = *driver.load(std::memory_order_acquire);
    const std::uint64_t id = context_id(handle);
    Context* head = contexts.load(std::memory_order_acquire);
    for (Context* known = head; known != nullptr; known = known->next.load(std::memory_order_relaxed))
        if (known->handle() == handle && known->id() == id) return known;
    CUdevice device = 0;
    if (api.ctx_get_device(&device) != result::success) return nullptr;
    auto* context = new (std::nothrow) Context(handle, id, device, pool_limit);
    if (context == nullptr) return nullptr;
    do {
        for (Context* known = head; known != nullptr; known = known->next.load(std::memory_order_relaxed))
            if (known->handle() == handle && known->id() == id) {  // another thread was first
                delete context;
                return known;
            }
        context->next.store(head, std::memory_order_relaxed);
    } while (!contexts.compare_exchange_weak(head, context, std::memory_order_acq_rel));
    return context;
}

std::uint64_t CudaState::context_id(CUcontext handle) const noexcept {
    const DriverApi& api = *driver.load(std::memory_order_acquire);
    unsigned long long id = 0;
    if (api.ctx_get_id != nullptr) (void)api.ctx_get_id(handle, &id);
    return id;
}

/// Whether a device has its primary context, which programs with PyTorch use, and it is not the one of that device.
static bool has_other_primary(const DriverApi& api, CUdevice device) noexcept {
    unsigned int flags = 0;
    int active = 0;
    if (api.primary_ctx_get_state == nullptr) return false;
    for (CUdevice other = 0; api.primary_ctx_get_state(other, &flags, &active) == result::success; ++other)
        if (other != device && active != 0) return true;
    return false;
}

const Context* CudaState::only_context() const noexcept {
    const Context* const known = contexts.load(std::memory_order_acquire);
    const bool is_only = known != nullptr && known->next.load(std::memory_order_relaxed) == nullptr;
    if (!is_only || known->lost() || !exists(*known)) return nullptr;
    return has_other_primary(*driver.load(std::memory_order_acquire), known->device()) ? nullptr : known;
}

void CudaState::count_error(Context* context, CUresult code) noexcept {
    errors.fetch_add(1, std::memory_order_relaxed);
    last_error.store(code, std::memory_order_relaxed);
    if (context != nullptr && is_sticky(code)) context->set_lost();
}

[[gnu::noinline, gnu::cold]] DeviceStamp CudaThread::fall_back(HostFallback reason) noexcept {
    if (state_.fallback.load(std::memory_order_relaxed) == HostFallback::none)
        state_.fallback.store(reason, std::memory_order_relaxed);
    return {};
}

[[nodiscard]] static bool is_default_stream(const void* stream) noexcept {
    return reinterpret_cast<std::uintptr_t>(stream) <= stream_handles::per_thread;
}

[[gnu::always_inline]] inline bool CudaThread::find_context(void* stream, std::int64_t now_ns) noexcept {
    const bool identified = now_ns - identified_ns_ < identity_lasts_ns;
    // A stream that the program has made belongs to one context, whichever is current. A default stream belongs to
    // each.
    if (identified && knows(stream) && !is_default_stream(stream)) return true;
    CUcontext handle = nullptr;
    if (driver_->ctx_get_current(&handle) != result::success || handle == nullptr) return false;
    if (current_.handle != handle || !identified) [[unlikely]]
        identify(handle, now_ns);
    return true;
}

/// The driver writes to the event's memory when it records it, and the poller on another core read that memory last.
/// So this thread fetches the memory one span ahead. It never reads or writes there.
[[gnu::always_inline]] inline void CudaThread::prefetch_event(CUevent event) noexcept {
    constexpr std::size_t driver_event_bytes = 592;  // distance of two new events, CUDA 13.0
    constexpr std::size_t line_bytes = 64;
    const auto* const bytes = reinterpret_cast<const char*>(event);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < driver_event_bytes; i += line_bytes) __builtin_prefetch(bytes + i, 1);
}

[[gnu::always_inline]] inline FreeEvent CudaThread::acquire_event(EventPool& pool, bool is_whole) noexcept {
    FreeEvent free;
    if (!is_whole) [[unlikely]]
        return acquire_of_withheld();
    if (!pool.events.pop(free)) [[unlikely]]
        return create_event();
    if (const FreeEvent* next = pool.events.prepare_pop()) [[likely]]
        prefetch_event(next->handle);
    return free;
}

[[gnu::always_inline]] inline std::uint16_t CudaThread::stream_number(void* stream) noexcept {
    if (stream == current_.streams[0]) [[likely]]
        return current_.stream_numbers[0];
    return stream == current_.streams[1] ? current_.stream_numbers[1] : find_stream_number(stream);
}

[[gnu::hot]] DeviceStamp CudaThread::stamp(void* stream, std::int64_t now_ns) noexcept {
    if (driver_ == nullptr && !find_driver()) return fall_back(HostFallback::no_driver);
    if (!find_context(stream, now_ns)) return stamp_without_context(stream, now_ns);
    EventPool* const pool = current_.pool;
    if (pool == nullptr) return {.result = StampResult::no_event};
    const bool is_whole = pool->withheld().nothing();
    if (!is_whole && pool->withheld().everything()) [[unlikely]]
        return {.result = StampResult::failed};  // the context is lost
    const auto cuda_stream = static_cast<CUstream>(stream);
    CUstreamCaptureStatus capturing = capture_status::none;
    CUresult code = driver_->stream_is_capturing(cuda_stream, &capturing);
    if (capturing != capture_status::none || code == result::capture_implicit)
        return {.result = StampResult::capturing};
    if (code != result::success) return fail(code, nullptr);
    const FreeEvent free = acquire_event(*pool, is_whole);
    if (free.event == nullptr) return {.result = StampResult::no_event};
    code = driver_->event_record(free.handle, cuda_stream);
    if (code != result::success) return fail(code, free.event);
    return {free.event, stream_number(stream)};
}

/// The context of a stream for a thread that has none: the one that made the stream, else the process's only one.
CUcontext CudaThread::find_context_of(void* stream) const noexcept {
    CUcontext handle = nullptr;
    if (!is_default_stream(stream) && driver_->stream_get_ctx != nullptr)
        return driver_->stream_get_ctx(static_cast<CUstream>(stream), &handle) == result::success ? handle : nullptr;
    const Context* const only = state_.only_context();
    return only != nullptr ? only->handle() : nullptr;
}

/// The same, asked for as seldom as the identity of a current context.
CUcontext CudaThread::context_of(void* stream, std::int64_t now_ns) noexcept {
    if (borrowed_.context == nullptr || borrowed_.stream != stream || now_ns - borrowed_.found_ns >= identity_lasts_ns)
        borrowed_ = {stream, find_context_of(stream), now_ns};
    return borrowed_.context;
}

/// A thread that has called no function of the CUDA runtime yet has no current context, though the streams that it uses
/// have one: PyTorch's backward begins so on its own thread.
[[gnu::noinline, gnu::cold]] DeviceStamp CudaThread::stamp_without_context(void* stream, std::int64_t now_ns) noexcept {
    CUcontext const handle = context_of(stream, now_ns);
    if (handle == nullptr || driver_->ctx_push_current(handle) != result::success)
        return fall_back(HostFallback::no_context);
    CUcontext current = nullptr;
    const bool is_current = driver_->ctx_get_current(&current) == result::success && current == handle;
    const DeviceStamp made = is_current ? stamp(stream, now_ns) : fall_back(HostFallback::no_context);
    (void)driver_->ctx_pop_current(&current);
    return made;
}

[[gnu::noinline, gnu::cold]] bool CudaThread::find_driver() noexcept {
    driver_ = state_.driver.load(std::memory_order_acquire);
    return driver_ != nullptr;
}

[[gnu::noinline, gnu::cold]] DeviceStamp CudaThread::fail(CUresult code, Event* event) noexcept {
    state_.count_error(current_.context, code);
    if (event != nullptr) current_.context->release(*event, Event::max_references);
    // Ask for the context again: the stream may be a new one at the same address.
    current_.streams = {};
    current_.stream_numbers = {};
    return {.result = StampResult::failed};
}

[[gnu::noinline, gnu::cold]] void CudaThread::identify(CUcontext handle, std::int64_t now_ns) noexcept {
    const Binding* binding = bind(handle);
    if (binding == nullptr)
        current_ = {};
    else if (binding->context != current_.context)
        current_ = *binding;
    identified_ns_ = now_ns;
}

CudaThread::Binding* CudaThread::bind(CUcontext handle) noexcept {
    Binding* free = nullptr;
    for (Binding& binding : bindings_) {
        if (binding.handle == handle) {
            if (state_.exists(*binding.context)) return &binding;
            binding.context->set_lost();
            binding = {};
        }
        if (binding.handle == nullptr && free == nullptr) free = &binding;
    }
    if (free == nullptr) return nullptr;
    Context* context = state_.find_or_add_context(handle);
    if (context == nullptr) return nullptr;
    try {
        *free = {handle, context, context->add_pool(pool_capacity_)};
    } catch (const std::exception&) {
        return nullptr;
    }
    return free;
}

[[gnu::noinline, gnu::cold]] FreeEvent CudaThread::create_event() noexcept {
    CUcontext current = nullptr;  // the driver makes the event for this one, which need not be the stream's
    if (driver_->ctx_get_current(&current) != result::success) return {};
    const bool has_none = current == nullptr;
    if (has_none && driver_->ctx_push_current(current_.handle) != result::success) return {};
    if (!has_none && current != current_.handle) return {};
    CUresult code = result::success;
    const FreeEvent free = current_.context->create_event(*driver_, *current_.pool, code);
    if (has_none) (void)driver_->ctx_pop_current(&current);
    if (code != result::success) state_.count_error(current_.context, code);
    if (free.event == nullptr && current_.context->has_released()) state_.poller->notify();  // it returns them
    return free;
}

/// Some of the pool's events are withheld.
[[gnu::noinline, gnu::cold]] FreeEvent CudaThread::acquire_of_withheld() noexcept {
    EventPool& pool = *current_.pool;
    FreeEvent free;
    if (pool.events.size() > pool.withheld().events() && pool.events.pop(free)) return free;
    return create_event();
}

[[gnu::noinline, gnu::cold]] std::uint16_t CudaThread::find_stream_number(void* stream) noexcept {
    auto key = reinterpret_cast<std::uint64_t>(stream);
    if (key == stream_handles::per_thread)
        key |= reinterpret_cast<std::uint64_t>(this) << 8;  // each thread has its own
    current_.streams = {stream, current_.streams[0]};
    current_.stream_numbers = {current_.context->stream_number(key), current_.stream_numbers[0]};
    return current_.stream_numbers[0];
}

}  // namespace cep::cuda
