// SPDX-License-Identifier: Apache-2.0
#include "cuda/context.hpp"

#include <new>

namespace cep::cuda {

Context::~Context() {
    // Handles still held by the driver are not destroyed here: that is a driver call (see destroy_idle_events).
    for (Event* event = take_released(); event != nullptr;) {
        const std::unique_ptr<Event> owned(event);
        event = event->next_released;
    }
    for (Supply* supply = supplies_.load(std::memory_order_relaxed); supply != nullptr;) {
        const std::unique_ptr<Supply> owned(supply);
        for (FreeEvent free; supply->events.pop(free);) delete free.event;
        supply = supply->next;
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
    return static_cast<std::int32_t>(max_streams + 1);  // all the others
}

Event* Context::create_event(const DriverApi& driver, Supply& home, CUresult& error) noexcept {
    error = result::success;
    if (home.created == home.events.capacity()) return nullptr;
    if (live_events_.fetch_add(1, std::memory_order_relaxed) < pool_limit_) {
        auto* event = new (std::nothrow) Event;
        if (event != nullptr) {
            error = driver.event_create(&event->handle, event_flags::normal);
            if (error == result::success) {
                ++home.created;
                event->home = &home;
                event->context = this;
                return event;
            }
            delete event;
        }
    }
    live_events_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
}

Supply* Context::add_supply(std::size_t capacity) {
    Supply* head = supplies_.load(std::memory_order_acquire);
    for (;;) {
        auto supply = std::make_unique<Supply>(capacity, head);
        if (supplies_.compare_exchange_strong(head, supply.get(), std::memory_order_acq_rel)) return supply.release();
    }
}

void Context::release(Event& event, std::uint16_t halves) noexcept {
    if (!let_go(event, halves)) return;
    Event* head = released_.load(std::memory_order_relaxed);
    do event.next_released = head;
    while (!released_.compare_exchange_weak(head, &event, std::memory_order_release, std::memory_order_relaxed));
}

void Context::recycle(Event& event, std::uint16_t halves) noexcept {
    if (let_go(event, halves)) supply(event);
}

void Context::recycle_released() noexcept {
    for (Event* event = take_released(); event != nullptr;) {
        Event* const following = event->next_released;
        supply(*event);
        event = following;
    }
}

void Context::supply(Event& event) noexcept {
    event.held.store(Event::halves, std::memory_order_relaxed);
    (void)event.home->events.push({&event, event.handle});  // a supply holds all that its thread may create
}

void Context::destroy_idle_events(const DriverApi& driver) noexcept {
    if (lost()) return;
    for (Supply* supply = supplies_.load(std::memory_order_acquire); supply != nullptr; supply = supply->next)
        for (FreeEvent free; supply->events.pop(free);) {
            (void)driver.event_destroy(free.handle);
            live_events_.fetch_sub(1, std::memory_order_relaxed);
            delete free.event;
        }
}

}  // namespace cep::cuda
