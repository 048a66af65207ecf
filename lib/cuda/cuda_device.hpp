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

#include "cuda/clock_model.hpp"
#include "cuda/cuda_thread.hpp"
#include "device.hpp"
#include "host_clock.hpp"

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

class CudaDevice final : public Device {
  public:
    explicit CudaDevice(std::size_t pool_limit) noexcept : state_(pool_limit) {}
    ~CudaDevice() override;

    // Any thread.
    [[nodiscard]] std::unique_ptr<CudaThread> make_thread(bool full_ring) override;
    void release(const Stamp& stamp) noexcept override;
    [[nodiscard]] DeviceFacts facts() const override;
    [[nodiscard]] std::uint32_t facts_version() const noexcept override {
        return facts_version_.load(std::memory_order_acquire);
    }
    void add_counts(Totals& totals) const noexcept override;

    // Poller.
    void accept(const DeviceSpan& span) override;
    [[nodiscard]] PollResult poll(Ring<DeviceTimes>& results, bool final_pass) override;
    [[nodiscard]] std::string take_notice(bool first_of_host) override;
    void shut_down() noexcept override;

  private:
    /// Spans in the order in which one stream will finish them.
    using Queue = std::deque<DeviceSpan>;
    using QueueKey = std::pair<Context*, std::int32_t>;  ///< context and number of the stream that ends the span

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
