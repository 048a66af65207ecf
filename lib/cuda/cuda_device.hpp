// SPDX-License-Identifier: Apache-2.0
//
// CUDA events on the poller's thread: it finds which have completed and when, and returns them to their pools.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/counts.hpp"
#include "base/host_clock.hpp"
#include "base/ring.hpp"
#include "cuda/clock_model.hpp"
#include "cuda/cuda_thread.hpp"
#include "cuda/device.hpp"

namespace cep::cuda {

/// The anchors of one context: events on a private stream whose host time is known within a bracket.
class ContextClock {
  public:
    struct Anchor {
        CUevent event = nullptr;
        double gpu_ns = std::numeric_limits<double>::quiet_NaN();  ///< NaN until the event is seen to be complete
        std::int64_t host_ns = 0;                                  ///< middle of the bracket
    };

    ClockModel model;
    CUstream stream = nullptr;
    bool unusable = false;      ///< creating the stream or events failed, or too many anchors did
    int failures = 0;           ///< failed anchors in a row
    CUevent pending = nullptr;  ///< recorded and not yet seen to be complete
    std::int64_t pending_before_ns = 0;
    std::int64_t interval_ns = 0;    ///< until the next anchor: short while the drift is unknown
    std::array<Anchor, 4> recent{};  ///< the newest first
    double newest_gpu_ns = 0;        ///< of the model's latest anchor
};

/// Functions that other threads than the poller may call say so: a driver call can hang with the GPU, so only the
/// poller makes driver calls in the background.
class CudaDevice {
  public:
    explicit CudaDevice(std::size_t pool_limit) noexcept : state_(pool_limit) {}
    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;
    ~CudaDevice();

    /// Any thread: makes the part that the calling thread uses.
    [[nodiscard]] std::unique_ptr<CudaThread> make_thread(bool full_ring);
    /// Any thread: drops the stamp's references to its event. Makes no driver call.
    static void release(const Stamp& stamp) noexcept;
    static void release(const DeviceSpan& span) noexcept;
    /// Any thread.
    [[nodiscard]] DeviceFacts facts() const;
    [[nodiscard]] std::uint32_t facts_version() const noexcept {
        return facts_version_.load(std::memory_order_acquire);
    }
    void add_counts(Totals& totals) const noexcept;
    /// Any thread: whether the poller has events to return to their pools.
    [[nodiscard]] bool has_released_events() noexcept;
    /// Before any other call: where the poller sleeps.
    void set_poller(Wakeup& wakeup) noexcept { state_.poller = &wakeup; }

    /// Poller: takes a span over. Throws if memory runs out; the caller then still owns the span.
    void accept(const DeviceSpan& span);
    /// Poller: puts the times of finished spans into `results` while there is room. A span waits until its device clock
    /// has an anchor; on the `final_pass` it takes the host's submission time as its start instead.
    [[nodiscard]] PollResult poll(Ring<DeviceTimes>& results, bool final_pass);
    /// Poller: returns a message for the user once, else an empty text. A message that is the same on all ranks comes
    /// from the first rank of a host only.
    [[nodiscard]] std::string take_notice(bool first_of_host);
    /// Poller's last call, after all recording has ended: drops the remaining spans and destroys the driver's objects.
    void shut_down() noexcept;

  private:
    /// Spans in the order in which one stream will finish them.
    using Queue = std::deque<DeviceSpan>;
    using QueueKey = std::pair<Context*, std::uint16_t>;  ///< context and number of the stream that ends the span

    enum class Outcome : std::uint8_t {
        resolved,
        without_start,
        unfinished,  ///< the device has not finished it
        waiting,     ///< the device has finished it, but its host time is not known yet
        lost,
    };

    void search_for_driver();
    void recycle_released() noexcept;
    /// Marks a destroyed context as lost: its handle and its events must not be used.
    void check_existence(Context& context) noexcept;
    void poll_queue(Context& context, Queue& queue, Ring<DeviceTimes>& results, PollResult& result);
    [[nodiscard]] Outcome resolve(Context& context, const DeviceSpan& span, DeviceTimes& times);
    void report_mixed_spans(Ring<DeviceTimes>& results, PollResult& result);
    static void recycle(const DeviceSpan& span) noexcept;
    void drop_spans() noexcept;
    template <class Visit>
    void for_each_context(Visit visit) noexcept {
        for (Context* context = state_.contexts.load(std::memory_order_acquire); context != nullptr;
             context = context->next.load(std::memory_order_acquire))
            visit(*context);
    }
    [[nodiscard]] const DriverApi& driver() const noexcept { return *state_.driver.load(std::memory_order_acquire); }

    // Anchors.
    void keep_anchored(Context& context, std::int64_t now_ns);
    [[nodiscard]] bool open_clock(Context& context, ContextClock& clock);
    void record_anchor(Context& context, ContextClock& clock) noexcept;
    void await_anchor(Context& context, ContextClock& clock);
    void complete_anchor(Context& context, ContextClock& clock, std::int64_t after_ns);
    void anchor_failed(Context& context, ContextClock& clock, CUresult code) noexcept;
    /// Finds when the stamp's event happened, on the host's clock. The outcome tells whether that is known.
    [[nodiscard]] Outcome host_time_of(ContextClock& clock, const Stamp& stamp, std::int64_t& host_ns);
    /// Whether the model's prediction failed. If so, publishes the larger error and shortens the anchor interval.
    bool handle_failed_prediction(ContextClock& clock);
    // The published error, which the run row states, is the worst context's error plus a margin.
    void raise_clock_error(std::int64_t error_ns);
    void lower_clock_error();
    void publish_clock_error(std::int64_t error_ns);
    void read_identity(Context& context);

    CudaState state_;
    std::map<QueueKey, Queue> queues_;
    std::map<Context*, ContextClock> clocks_;
    std::vector<DeviceSpan> mixed_spans_;  ///< begun and ended in different contexts: timed on the host clock
    std::int64_t next_search_ns_ = 0;      ///< time of the next search for the driver
    std::int64_t search_pause_ns_ = 0;
    HostFallback fallback_reported_ = HostFallback::none;
    bool loss_reported_ = false;
    bool final_pass_ = false;

    mutable std::mutex facts_mutex_;  ///< never held over a driver call
    DeviceFacts facts_;
    std::atomic<std::uint32_t> facts_version_{0};
    std::atomic<std::int64_t> clock_error_ns_{0};
    std::int64_t raised_ns_ = 0;  ///< when the published error was last raised
};

}  // namespace cep::cuda
