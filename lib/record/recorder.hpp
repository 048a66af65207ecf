// SPDX-License-Identifier: Apache-2.0
//
// The code that runs on the trainer's threads when they begin and end spans.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/counts.hpp"
#include "base/ring.hpp"
#include "base/wakeup.hpp"
#include "cep/cep.h"
#include "cuda/cuda_device.hpp"
#include "options/options.hpp"
#include "record/attributes.hpp"
#include "record/record.hpp"
#include "record/span_slots.hpp"
#include "record/step_board.hpp"
#include "record/stride_control.hpp"

namespace cep {

/// The step that a span belongs to, read once from the profiler at its begin.
using StepContext = StepBoard::View;

/// A span handle: 11 bits of its profiler's serial number, 11 of recorder + 1, 10 of slot and 32 of generation.
struct SpanId {
    static constexpr unsigned owner_shift = 42;
    static constexpr unsigned recorder_bits = 11;
    static constexpr std::uint64_t recorder_mask = (1 << recorder_bits) - 1;

    cep_span handle;

    [[nodiscard]] static std::uint64_t owner_of(std::uint64_t serial, std::uint16_t recorder) noexcept {
        return (serial & recorder_mask) << recorder_bits | (recorder + std::uint64_t{1});
    }
    /// Profiler and recorder.
    [[nodiscard]] std::uint64_t owner() const noexcept { return handle >> owner_shift; }
    [[nodiscard]] bool is_of_profiler(std::uint64_t serial) const noexcept {
        return owner() >> recorder_bits == (serial & recorder_mask);
    }
    [[nodiscard]] std::uint64_t recorder() const noexcept { return (owner() & recorder_mask) - 1; }
    [[nodiscard]] std::uint16_t slot() const noexcept { return static_cast<std::uint16_t>(handle >> 32 & 0x3FF); }
    [[nodiscard]] std::uint32_t generation() const noexcept { return static_cast<std::uint32_t>(handle); }
};

/// Numbers a span that begins now. If other threads have begun a later step meanwhile, it belongs to that step, and
/// `context` becomes that step's. False if that step is not recorded.
[[nodiscard]] bool number_span(cep_region& region, StepContext& context, std::uint32_t& seq) noexcept;

/// A span that begins: its region, step and number, and where it is timed.
struct Beginning {
    cep_region* region;  ///< null: none begins
    std::int64_t step;
    std::uint32_t seq;
    void* stream;
};

/// One thread's ring, open spans and counts. Its owner is the thread that has attached it.
class ThreadRecorder {
  public:
    /// `owner` is SpanId::owner_of() its spans.
    ThreadRecorder(std::uint64_t owner, std::size_t ring_capacity, MetaBudget& meta_budget, Wakeup& writer,
                   cuda::CudaDevice* device, bool full_ring, bool is_bounded);
    ThreadRecorder(const ThreadRecorder&) = delete;
    ThreadRecorder& operator=(const ThreadRecorder&) = delete;

    /// Owner, at the entry of a call: fetches what the call needs, so that the cache misses overlap.
    void prefetch() const noexcept {
        __builtin_prefetch(this, 1);
        __builtin_prefetch(&slots_, 1);
        ring_.prefetch_producer();
        slots_.prefetch();
        __builtin_prefetch(device_thread_.get(), 1);
    }

    /// Owner: whether to time this call, which stands for all since the last timed one.
    [[nodiscard]] bool is_timed_call() noexcept { return --untimed_calls_ == 0; }
    // Not inlined: it would take registers from the calls that are not timed.
    [[gnu::noinline, gnu::cold]] void add_timed_call(std::int64_t duration_ns) noexcept;

    // Owner. Refused attributes (see GivenAttributes) are counted.
    cep_span begin(cep_region& region, StepContext context, void* stream, const GivenAttributes* given) noexcept;
    void end(ThreadRecorder& began_by, SpanId span, void* stream, const GivenAttributes* given) noexcept;
    /// Ends `span` of the recorder `began_by` and begins a span of `region` with one stamp. If either is null, that
    /// part is left out.
    cep_span switch_span(ThreadRecorder* began_by, SpanId span, cep_region* region, StepContext context,
                         void* stream) noexcept;
    /// Ends the owner's phase, and begins the next one unless `region` is null. See cep_phase().
    void change_phase(cep_region* region, StepContext context, void* stream) noexcept;
    [[nodiscard]] bool has_phase() const noexcept { return phase_.handle != CEP_SPAN_NONE; }
    /// Hands over a record that did not come from begin(), and counts it as recorded.
    void add(const Record& record, const GivenAttributes& attributes) noexcept;
    /// Finds the innermost open span, of `region` unless that is null. False if there is none.
    [[nodiscard]] bool innermost(const cep_region* region, SpanId& span) noexcept;
    /// Any thread: whether the span began here.
    [[nodiscard]] bool owns(SpanId span) const noexcept { return span.owner() == owner_; }
    /// Any thread: whether the span, which began here, is open.
    [[nodiscard]] bool has_open(SpanId span) noexcept {
        const SpanSlot* slot = slots_.find(span.slot());
        return slot != nullptr && SpanSlots::is_open(*slot, span.generation());
    }

