// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver_api.hpp"
#include "ring.hpp"

namespace cep {

namespace cuda {
class Context;
struct Supply;
}  // namespace cuda

/// A pooled CUDA event. One span holds both of its halves, or two spans one each (cep_switch); the stamp records which,
/// so that the trainer's thread never writes here what the poller, on another core, has written last. A thread acquires
/// an event, any thread releases it, and the poller recycles it into the supply of the thread that made it.
struct Event {
    static constexpr std::uint16_t halves = 2;

    cuda::CUevent handle = nullptr;
    cuda::Supply* home = nullptr;
    cuda::Context* context = nullptr;
    std::atomic<std::uint32_t> held{halves};
    Event* next_released = nullptr;
};

}  // namespace cep

namespace cep::cuda {

struct FreeEvent {
    Event* event = nullptr;
    CUevent handle = nullptr;  ///< beside the pointer: the thread need not touch memory that the poller wrote last
};

/// Events waiting for one thread: the poller puts them in, the thread takes them out.
struct Supply {
    Supply(std::size_t capacity, Supply* next_supply) : events(capacity), next(next_supply) {}
    Ring<FreeEvent> events;
    Supply* const next;
    std::size_t created = 0;  ///< by the thread; never more than the ring holds
};

/// What cep knows of one CUDA context. Trainer threads find and extend it without locks; it lives as long as the
/// profiler. The poller's own part (clock, anchors) is in CudaDevice.
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

    /// After a sticky error, or destruction by the trainer, no call is made on the context any more.
    [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
    void set_lost() noexcept { lost_.store(true, std::memory_order_relaxed); }

    /// A small number for a stream, in the order of first use; 0 is the legacy default stream.
    [[nodiscard]] std::int32_t stream_number(std::uint64_t stream_key) noexcept;

    /// A new event within the limit, wholly held; null when there is none. `error` says what the driver answered.
    [[nodiscard]] Event* create_event(const DriverApi& driver, Supply& home, CUresult& error) noexcept;
    [[nodiscard]] Supply* add_supply(std::size_t capacity);

    /// Any thread: lets go of so many halves; the last leaves the event to the poller.
    void release(Event& event, std::uint16_t halves) noexcept;
    /// Poller: released events go back to the threads that made them.
    void recycle_released() noexcept;
    /// Poller: release() and, after the last half, back at once: events keep the order in which they were used, and
    /// with it their neighbours in memory.
    void recycle(Event& event, std::uint16_t halves) noexcept;
    /// Poller, when no thread records any more: destroys the events that are in supplies.
    void destroy_idle_events(const DriverApi& driver) noexcept;

    std::atomic<Context*> next{nullptr};  ///< in the list of contexts

  private:
    [[nodiscard]] static bool let_go(Event& event, std::uint16_t halves) noexcept {
        return event.held.fetch_sub(halves, std::memory_order_acq_rel) == halves;
    }
    static void supply(Event& event) noexcept;
    [[nodiscard]] Event* take_released() noexcept { return released_.exchange(nullptr, std::memory_order_acquire); }

    static constexpr std::size_t max_streams = 255;

    const CUcontext handle_;
    const std::uint64_t id_;
    const CUdevice device_;
    const std::size_t pool_limit_;
    std::atomic<bool> lost_{false};
    std::atomic<std::size_t> live_events_{0};
    std::atomic<Event*> released_{nullptr};
    std::atomic<Supply*> supplies_{nullptr};
    std::array<std::atomic<std::uint64_t>, max_streams> streams_{};
};

}  // namespace cep::cuda
