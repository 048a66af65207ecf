// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ring.hpp"
#include "cuda/driver_api.hpp"

namespace cep {

namespace cuda {
class Context;
struct EventPool;
}  // namespace cuda

/// A pooled CUDA event with two references. One span holds both, or two spans hold one each (cep_switch). The stamp
/// records how many, so that the trainer's thread need not write here: the poller, on another core, wrote here last. A
/// thread acquires an event, any thread releases it, and the poller returns it to the pool of the thread that made it.
struct Event {
    static constexpr std::uint8_t max_references = 2;

    cuda::CUevent handle = nullptr;
    cuda::EventPool* pool = nullptr;
    cuda::Context* context = nullptr;
    std::atomic<std::uint32_t> references{max_references};
    Event* next_released = nullptr;
};

}  // namespace cep

namespace cep::cuda {

struct FreeEvent {
    Event* event = nullptr;
    CUevent handle = nullptr;  ///< copied from the event: spares the thread a read of memory that the poller wrote last
};

/// What a thread may not take from its pool: events that it gave back, because another thread needed one when all were
/// in flight, or all of them, because their context is lost. Other threads change it.
class Withheld {
  public:
    static constexpr std::uint32_t all = std::uint32_t{1} << 31;

    [[nodiscard]] bool nothing() const noexcept { return word_.load(std::memory_order_relaxed) == 0; }
    [[nodiscard]] bool everything() const noexcept { return (word_.load(std::memory_order_relaxed) & all) != 0; }
    [[nodiscard]] std::uint32_t events() const noexcept { return word_.load(std::memory_order_relaxed) & ~all; }
    void withhold_everything() noexcept { word_.fetch_or(all, std::memory_order_relaxed); }
    /// Withholds one more of `idle` events. False if all of them are withheld.
    [[nodiscard]] bool withhold_one(std::size_t idle) noexcept;
    /// False if none is withheld.
    [[nodiscard]] bool return_one() noexcept;

  private:
    std::atomic<std::uint32_t> word_{0};
};

/// Free events of one thread: the poller puts them in, the thread takes them out.
struct EventPool {
    EventPool(std::size_t capacity, EventPool* next_pool) : events(capacity), next(next_pool) {}
    [[nodiscard]] Withheld& withheld() noexcept { return events.consumer_data(); }

    Ring<FreeEvent, Withheld> events;
    EventPool* const next;
    std::size_t created = 0;  ///< events that the thread has created; at most the capacity of the ring
};

/// One CUDA context and its pools of events. Trainer threads find and extend it without locks. It lives as long as the
/// profiler. CudaDevice holds the poller's part: clock and anchors.
class Context {
  public:
    Context(CUcontext handle, std::uint64_t id, CUdevice device, std::size_t pool_limit)
        : handle_(handle), id_(id), device_(device), pool_limit_(pool_limit) {}
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context();

    [[nodiscard]] CUcontext handle() const noexcept { return handle_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    [[nodiscard]] CUdevice device() const noexcept { return device_; }

    /// After a sticky error, or after the trainer has destroyed the context, cep makes no more calls on it.
    [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
    void set_lost() noexcept;

    /// A small number for a stream, in the order of first use; 0 is the legacy default stream.
    [[nodiscard]] std::uint16_t stream_number(std::uint64_t stream_key) noexcept;

    /// The pool's owner, whose pool has no event that it may take: an event with both references, within the limit of
    /// events in flight. At the limit, an idle event of another pool is given back for it. Empty if that fails; `error`
    /// is the driver's code.
    [[nodiscard]] FreeEvent create_event(const DriverApi& driver, EventPool& pool, CUresult& error) noexcept;
    [[nodiscard]] EventPool* add_pool(std::size_t capacity);

    /// Any thread: drops references. After the last one the poller recycles the event.
    void release(Event& event, std::uint8_t references) noexcept;
    [[nodiscard]] bool has_released() const noexcept { return released_.load(std::memory_order_relaxed) != nullptr; }
    /// Poller: returns the released events to their pools.
    void recycle_released() noexcept;
    /// Poller: drops references, and after the last one returns the event to its pool at once. So events stay in the
    /// order of use, next to their neighbours in memory.
    void recycle(Event& event, std::uint8_t references) noexcept;
    /// Poller, after all recording has ended: destroys the events in the pools.
    void destroy_idle_events(const DriverApi& driver) noexcept;

    std::atomic<Context*> next{nullptr};  ///< in the list of contexts

  private:
    [[nodiscard]] static bool drop_references(Event& event, std::uint8_t references) noexcept {
        return event.references.fetch_sub(references, std::memory_order_acq_rel) == references;
    }
    static void return_to_pool(Event& event) noexcept;
    [[nodiscard]] bool reserve(const EventPool& pool) noexcept;
    template <class Visit>
    void for_each_pool(Visit visit) noexcept {
        for (EventPool* pool = pools_.load(std::memory_order_acquire); pool != nullptr; pool = pool->next) visit(*pool);
    }
    [[nodiscard]] Event* take_released() noexcept { return released_.exchange(nullptr, std::memory_order_acquire); }

    static constexpr std::size_t max_streams = 255;

    const CUcontext handle_;
    const std::uint64_t id_;
    const CUdevice device_;
    const std::size_t pool_limit_;
    std::atomic<bool> lost_{false};
    /// Events in flight and those that threads may take from their pools.
    alignas(64) std::atomic<std::size_t> reserved_{0};
    std::atomic<Event*> released_{nullptr};
    std::atomic<EventPool*> pools_{nullptr};
    std::array<std::atomic<std::uint64_t>, max_streams> streams_{};
};

}  // namespace cep::cuda