    /// Makes the calling thread the owner if there is none; leave() makes the recorder free for the next thread.
    [[nodiscard]] bool adopt() noexcept;
    void leave() noexcept { owned_.store(false, std::memory_order_release); }

    [[nodiscard]] SpanSlots& slots() noexcept { return slots_; }
    [[nodiscard]] const SpanSlots& slots() const noexcept { return slots_; }

    // Writer.
    [[nodiscard]] bool take(Measurement& measurement);
    /// From now on, the next record wakes the writer, or one that makes the ring half full does.
    void set_writer_asleep(bool asleep) noexcept { wake_at_.store(asleep ? 0 : half_full_, std::memory_order_relaxed); }
    /// Approximate number of records in the ring.
    [[nodiscard]] std::size_t backlog() const noexcept { return ring_.size(); }
    /// Closing thread, after all recording has ended: releases the events of spans that were never ended.
    void release_left_open() noexcept;
    void add_counts(Totals& totals) const noexcept;
    [[nodiscard]] std::uint64_t capture_skipped() const noexcept { return capture_skipped_.get(); }
    void add_cost(TrainerCost& cost) const noexcept {
        cost.timed_calls += timed_calls_.get();
        cost.cost_ns += bounded_cost_ns_.get();
    }

  private:
    /// One of many stands for all; their number is prime, so that it shares no divisor with the number of calls in a
    /// step, and each kind of call gets its share.
    static constexpr std::uint32_t calls_for_one_timed = 61;
    /// With a bound, one of 1 to 7, in no order: StrideControl decides after few steps.
    static constexpr std::uint32_t most_calls_for_one_bounded = 7;
    /// A call takes 1 to 6 µs by itself. A longer one has waited: for room in the GPU's queue, as the trainer's next
    /// launch would have, or for the processor. Such a wait, times 61, must not decide on the stride.
    static constexpr std::int64_t longest_call_ns = 20'000;

    [[nodiscard]] std::uint32_t next_timed_call() noexcept;
    [[nodiscard]] StampResult stamp(void* stream, Stamp& stamp) noexcept;
    void release(Stamp stamp) noexcept;
    void count_failure(StampResult result) noexcept;
    void release_slot(ThreadRecorder& began_by, SpanId span) noexcept;
    [[nodiscard]] SpanId id_of(std::size_t slot, std::uint32_t generation) const noexcept {
        return {owner_ << SpanId::owner_shift | std::uint64_t{slot} << 32 | generation};
    }
    /// Opens a claimed slot.
    std::uint32_t open(SpanSlot& slot, const Beginning& next, const Stamp& begin, std::uint16_t depth,
                       const GivenAttributes* given) noexcept;
    [[nodiscard]] cep_span refuse() noexcept;
    cep_span switch_from(ThreadRecorder* began_by, SpanId span, SpanSlot* ending, Beginning next) noexcept;
    cep_span switch_between(ThreadRecorder* began_by, SpanId span, SpanSlot* ending, Beginning next) noexcept;
    cep_span switch_stamped(ThreadRecorder* began_by, SpanId span, SpanSlot* ending, Beginning next, int slot_index,
                            Stamp now, StampResult result) noexcept;
    void end_switched(SpanSlot& ending, void* stream, bool is_shared, Stamp& now, StampResult result) noexcept;
    void end_failed(SpanSlot& slot, StampResult result) noexcept;
    void set_extras(SpanSlot& slot, const GivenAttributes& given) noexcept;
    void finish(SpanSlot& slot, const Stamp& end, const GivenAttributes* given) noexcept;
    void refuse_record(Stamp begin, Stamp end) noexcept;
    void add_extras(Record& record, const SpanSlot& slot, const GivenAttributes* given) noexcept;
    void add_attributes(Record& record, const Attributes& attributes) noexcept;
    void add_meta(Record& record, std::string_view meta) noexcept;
    /// Hands over the ring's next record, which the caller has filled.
    void enqueue() noexcept;
    void wake_writer() noexcept;

