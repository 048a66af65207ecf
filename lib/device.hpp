// SPDX-License-Identifier: Apache-2.0
//
// What the library asks of a clock other than the host's. Every stamp carries the host clock; a device adds an event of
// its own, which the poller later turns into the device's time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ring.hpp"

namespace cep {

struct Totals;
struct Event;  // a device's own

/// One end of a span.
struct Stamp {
    std::int64_t host_ns = 0;  ///< monotonic clock
    Event* event = nullptr;    ///< null: the host clock is all there is
    std::int32_t stream = 0;   ///< small stable number of the stream within its device
    std::uint16_t holds = 2;   ///< of the event's two halves: both, or one where two spans share it (cep_switch)
};

enum class StampResult : std::uint8_t {
    ok,         ///< stamped, with an event or, where the thread has no device, without
    capturing,  ///< the stream is being captured into a graph: the span is not to be recorded
    no_event,   ///< the pool is exhausted
    failed,     ///< the driver refused; counted by the device
};

/// The trainer's side of a device, one for each recording thread; only that thread calls it.
class DeviceThread {
  public:
    DeviceThread() = default;
    DeviceThread(const DeviceThread&) = delete;
    DeviceThread& operator=(const DeviceThread&) = delete;
    virtual ~DeviceThread() = default;

    /// Adds an event in `stream` to the stamp. No lock, no synchronisation, no allocation in steady state.
    [[nodiscard]] virtual StampResult stamp(void* stream, Stamp& stamp) noexcept = 0;
};

/// A finished span on its way to the poller. It holds both stamps' events.
struct DeviceSpan {
    std::uint64_t id;
    Stamp begin;
    Stamp end;
};

/// What the poller found out about a span.
struct DeviceTimes {
    enum class Outcome : std::uint8_t {
        resolved,    ///< the device's times
        length,      ///< the device's duration; its clock could not be tied to the host's: it starts when submitted
        host_clock,  ///< the device has no time for it: the stamps' host times are all there is
        lost,        ///< the device will never finish it, or cannot say when it did
    };
    std::uint64_t id;
    Outcome outcome;
    std::int32_t device;
    std::int64_t start_ns;  ///< on the host's monotonic clock
    std::int64_t duration_ns;
};

/// What the run row says of a device.
struct DeviceFacts {
    std::string name;  ///< empty: no device has been used yet
    std::string uuid;
    std::int32_t driver_version = 0;
    std::int64_t clock_error_ns = 0;  ///< of the device's clock against the host's
};

/// One pass of the poller over the spans it has accepted.
struct PollResult {
    std::size_t resolved = 0;  ///< spans, lost ones among them
    bool pending = false;      ///< some are left
    bool caught_up = false;    ///< those left are, without exception, not finished by the device
};

/// One kind of device. The poller's thread makes all driver calls behind the trainer's back, since a driver call can
/// hang with the GPU; what other threads may call says so.
class Device {
  public:
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    virtual ~Device() = default;

    /// Any thread: the calling thread's side.
    [[nodiscard]] virtual std::unique_ptr<DeviceThread> make_thread(bool full_ring) = 0;
    /// Any thread: lets go of a stamp's event. No driver call.
    virtual void release(const Stamp& stamp) noexcept = 0;
    /// Any thread. `version` grows when the facts have changed.
    [[nodiscard]] virtual DeviceFacts facts() const = 0;
    [[nodiscard]] virtual std::uint32_t facts_version() const noexcept = 0;
    virtual void add_counts(Totals& totals) const noexcept = 0;

    /// Poller: takes a span over. Throws when memory runs out; then the span is still the caller's.
    virtual void accept(const DeviceSpan& span) = 0;
    /// Poller: hands over what the device has finished since, as far as there is room. Where the device's clock is not
    /// tied to the host's yet, spans wait for that; if it is the `last_chance`, they start when they were submitted.
    [[nodiscard]] virtual PollResult poll(Ring<DeviceTimes>& results, bool last_chance) = 0;
    /// Poller: a line that the user should read, once; else empty. What is the same on all ranks is told by the first
    /// of a host.
    [[nodiscard]] virtual std::string take_notice(bool first_of_host) = 0;
    /// Poller's last call: lets go of the spans left and destroys the driver's objects. Nobody records any more.
    virtual void shut_down() noexcept = 0;
};

}  // namespace cep
