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

std::uint16_t Context::stream_number(std::uint64_t stream_key) noexcept {
    if (stream_key <= stream_handles::legacy) return 0;
    for (std::size_t i = 0; i < max_streams; ++i) {
        std::uint64_t known = streams_[i].load(std::memory_order_acquire);
        if (known == 0 && streams_[i].compare_exchange_strong(known, stream_key, std::memory_order_acq_rel))
            known = stream_key;
        if (known == stream_key) return static_cast<std::uint16_t>(i + 1);
    }
    return static_cast<std::uint16_t>(max_streams + 1);  // all further streams share this number
}

bool Withheld::withhold_one(std::size_t idle) noexcept {
    std::uint32_t now = word_.load(std::memory_order_relaxed);
    while ((now & all) == 0 && now < idle)
        if (word_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return true;
    return false;
}

bool Withheld::return_one() noexcept {
    std::uint32_t now = word_.load(std::memory_order_relaxed);
    while ((now & ~all) > 0)
        if (word_.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) return true;
    return false;
}

void Context::set_lost() noexcept {
    lost_.store(true);
    for_each_pool([](EventPool& pool) { pool.withheld().withhold_everything(); });
}

bool Context::reserve(const EventPool& pool) noexcept {
    if (reserved_.fetch_add(1, std::memory_order_relaxed) < pool_limit_) return true;
    reserved_.fetch_sub(1, std::memory_order_relaxed);
    bool found = false;
    for_each_pool([&](EventPool& other) {
        found = found || (&other != &pool && other.withheld().withhold_one(other.events.size()));
    });
    return found;
}

FreeEvent Context::create_event(const DriverApi& driver, EventPool& pool, CUresult& error) noexcept {
    error = result::success;
    FreeEvent free;
    const bool has_idle = pool.withheld().events() > 0;
    if ((!has_idle && pool.created == pool.events.capacity()) || !reserve(pool)) return free;
    if (pool.withheld().return_one() && pool.events.pop(free)) return free;
    std::unique_ptr<Event> event(new (std::nothrow) Event);
    if (event != nullptr && pool.created < pool.events.capacity()) {
        error = driver.event_create(&event->handle, event_flags::normal);
        if (error == result::success) {
            ++pool.created;
            event->pool = &pool;
            event->context = this;
            free.handle = event->handle;
            free.event = event.release();
            return free;
        }
    }
    reserved_.fetch_sub(1, std::memory_order_relaxed);
    return free;
}

EventPool* Context::add_pool(std::size_t capacity) {
    EventPool* head = pools_.load(std::memory_order_acquire);
    for (;;) {
        auto pool = std::make_unique<EventPool>(capacity, head);
        if (!pools_.compare_exchange_strong(head, pool.get())) continue;
        if (lost_.load()) pool->withheld().withhold_everything();
        return pool.release();
    }
}

void Context::release(Event& event, std::uint8_t references) noexcept {
    if (!drop_references(event, references)) return;
    Event* head = released_.load(std::memory_order_relaxed);
    do event.next_released = head;
    while (!released_.compare_exchange_weak(head, &event, std::memory_order_release, std::memory_order_relaxed));
}

void Context::recycle(Event& event, std::uint8_t references) noexcept {
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
    for_each_pool([&driver](EventPool& pool) {
        for (FreeEvent free; pool.events.pop(free);) {
            (void)driver.event_destroy(free.handle);
            delete free.event;
        }
    });
}

}  // namespace cep::cuda