    // What each call of the owner needs comes first, in whole cache lines one after the other: this line, the slots'
    // and the ring's producer's. See prefetch().
    const std::unique_ptr<cuda::CudaThread> device_thread_;
    SpanStack stack_;
    SpanSlots slots_;
    [[no_unique_address]] Ring<Record> ring_;  // so that the next five are in its producer's line
    Count recorded_;
    SpanId phase_{CEP_SPAN_NONE};  ///< the owner's phase
    const std::uint64_t owner_;
    std::atomic<std::uint32_t> wake_at_;  ///< so many records in the ring wake the writer
    std::uint32_t untimed_calls_;
    std::atomic<bool> owned_{true};
    const std::uint32_t half_full_;
    Count trainer_ns_;
    Wakeup& writer_;
    Ring<Attributes> attributes_;
    ByteRing meta_;
    Count dropped_ring_;
    Count dropped_slots_;
    Count dropped_pool_;
    Count dropped_meta_;
    Count capture_skipped_;
    Count abandoned_;
    Count timed_calls_;
    Count bounded_cost_ns_;
    const bool is_bounded_;    ///< max_overhead_percent is set
    std::uint32_t timed_for_;  ///< calls that the next timed one stands for
    std::uint32_t random_ = 1;
};

/// The recorders of all threads of one profiler. They live as long as it does; a later thread reuses a dead thread's.
class Recorder {
  public:
    static constexpr std::size_t max_threads = 1024;
    static constexpr std::size_t full_rings = 16;  ///< further threads get small rings, to bound the memory
    static constexpr std::size_t small_ring_capacity = 64;

    /// `serial` is the profiler's.
    Recorder(const Config& config, std::uint64_t serial, Wakeup& writer, cuda::CudaDevice* device) noexcept
        : serial_(serial),
          ring_capacity_(config.ring_capacity),
          is_bounded_(config.max_overhead_percent > 0),
          writer_(writer),
          device_(device) {}
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;
    ~Recorder();

    /// A recorder for the calling thread; null if there are too many threads or memory runs out.
    [[nodiscard]] ThreadRecorder* attach() noexcept;
    /// The recorder in a span's handle; null if this profiler cannot have made the handle.
    [[nodiscard]] ThreadRecorder* find(SpanId span) noexcept {
        const std::uint64_t index = span.recorder();
        ThreadRecorder* const thread = index < max_threads ? threads_[index].load(std::memory_order_acquire) : nullptr;
        return thread != nullptr && thread->owns(span) ? thread : nullptr;
    }
    /// Makes the recorder of an exiting thread free for the next thread.
    void leave(ThreadRecorder& recorder) noexcept {
        recorder.leave();
        vacancies_.fetch_add(1, std::memory_order_release);
    }
    /// Grows whenever a recorder becomes free. A thread that got none need not try again before that.
    [[nodiscard]] std::uint32_t vacancies() const noexcept { return vacancies_.load(std::memory_order_acquire); }
    [[nodiscard]] bool is_full() const noexcept { return count_.load(std::memory_order_relaxed) >= max_threads; }
    /// Counts a call that recorded nothing because its thread has no recorder.
    void count_refused() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] bool has_recorded() const noexcept { return attached_.load(std::memory_order_relaxed) > 0; }

    void add_counts(Totals& totals) const noexcept;
    /// What recording costs the trainer. A call counts with at most longest_call_ns.
    [[nodiscard]] TrainerCost cost() const noexcept {
        TrainerCost cost;
        for_each([&](const ThreadRecorder& thread) { thread.add_cost(cost); });
        return cost;
    }

    template <class Visit>
    void for_each(Visit visit) const {
        const std::size_t count = std::min<std::size_t>(count_.load(std::memory_order_acquire), max_threads);
        for (std::size_t i = 0; i < count; ++i)
            if (ThreadRecorder* thread = threads_[i].load(std::memory_order_acquire)) visit(*thread);
    }

  private:
    [[nodiscard]] ThreadRecorder* create() noexcept;

    const std::uint64_t serial_;
    const std::size_t ring_capacity_;
    const bool is_bounded_;
    Wakeup& writer_;
    cuda::CudaDevice* const device_;
    MetaBudget meta_budget_;
    std::array<std::atomic<ThreadRecorder*>, max_threads> threads_{};
    std::atomic<std::size_t> count_{0};
    std::atomic<std::uint32_t> attached_{0};  ///< threads that have ever recorded
    std::atomic<std::uint32_t> vacancies_{0};
    std::atomic<std::uint64_t> refused_{0};
};

}  // namespace cep
