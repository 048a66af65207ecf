// SPDX-License-Identifier: Apache-2.0
//
// The interface to a device that times spans on its own clock. Every stamp holds the host time. A device adds an event
// to it, and the poller later turns that event into a device time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ring.hpp"

namespace cep::cuda {
class CudaThread;
}  // namespace cep::cuda

namespace cep {

struct Totals;
struct Event;  // each device defines its own

/// One end of a span.
struct Stamp {
    std::int64_t host_ns = 0;      ///< monotonic clock
    Event* event = nullptr;        ///< null: there is only the host time
    std::int32_t stream = 0;       ///< small stable number of the stream within its device
    std::uint16_t references = 2;  ///< to the event: 2, or 1 each if two spans share it (cep_switch)
};

enum class StampResult : std::uint8_t {
    ok,         ///< stamped; without an event if the thread has no device
    capturing,  ///< the stream is being captured into a graph: do not record the span
    no_event,   ///< the pool is exhausted
    failed,     ///< the driver refused; counted by the device
};

/// A finished span on its way to the poller. It owns its references to the events of both stamps.
struct DeviceSpan {
    std::uint64_t id;
    Stamp begin;
    Stamp end;
};

/// The poller's result for a span.
struct DeviceTimes {
    enum class Outcome : std::uint8_t {
        resolved,    ///< start and duration from the device
        length,      ///< duration from the device; the start is the host's, because the device clock has no anchor
        host_clock,  ///< start and duration from the host times of the stamps
        lost,        ///< no times: the device will never finish it, or its events cannot be read
    };
    std::uint64_t id;
    Outcome outcome;
    std::int32_t device;
    std::int64_t start_ns;  ///< on the host's monotonic clock
    std::int64_t duration_ns;
};

/// What the run row records about a device.
struct DeviceFacts {
    std::string name;  ///< empty: no device has been used so far
    std::string uuid;
    std::int32_t driver_version = 0;
    std::int64_t clock_error_ns = 0;  ///< error bound of device times on the host's clock
    std::uint32_t version = 0;        ///< grows with each change
};

/// One pass of the poller over the spans it has accepted.
struct PollResult {
    std::size_t resolved = 0;  ///< number of spans, lost ones included
    bool pending = false;      ///< some spans are left
    bool caught_up = false;    ///< the device has finished none of the spans that are left
};

/// One kind of device. A driver call can hang with the GPU, so only the poller's thread makes driver calls in the
/// background. Functions that other threads may call say so.
class Device {
  public:
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    virtual ~Device() = default;

    /// Any thread: makes the part that the calling thread uses. That part has no virtual functions: every span calls
    /// it.
    [[nodiscard]] virtual std::unique_ptr<cuda::CudaThread> make_thread(bool full_ring) = 0;
    /// Any thread: drops the stamp's references to its event. Makes no driver call.
    virtual void release(const Stamp& stamp) noexcept = 0;
    /// Any thread.
    [[nodiscard]] virtual DeviceFacts facts() const = 0;
    [[nodiscard]] virtual std::uint32_t facts_version() const noexcept = 0;
    virtual void add_counts(Totals& totals) const noexcept = 0;

    /// Poller: takes a span over. Throws if memory runs out; the caller then still owns the span.
    virtual void accept(const DeviceSpan& span) = 0;
    /// Poller: puts the times of finished spans into `results` while there is room. A span waits until its device clock
    /// has an anchor; on the `final_pass` it takes the host's submission time as its start instead.
    [[nodiscard]] virtual PollResult poll(Ring<DeviceTimes>& results, bool final_pass) = 0;
    /// Poller: returns a message for the user once, else an empty text. A message that is the same on all ranks comes
    /// from the first rank of a host only.
    [[nodiscard]] virtual std::string take_notice(bool first_of_host) = 0;
    /// Poller's last call, after all recording has ended: drops the remaining spans and destroys the driver's objects.
    virtual void shut_down() noexcept = 0;
};

}  // namespace cep
