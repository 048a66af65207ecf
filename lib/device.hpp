// SPDX-License-Identifier: Apache-2.0
//
// What the recorder and the resolver ask of a clock other than the host's. Every stamp carries the host clock; a
// device adds an event of its own, which the resolver later turns into the device's time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace cep {

struct Record;
struct ResolvedSpan;
struct RunFacts;
struct Totals;
struct UnfinishedSpan;
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
    /// The span that held this stamp is not handed to the resolver.
    virtual void discard(const Stamp& stamp) noexcept = 0;
};

/// The resolver's side of a device. Called with the resolver's lock held; gives it up round each driver call, since a
/// driver call can hang with the GPU and close() must still be able to write down what is known.
class DeviceResolver {
  public:
    /// Receives a span whose start is still on the monotonic clock; its record and metadata are borrowed.
    using Emit = std::function<void(ResolvedSpan)>;

    DeviceResolver() = default;
    DeviceResolver(const DeviceResolver&) = delete;
    DeviceResolver& operator=(const DeviceResolver&) = delete;
    virtual ~DeviceResolver() = default;

    /// Takes over a span whose stamps hold events.
    virtual void accept(const Record& record, std::string_view meta) = 0;
    /// Emits what the device has finished since. Returns how many spans that were.
    virtual std::size_t poll(std::unique_lock<std::mutex>& lock, const Emit& emit) = 0;
    /// Spans accepted so far, and how many of the first ones are done: all up to the n-th once settled() ≥ n.
    [[nodiscard]] virtual std::uint64_t accepted() const noexcept = 0;
    [[nodiscard]] virtual std::uint64_t settled() const noexcept = 0;
    /// The spans whose device work is not finished.
    virtual void visit_pending(const std::function<void(const UnfinishedSpan&)>& visit) const = 0;
    /// Gives up on all pending spans, and counts them.
    virtual void abandon_pending() noexcept = 0;
    /// What the run row says of the device; `version` grows when it has changed.
    virtual void describe(RunFacts& facts) const = 0;
    [[nodiscard]] virtual std::uint32_t facts_version() const noexcept = 0;
    /// Last call of the resolver's thread, when no thread records any more: destroys what is idle.
    virtual void release_idle() noexcept = 0;
    /// A line that the user should read, once; else empty. What is the same on all ranks is told by the first of a
    /// host.
    [[nodiscard]] virtual std::string take_notice(bool first_of_host) = 0;
    virtual void add_counts(Totals& totals) const noexcept = 0;
};

}  // namespace cep
