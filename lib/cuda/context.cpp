// SPDX-License-Identifier: Apache-2.0
#include "cuda/context.hpp"

#include <new>

namespace cep::cuda {

Context::~Context() {
    // The driver's event handles are not destroyed here, because that is a driver call: see destroy_idle_events().
    for (Event* event = take_released(); event != nullptr;) {
        const std::unique_ptr<Event> owned(event);
        event = event->next_released;
    }
    for (EventPool* pool = pools_.load(std::memory_order_relaxed); pool != nullptr;) {
        const std::unique_ptr<EventPool> owned(pool);
        for (FreeEvent free; pool->events.pop(free);) delete free.event;
        pool = pool->next;
    }
}

std::int32_t Context::stream_number(std::uint64_t stream_key) noexcept {
    if (stream_key <= stream_handles::legacy) return 0;
    for (std::size_t i = 0; i < max_streams; ++i) {
        std::uint64_t known = streams_[i].load(std::memory_order_acquire);
        if (known == 0 && streams_[i].compare_exchange_strong(known, stream_key, std::memory_order_acq_rel))
            known = stream_key;
        if (known == stream_key) return static_cast<std::int32_t>(i + 1);
    }
    return static_cast<std::int32_t>(max_streams + 1);  // all further streams share this number
}

Event* Context::create_event(const DriverApi& driver, EventPool& pool, CUresult& error) noexcept {
    error = result::success;
    if (pool.created == pool.events.capacity()) return nullptr;
    if (live_events_.fetch_add(1, std::memory_order_relaxed) < pool_limit_) {
        auto* event = new (std::nothrow) Event;
        if (event != nullptr) {
            error = driver.event_create(&event->handle, event_flags::normal);
            if (error == result::success) {
                ++pool.created;
                event->pool = &pool;
                event->context = this;
                return event;
            }
            delete event;
        }
    }
    live_events_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
}

EventPool* Context::add_pool(std::size_t capacity) {
    EventPool* head = pools_.load(std::memory_order_acquire);
    for (;;) {
        auto pool = std::make_unique<EventPool>(capacity, head);
        if (pools_.compare_exchange_strong(head, pool.get(), std::memory_order_acq_rel)) return pool.release();
    }
}

void Context::release(Event& event, std::uint16_t references) noexcept {
    if (!drop_references(event, references)) return;
    Event* head = released_.load(std::memory_order_relaxed);
    do event.next_released = head;
    while (!released_.compare_exchange_weak(head, &event, std::memory_order_release, std::memory_order_relaxed));
}

void Context::recycle(Event& event, std::uint16_t references) noexcept {
    if (drop_references(event, references)) return_to_pool(event);
}

void Context::recycle_released() noexcept {
    for (Event* event = take_released(); event != nullptr;) {
        Event* const following = event->next_released;
        return_to_pool(*event);
        event = following;
    }
}

void Context::return_to_pool(Event& event) noexcept {
    event.references.store(Event::max_references, std::memory_order_relaxed);
    (void)event.pool->events.push({&event, event.handle});  // never full: its thread creates no more than fit
}

void Context::destroy_idle_events(const DriverApi& driver) noexcept {
    if (lost()) return;
    for (EventPool* pool = pools_.load(std::memory_order_acquire); pool != nullptr; pool = pool->next)
        for (FreeEvent free; pool->events.pop(free);) {
            (void)driver.event_destroy(free.handle);
            live_events_.fetch_sub(1, std::memory_order_relaxed);
            delete free.event;
        }
}

}  // namespace cep::cuda
