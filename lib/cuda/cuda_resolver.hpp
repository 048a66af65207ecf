// SPDX-License-Identifier: Apache-2.0
//
// CUDA events on the resolver's thread: which are done, when they were, and back into the pool.
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
#include "cuda/cuda_device.hpp"
#include "device.hpp"
#include "host_clock.hpp"
#include "record.hpp"

namespace cep::cuda {

/// The anchors of one context: events on a stream of our own whose host time is known within a bracket.
class ContextClock {
  public:
    struct Anchor {
        CUevent event = nullptr;
        double gpu_ns = std::numeric_limits<double>::quiet_NaN();  ///< not a number: not known to be complete
        std::int64_t host_ns = 0;                                  ///< middle of the bracket
    };

    ClockModel model;
    CUstream stream = nullptr;
    bool unusable = false;      ///< stream or events could not be made, or anchors keep failing
    int failures = 0;           ///< of anchors, one after the other
    CUevent pending = nullptr;  ///< recorded and not yet seen to be complete
    std::int64_t pending_before_ns = 0;
    std::int64_t interval_ns = 0;    ///< until the next anchor: short while the drift is unknown
    std::array<Anchor, 4> recent{};  ///< the newest first
};

class CudaResolver final : public DeviceResolver {
  public:
    CudaResolver(CudaState& state, const std::atomic<bool>& cancelled) noexcept
        : state_(state), cancelled_(cancelled) {}
    ~CudaResolver() override;

    void accept(const Record& record, std::string_view meta) override;
    std::size_t poll(std::unique_lock<std::mutex>& lock, const Emit& emit) override;
    [[nodiscard]] std::uint64_t accepted() const noexcept override { return accepted_; }
    [[nodiscard]] std::uint64_t settled() const noexcept override;
    void visit_pending(const std::function<void(const UnfinishedSpan&)>& visit) const override;
    void abandon_pending() noexcept override;
    void describe(RunFacts& facts) const override;
    [[nodiscard]] std::uint32_t facts_version() const noexcept override { return facts_version_; }
    void add_counts(Totals& totals) const noexcept override;
    void release_idle() noexcept override;
    [[nodiscard]] std::string take_notice(bool first_of_host) override;

  private:
    struct Pending {
        std::uint64_t id;
        Record record;
        std::string meta;
    };
    /// Spans in the order in which one stream will finish them.
    using Queue = std::deque<Pending>;
    using QueueKey = std::pair<Context*, std::int32_t>;  ///< context and number of the stream that ends the span

    enum class Outcome : std::uint8_t { resolved, waiting, lost };

    /// One driver call with the resolver's lock given up; `result::not_ready` if close() has meanwhile given up on us.
    template <class Call>
    CUresult driver_call(std::unique_lock<std::mutex>& lock, Call call);

    std::size_t poll_queues(std::unique_lock<std::mutex>& lock, const Emit& emit);
    /// A handle of a destroyed context must not be used, nor may those of its events.
    void check_existence(std::unique_lock<std::mutex>& lock, Context& context);
    void recycle_discarded() noexcept;
    void release(const Stamp& stamp) noexcept;
    std::size_t poll_queue(std::unique_lock<std::mutex>& lock, Context& context, Queue& queue, const Emit& emit);
    Outcome resolve(std::unique_lock<std::mutex>& lock, Context& context, const Pending& pending, ResolvedSpan& span);
    std::size_t emit_mixed(const Emit& emit);
    void abandon(const Pending& pending) noexcept;
    void abandon(Queue& queue) noexcept;

    // Anchors.
    void keep_anchored(std::unique_lock<std::mutex>& lock, Context& context, std::int64_t now_ns);
    [[nodiscard]] bool open_clock(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock);
    void record_anchor(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock);
    void await_anchor(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock);
    void complete_anchor(std::unique_lock<std::mutex>& lock, Context& context, ContextClock& clock,
                         std::int64_t after_ns);
    /// Tells the run row the error of the worst context when what it says is too little, or far too much.
    void state_clock_error() noexcept;
    void anchor_failed(Context& context, ContextClock& clock, CUresult code) noexcept;
    /// When the stamp's event happened, on the host's clock; or that this cannot be said yet, or ever.
    [[nodiscard]] Outcome host_time_of(std::unique_lock<std::mutex>& lock, ContextClock& clock, const Stamp& stamp,
                                       std::int64_t& host_ns);
    void read_identity(Context& context);

    CudaState& state_;
    const std::atomic<bool>& cancelled_;
    std::map<QueueKey, Queue> queues_;
    std::map<Context*, ContextClock> clocks_;
    std::vector<Pending> mixed_;  ///< ended in another context than they began in: no event time to be had
    std::uint64_t accepted_ = 0;
    std::atomic<std::uint64_t> abandoned_count_{0};
    HostFallback fallback_told_ = HostFallback::none;
    bool loss_told_ = false;
    bool polling_ = false;  ///< poll() gives the lock up: nobody else may enter it meanwhile
    std::uint32_t facts_version_ = 0;
    std::string device_name_;
    std::string device_uuid_;
    std::int32_t driver_version_ = 0;
    std::atomic<std::int64_t> clock_error_ns_{0};
};

template <class Call>
CUresult CudaResolver::driver_call(std::unique_lock<std::mutex>& lock, Call call) {
    const DriverApi& driver = *state_.driver.load(std::memory_order_acquire);
    lock.unlock();
    const CUresult code = call(driver);
    lock.lock();
    return cancelled_.load(std::memory_order_acquire) ? result::not_ready : code;
}

}  // namespace cep::cuda
