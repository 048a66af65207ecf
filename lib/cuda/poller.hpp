// SPDX-License-Identifier: Apache-2.0
//
// The thread that asks the device when spans happened. It takes spans from one ring, puts times into another, and never
// touches the file. It may hang with the driver; no other thread waits for it then.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/background_thread.hpp"
#include "base/counts.hpp"
#include "base/pace.hpp"
#include "base/requests.hpp"
#include "base/ring.hpp"
#include "base/wakeup.hpp"
#include "cuda/cuda_device.hpp"

namespace cep {

struct Config;

class Poller {
  public:
    /// `writer` is notified when results are ready that it waits for.
    Poller(cuda::CudaDevice& device, const Config& config, Wakeup& writer);

    /// Any thread: starts the poller's thread once. False if the system refuses.
    bool start() noexcept { return thread_.start("cep-poller", &thread_main, this); }

    [[nodiscard]] bool started() const noexcept { return thread_.started(); }

    // Writer.
    /// Hands a span over. False if the ring is full.
    [[nodiscard]] bool send(const DeviceSpan& span) noexcept { return spans_.push(span); }
    [[nodiscard]] bool receive(DeviceTimes& times) noexcept { return times_.pop(times); }
    void wake() noexcept { wakeup_.notify(); }
    /// Adds to the number of callers that wait for results. While there are any, the poller polls more often.
    void add_waiters(int change) noexcept { waiters_.fetch_add(change, std::memory_order_relaxed); }
    /// Asks for a pass that resolves everything the device has finished by now. Returns the request's number.
    [[nodiscard]] std::uint32_t ask_to_catch_up() noexcept;
    /// From now on, spans that the device has finished no longer wait for an anchor.
    void set_final_pass() noexcept { final_pass_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool caught_up(std::uint32_t number) const noexcept { return catch_up_.served(number); }

    /// Closing thread, after all recording has ended: stops the poller's thread. With `shut_down` the poller destroys
    /// the driver's objects first. False: the thread hangs in the driver, so everything it uses must stay alive.
    [[nodiscard]] bool stop(std::int64_t deadline_ns, bool shut_down) noexcept;

    [[nodiscard]] std::uint64_t self_ns() const noexcept { return self_ns_.get(); }

  private:
    static void thread_main(void* self) noexcept { static_cast<Poller*>(self)->run(); }
    void run() noexcept;
    PollResult work() noexcept;
    void accept_spans();
    void print_notice() noexcept;
    [[nodiscard]] bool is_urgent() const noexcept { return waiters_.load(std::memory_order_relaxed) > 0; }
    [[nodiscard]] std::int64_t next_pause(const PollResult& last) noexcept;

    static constexpr std::size_t ring_capacity = 1024;

    cuda::CudaDevice& device_;
    const std::int32_t rank_;
    const bool first_of_host_;
    Wakeup& writer_;
    Wakeup wakeup_;
    BackgroundThread thread_;
    Ring<DeviceSpan> spans_{ring_capacity};
    Ring<DeviceTimes> times_{ring_capacity};
    Requests catch_up_;
    std::atomic<int> waiters_{0};
    std::atomic<bool> final_pass_{false};
    std::atomic<bool> stop_{false};
    std::atomic<bool> shut_down_{false};
    Count self_ns_;

    // Used by the poller's thread only:
    std::optional<DeviceSpan> refused_;  ///< taken from the ring, but the device had no memory for it
    Pace pace_;
};

}  // namespace cep
