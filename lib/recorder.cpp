// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "host_clock.hpp"

namespace cep {

ThreadRecorder::ThreadRecorder(std::uint16_t index, std::size_t ring_capacity, MetaBudget& meta_budget, Wakeup& writer,
                               Device* device, bool full_ring)
    : device_thread_(device != nullptr ? device->make_thread(full_ring) : nullptr),
      slots_(meta_budget),
      ring_(ring_capacity),
      index_(index),
      writer_(writer),
      device_(device) {}

[[gnu::always_inline]] inline StampResult ThreadRecorder::stamp(void* stream, Stamp& stamp) noexcept {
    cuda::DeviceStamp made;
    const std::int64_t now_ns = monotonic_ns();
    if (stream != CEP_HOST && device_thread_ != nullptr) [[likely]]
        made = device_thread_->stamp(stream, now_ns);
    stamp = {.host_ns = now_ns, .event = made.event, .stream = made.stream};
    return made.result;
}

// By value: a pointer to a stamp would keep it in memory.
[[gnu::noinline, gnu::cold]] void ThreadRecorder::release(Stamp stamp) noexcept {
    if (stamp.event != nullptr) device_->release(stamp);
}

void ThreadRecorder::count_failure(StampResult result) noexcept {
    switch (result) {
        case StampResult::capturing:
            return capture_skipped_.add();
        case StampResult::no_event:
            return dropped_pool_.add();
        default:
            return abandoned_.add();
    }
}

void ThreadRecorder::add_timed_call(std::int64_t duration_ns) noexcept {
    trainer_ns_.add(static_cast<std::uint64_t>(duration_ns) * calls_for_one_timed);
    timed_calls_.add();
    bounded_cost_ns_.add(static_cast<std::uint64_t>(std::min(duration_ns, longest_call_ns)) * calls_for_one_timed);
}

[[gnu::always_inline]] inline bool ThreadRecorder::has_room() noexcept {
    if (ring_.has_room()) [[likely]]
        return true;
    dropped_ring_.add();
    return false;
}

[[gnu::always_inline]] inline void ThreadRecorder::enqueue() noexcept {
    ring_.commit();
    const std::size_t half = ring_.capacity() / 2;
    if (ring_.backlog() >= half && ring_.refreshed_backlog() >= half) [[unlikely]]
        writer_.notify();
}

[[gnu::always_inline]] inline void ThreadRecorder::release_slot(ThreadRecorder& began_by, SpanId span) noexcept {
    if (&began_by != this) [[unlikely]] {
        began_by.stack_.note_ended_elsewhere();
        return began_by.slots_.release(span.slot);
    }
    slots_.keep(span.slot);
    stack_.remove(span.slot, span.generation);
}

[[gnu::always_inline]] inline void ThreadRecorder::finish(SpanSlot& slot, const Stamp& end,
                                                          const GivenAttributes* given) noexcept {
    if (!has_room()) [[unlikely]] {
        release(slot.begin);
        return release(end);
    }
    auto& record = *new (ring_.next_place()) Record{.depth = slot.depth.load(std::memory_order_relaxed),
                                                    .seq = slot.seq.load(std::memory_order_relaxed),
                                                    .region = slot.region.load(std::memory_order_relaxed),
                                                    .step = slot.step.load(std::memory_order_relaxed),
                                                    .begin = slot.begin,
                                                    .end = end,
                                                    .attributes = {}};
    if (end.event == nullptr) {  // if one end has no event, both are timed on the host clock
        release(slot.begin);
        record.begin.event = nullptr;
    }
    if (slot.has_extras || given != nullptr) [[unlikely]]
        add_extras(record, slot, given);
    enqueue();
}

/// Adds what the caller gave at the begin and at the end of a span.
[[gnu::noinline, gnu::cold]] void ThreadRecorder::add_extras(Record& record, const SpanSlot& slot,
                                                             const GivenAttributes* given) noexcept {
    std::string_view meta;
    if (slot.has_extras) {
        record.attributes = slot.attributes;
        meta = slot.meta_text();
    }
    if (given != nullptr) {
        record.attributes.override_with(given->values);
        if (!given->meta.empty()) meta = given->meta;
        if (given->refused) dropped_meta_.add();
    }
    add_meta(record, meta);
}

void ThreadRecorder::add_meta(Record& record, std::string_view meta) noexcept {
    if (meta.empty()) return;
    if (meta_.push(meta))
        record.meta_bytes = static_cast<std::uint32_t>(meta.size());
    else
        dropped_meta_.add();
}

/// Counts a span that gets no slot.
[[gnu::noinline, gnu::cold]] cep_span ThreadRecorder::refuse() noexcept {
    dropped_slots_.add();
    return CEP_SPAN_NONE;
}

[[gnu::hot]] cep_span ThreadRecorder::begin(cep_region& region, StepContext context, void* stream,
                                            const GivenAttributes* given) noexcept {
    recorded_.add();
    const int slot_index = slots_.claim();
    if (slot_index < 0) [[unlikely]]
        return refuse();
    SpanSlot& slot = slots_.at(static_cast<std::size_t>(slot_index));
    if (const StampResult result = stamp(stream, slot.begin); result != StampResult::ok) [[unlikely]] {
        slots_.keep(static_cast<std::size_t>(slot_index));
        count_failure(result);
        return CEP_SPAN_NONE;
    }
    return open(region, context, slot, slot_index, given);
}

[[gnu::always_inline]] inline cep_span ThreadRecorder::open(cep_region& region, StepContext context, SpanSlot& slot,
                                                            int slot_index, const GivenAttributes* given) noexcept {
    const auto index = static_cast<std::uint16_t>(slot_index);
    slot.region.store(&region, std::memory_order_release);
    slot.step.store(context.step, std::memory_order_release);
    slot.begin_host_ns.store(slot.begin.host_ns, std::memory_order_release);
    slot.seq.store(region.next_seq(context.epoch), std::memory_order_release);
    slot.depth.store(stack_.depth(slots_), std::memory_order_release);
    slot.on_device.store(slot.begin.event != nullptr, std::memory_order_release);
    slot.has_extras = given != nullptr;
    if (given != nullptr) [[unlikely]]
        set_extras(slot, *given);
    const std::uint32_t generation = SpanSlots::publish(slot);
    if (given == nullptr || !given->is_async) [[likely]]
        stack_.push(slots_, {index, generation});
    return SpanId{index_, index, generation}.handle();
}

[[gnu::noinline, gnu::cold]] void ThreadRecorder::set_extras(SpanSlot& slot, const GivenAttributes& given) noexcept {
    slot.attributes = given.values;
    slot.meta_bytes = 0;
    if (given.refused || (!given.meta.empty() && !slots_.set_meta(slot, given.meta))) dropped_meta_.add();
}

[[gnu::hot]] void ThreadRecorder::end(ThreadRecorder& began_by, SpanId span, void* stream,
                                      const GivenAttributes* given) noexcept {
    SpanSlot* slot = began_by.slots_.find(span.slot);
    if (slot == nullptr || !SpanSlots::take(*slot, span.generation)) return;
    ring_.prepare_push();
    Stamp end;
    const StampResult result = stamp(slot->begin.event != nullptr ? stream : CEP_HOST, end);
    if (result == StampResult::ok) [[likely]]
        finish(*slot, end, given);
    else
        end_failed(*slot, result);
    release_slot(began_by, span);
}

[[gnu::noinline, gnu::cold]] void ThreadRecorder::end_failed(SpanSlot& slot, StampResult result) noexcept {
    release(slot.begin);
    count_failure(result);
}

[[gnu::hot]] cep_span ThreadRecorder::switch_span(ThreadRecorder* began_by, SpanId span, cep_region* region,
                                                  StepContext context, void* stream) noexcept {
    SpanSlot* ending = began_by != nullptr ? began_by->slots_.find(span.slot) : nullptr;
    if (ending != nullptr && !SpanSlots::take(*ending, span.generation)) [[unlikely]]
        ending = nullptr;
    const bool chains = ending != nullptr && began_by == this && region != nullptr;
    if (!chains) [[unlikely]]
        return switch_between(began_by, span, ending, region, context, stream);
    recorded_.add();
    ring_.prepare_push();
    Stamp now;
    const StampResult result = stamp(stream, now);
    const bool has_event = now.event != nullptr;
    if (result != StampResult::ok || has_event != (ending->begin.event != nullptr)) [[unlikely]]
        return switch_stamped(this, span, ending, region, span.slot, context, now, result);
    now.references = 1;
    finish(*ending, now, nullptr);
    slots_.reuse(span.slot);
    stack_.remove(span.slot, span.generation);
    ending->begin = now;
    return open(*region, context, *ending, span.slot, nullptr);
}

/// A switch from another thread's span, or to none, or from none.
[[gnu::noinline, gnu::cold]] cep_span ThreadRecorder::switch_between(ThreadRecorder* began_by, SpanId span,
                                                                     SpanSlot* ending, cep_region* region,
                                                                     StepContext context, void* stream) noexcept {
    int slot_index = -1;
    if (region != nullptr) {
        recorded_.add();
        slot_index = slots_.claim();
        if (slot_index < 0) dropped_slots_.add();
    }
    if (ending == nullptr && slot_index < 0) return CEP_SPAN_NONE;
    Stamp now;
    const StampResult result = stamp(stream, now);
    return switch_stamped(began_by, span, ending, region, slot_index, context, now, result);
}

/// Ends `ending`, which is span.slot of `began_by`, and begins a span in this recorder's slot `slot_index`; these may
/// be the same. Null and −1 leave that part out.
[[gnu::noinline, gnu::cold]] cep_span ThreadRecorder::switch_stamped(ThreadRecorder* began_by, SpanId span,
                                                                     SpanSlot* ending, cep_region* region,
                                                                     int slot_index, StepContext context, Stamp now,
                                                                     StampResult result) noexcept {
    if (ending != nullptr) {
        const bool uses_event = ending->begin.event != nullptr && now.event != nullptr;
        if (result != StampResult::ok && ending->begin.event != nullptr) {
            release(ending->begin);
            count_failure(result);
        } else {
            if (uses_event && slot_index >= 0) now.references = 1;
            Stamp end = now;
            if (!uses_event) end.event = nullptr;
            finish(*ending, end, nullptr);
            if (!uses_event && slot_index < 0) release(now);
        }
        if (began_by == this && slot_index == span.slot) {
            slots_.reuse(span.slot);
            stack_.remove(span.slot, span.generation);
        } else {
            release_slot(*began_by, span);
        }
    }
    if (slot_index < 0) return CEP_SPAN_NONE;
    if (result == StampResult::ok) {
        SpanSlot& slot = slots_.at(static_cast<std::size_t>(slot_index));
        slot.begin = now;
        return open(*region, context, slot, slot_index, nullptr);
    }
    slots_.keep(static_cast<std::size_t>(slot_index));
    count_failure(result);
    return CEP_SPAN_NONE;
}

void ThreadRecorder::change_phase(cep_region* region, StepContext context, void* stream) noexcept {
    const cep_span ending = std::exchange(phase_, CEP_SPAN_NONE);
    ThreadRecorder* began_by = ending != CEP_SPAN_NONE ? this : nullptr;
    if (region != nullptr)
        phase_ = switch_span(began_by, SpanId::from(ending), region, context, stream);
    else if (began_by != nullptr)
        end(*this, SpanId::from(ending), stream, nullptr);
}

void ThreadRecorder::add(const Record& given, const GivenAttributes& attributes) noexcept {
    recorded_.add();
    if (attributes.refused) dropped_meta_.add();
    if (!has_room()) return;
    auto& record = *new (ring_.next_place()) Record(given);
    record.attributes = attributes.values;
    add_meta(record, attributes.meta);
    enqueue();
}

bool ThreadRecorder::innermost(const cep_region* region, SpanId& span) noexcept {
    if (stack_.empty()) return false;
    const SpanStack::Entry* entry = stack_.innermost(slots_, region);
    if (entry == nullptr) return false;
    span = {index_, entry->slot, entry->generation};
    return true;
}

bool ThreadRecorder::adopt() noexcept {
    bool expected = false;
    if (!owned_.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) return false;
    // Spans that the last owner left open can still be ended by their handles. Its phase has none, and stays open.
    stack_.clear();
    phase_ = CEP_SPAN_NONE;
    return true;
}

void ThreadRecorder::release_left_open() noexcept {
    slots_.visit_left_open([this](SpanSlot& slot) {
        release(slot.begin);
        slot.begin.event = nullptr;
    });
}

bool ThreadRecorder::take(Record& record, std::string& meta) {
    if (!ring_.pop(record)) return false;
    meta.clear();
    if (record.meta_bytes > 0) meta_.pop(record.meta_bytes, meta);
    return true;
}

void ThreadRecorder::add_counts(Totals& totals) const noexcept {
    totals.pending += ring_.pushed();
    totals.recorded += recorded_.get();
    totals.dropped_ring += dropped_ring_.get();
    totals.dropped_slots += dropped_slots_.get();
    totals.dropped_pool += dropped_pool_.get();
    totals.dropped_meta += dropped_meta_.get();
    totals.capture_skipped += capture_skipped_.get();
    totals.abandoned += abandoned_.get();
    totals.trainer_ns += trainer_ns_.get();
    slots_.visit_open([&](const OpenSpan&) { ++totals.open_spans; });
}

Recorder::~Recorder() {
    for (auto& thread : threads_) std::unique_ptr<ThreadRecorder>(thread.load(std::memory_order_relaxed)).reset();
}

ThreadRecorder* Recorder::attach() noexcept {
    ThreadRecorder* adopted = nullptr;
    for_each([&](ThreadRecorder& thread) {
        if (adopted == nullptr && thread.adopt()) adopted = &thread;
    });
    if (adopted == nullptr) adopted = create();
    if (adopted != nullptr) attached_.fetch_add(1, std::memory_order_relaxed);
    return adopted;
}

ThreadRecorder* Recorder::create() noexcept {
    const std::size_t index = count_.fetch_add(1, std::memory_order_acq_rel);
    if (index >= max_threads) {
        count_.fetch_sub(1, std::memory_order_acq_rel);
        return nullptr;
    }
    const bool full = index < full_rings;
    const std::size_t capacity = full ? ring_capacity_ : std::min(ring_capacity_, small_ring_capacity);
    try {
        auto* thread =
            new ThreadRecorder(static_cast<std::uint16_t>(index), capacity, meta_budget_, writer_, device_, full);
        threads_[index].store(thread, std::memory_order_release);
        return thread;
    } catch (const std::exception&) {
        std::size_t taken = index + 1;
        (void)count_.compare_exchange_strong(taken, index);  // fails if a later index is taken: this one stays empty
        return nullptr;
    }
}

void Recorder::add_counts(Totals& totals) const noexcept {
    for_each([&](ThreadRecorder& thread) { thread.add_counts(totals); });
    totals.threads = attached_.load(std::memory_order_relaxed);
    const std::uint64_t refused = refused_.load(std::memory_order_relaxed);
    totals.recorded += refused;
    totals.dropped_slots += refused;
}

}  // namespace cep
