// SPDX-License-Identifier: Apache-2.0
//
// What the rooms hand to each other of spans on a device, which times them on its own clock. Every stamp holds the host
// time. The device adds an event to it, and the poller later turns that event into a device time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cep {

struct Event;

/// One end of a span.
struct Stamp {
    std::int64_t host_ns = 0;     ///< monotonic clock
    Event* event = nullptr;       ///< null: there is only the host time
    std::uint16_t stream = 0;     ///< small stable number of the stream within its device
    std::uint8_t references = 2;  ///< to the event: 2, or 1 each if two spans share it (cep_switch)
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
    bool searching = false;    ///< a thread needs the driver, which is not there so far
};

}  // namespace cep
