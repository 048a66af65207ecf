// SPDX-License-Identifier: Apache-2.0
#include "record/recorder.hpp"

#include <algorithm>
#include <exception>

#include "base/host_clock.hpp"

namespace cep {
namespace {

[[nodiscard, gnu::always_inline]] inline bool number_inline(cep_region& region, StepContext& context,
                                                            std::uint32_t& seq) noexcept {
    return region.spans.next(context, seq, [&region] { return region.board->read(); });
}

}  // namespace

bool number_span(cep_region& region, StepContext& context, std::uint32_t& seq) noexcept {
    return number_inline(region, context, seq);
}

ThreadRecorder::ThreadRecorder(std::uint64_t owner, std::size_t ring_capacity, MetaBudget& meta_budget, Wakeup& writer,
                               cuda::CudaDevice* device, bool full_ring, bool is_bounded)
    : device_thread_(device != nullptr ? device->make_thread(full_ring) : nullptr),
      slots_(meta_budget),
      ring_(ring_capacity),
      owner_(owner),
      wake_at_(static_cast<std::uint32_t>(ring_.capacity() / 2)),
      untimed_calls_(calls_for_one_timed),
      half_full_(wake_at_),
      writer_(writer),
      attributes_(2 * ring_capacity),  // never full before the ring of records is
      is_bounded_(is_bounded),
      timed_for_(untimed_calls_) {
    timed_for_ = untimed_calls_ = next_timed_call();
}

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
    if (stamp.event != nullptr) cuda::CudaDevice::release(stamp);
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

std::uint32_t ThreadRecorder::next_timed_call() noexcept {
    if (!is_bounded_) return calls_for_one_timed;
    random_ = random_ * 1664525 + 1013904223;  // a linear congruential generator; its high bits are good enough
    return 1 + (random_ >> 16) % most_calls_for_one_bounded;
}

void ThreadRecorder::add_timed_call(std::int64_t duration_ns) noexcept {
    trainer_ns_.add(static_cast<std::uint64_t>(duration_ns) * timed_for_);
    timed_calls_.add();
    bounded_cost_ns_.add(static_cast<std::uint64_t>(std::min(duration_ns, longest_call_ns)) * timed_for_);
    timed_for_ = untimed_calls_ = next_timed_call();
}

/// Counts a record for which the ring has no room.
[[gnu::noinline, gnu::cold]] void ThreadRecorder::refuse_record(Stamp begin, Stamp end) noexcept {
    release(begin);
    release(end);
    dropped_ring_.add();
    writer_.notify();  // it may hang in a write, which who notifies it notices only after a while
}

[[gnu::always_inline]] inline void ThreadRecorder::enqueue() noexcept {
    ring_.commit();
    if (ring_.backlog() >= wake_at_.load(std::memory_order_relaxed)) [[unlikely]]
        wake_writer();
}

[[gnu::noinline, gnu::cold]] void ThreadRecorder::wake_writer() noexcept {
    if (ring_.refreshed_backlog() >= wake_at_.load(std::memory_order_relaxed)) writer_.notify();
}

[[gnu::always_inline]] inline void ThreadRecorder::release_slot(ThreadRecorder& began_by, SpanId span) noexcept {
    if (&began_by != this) [[unlikely]] {
        began_by.stack_.note_ended_elsewhere();
        return began_by.slots_.release(span.slot());
    }
    slots_.keep(span.slot());
    stack_.remove({span.slot(), span.generation()});
}

[[gnu::always_inline]] inline void ThreadRecorder::finish(SpanSlot& slot, const Stamp& end,
                                                          const GivenAttributes* given) noexcept {
    if (!ring_.has_room()) [[unlikely]]
        return refuse_record(slot.begin(), end);
    auto& record = *new (ring_.next_place()) Record{.depth = slot.depth.load(std::memory_order_relaxed),
                                                    .seq = slot.seq.load(std::memory_order_relaxed),
                                                    .region = slot.region.load(std::memory_order_relaxed),
                                                    .step = slot.step.load(std::memory_order_relaxed),
                                                    .begin_ns = slot.begin_host_ns.load(std::memory_order_relaxed),
                                                    .end_ns = end.host_ns,
                                                    .begin_event = slot.event,
                                                    .end_event = end.event,
                                                    .begin_stream = slot.stream_number,
                                                    .end_stream = end.stream,
                                                    .begin_references = slot.references,
                                                    .end_references = end.references};
    if (end.event == nullptr && slot.event != nullptr) [[unlikely]] {
        // If one end has no event, both are timed on the host clock.
        release(slot.begin());
        record.begin_event = nullptr;
    }
    if (slot.has_extras || given != nullptr) [[unlikely]]
        add_extras(record, slot, given);
    enqueue();
}

/// Adds what the caller gave at the begin and at the end of a span.
[[gnu::noinline, gnu::cold]] void ThreadRecorder::add_extras(Record& record, const SpanSlot& slot,
                                                             const GivenAttributes* given) noexcept {
    Attributes attributes;
    std::string_view meta;
    if (slot.has_extras) {
        attributes = slot.attributes;
        meta = slot.meta_text();
    }
    if (given != nullptr) {
        attributes.override_with(given->values);
        if (!given->meta.empty()) meta = given->meta;
        if (given->refused) dropped_meta_.add();
    }
    add_attributes(record, attributes);
    add_meta(record, meta);
}

void ThreadRecorder::add_attributes(Record& record, const Attributes& attributes) noexcept {
    record.has_attributes = attributes_.push(attributes);
    if (!record.has_attributes) dropped_meta_.add();
}

void ThreadRecorder::add_meta(Record& record, std::string_view meta) noexcept {
    if (meta.empty()) return;
    if (meta_.push(meta))
        record.meta_bytes = static_cast<std::uint16_t>(meta.size());  // at most 16384
    else
        dropped_meta_.add();
}

/// Counts a span that gets no slot.
[[gnu::noinline, gnu::cold]] cep_span ThreadRecorder::refuse() noexcept {
    dropped_slots_.add();
    return CEP_SPAN_NONE;
}

// The number comes before the stamp: an atomic update right after a record would wait until the driver's writes to the
// GPU have left the processor.
[[gnu::hot]] cep_span ThreadRecorder::begin(cep_region& region, StepContext context, void* stream,
                                            const GivenAttributes* given) noexcept {
    std::uint32_t seq = 0;
    if (!number_inline(region, context, seq)) [[unlikely]]
        return CEP_SPAN_NONE;
    recorded_.add();
    const int slot_index = slots_.claim();
    if (slot_index < 0) [[unlikely]]
        return refuse();
    const auto index = static_cast<std::uint16_t>(slot_index);
    Stamp begin;
    if (const StampResult result = stamp(stream, begin); result != StampResult::ok) [[unlikely]] {
        slots_.keep(index);
        count_failure(result);
        return CEP_SPAN_NONE;
    }
    const std::uint32_t generation =
        open(slots_.at(index), {&region, context.step, seq, stream}, begin, stack_.depth(slots_), given);
    if (given == nullptr || !given->is_async) [[likely]]
        stack_.push(slots_, {index, generation});
    return id_of(index, generation).handle;
}

[[gnu::always_inline]] inline std::uint32_t ThreadRecorder::open(SpanSlot& slot, const Beginning& next,
                                                                 const Stamp& begin, std::uint16_t depth,
                                                                 const GivenAttributes* given) noexcept {
    slot.set_begin(begin, next.stream);
    slot.region.store(next.region, std::memory_order_release);
    slot.step.store(next.step, std::memory_order_release);
    slot.seq.store(next.seq, std::memory_order_release);
    slot.depth.store(depth, std::memory_order_release);
    slot.has_extras = given != nullptr;
    if (given != nullptr) [[unlikely]]
        set_extras(slot, *given);
    return SpanSlots::publish(slot);
}

[[gnu::noinline, gnu::cold]] void ThreadRecorder::set_extras(SpanSlot& slot, const GivenAttributes& given) noexcept {
    slot.attributes = given.values;
    slot.meta_bytes = 0;
    if (given.refused || (!given.meta.empty() && !slots_.set_meta(slot, given.meta))) dropped_meta_.add();
}

[[gnu::hot]] void ThreadRecorder::end(ThreadRecorder& began_by, SpanId span, void* stream,
                                      const GivenAttributes* given) noexcept {
    SpanSlot* slot = began_by.slots_.find(span.slot());
    if (slot == nullptr || !SpanSlots::take(*slot, span.generation())) return;
    ring_.prepare_push();
    Stamp end;
    const StampResult result = stamp(slot->event != nullptr ? stream : CEP_HOST, end);
    if (result == StampResult::ok) [[likely]]
        finish(*slot, end, given);
    else
        end_failed(*slot, result);
    release_slot(began_by, span);
}

[[gnu::noinline, gnu::cold]] void ThreadRecorder::end_failed(SpanSlot& slot, StampResult result) noexcept {
    release(slot.begin());
    count_failure(result);
}

[[gnu::hot]] cep_span ThreadRecorder::switch_span(ThreadRecorder* began_by, SpanId span, cep_region* region,
                                                  StepContext context, void* stream) noexcept {
    std::uint32_t seq = 0;
    if (region != nullptr && !number_inline(*region, context, seq)) [[unlikely]]
        region = nullptr;
    SpanSlot* ending = began_by != nullptr ? began_by->slots_.find(span.slot()) : nullptr;
    if (ending != nullptr && !SpanSlots::take(*ending, span.generation())) [[unlikely]]
        ending = nullptr;
    return switch_from(began_by, span, ending, {region, context.step, seq, stream});
}

/// `ending` is the slot of a span that has been taken, or null.
[[gnu::always_inline]] inline cep_span ThreadRecorder::switch_from(ThreadRecorder* began_by, SpanId span,
                                                                   SpanSlot* ending, Beginning next) noexcept {
    // A span on a stream that gives way to one on the host needs two stamps.
    const bool chains = ending != nullptr && began_by == this && next.region != nullptr &&
                        (next.stream != CEP_HOST || ending->event == nullptr);
    if (!chains) [[unlikely]]
        return switch_between(began_by, span, ending, next);
    recorded_.add();
    ring_.prepare_push();
    Stamp now;
    const StampResult result = stamp(next.stream, now);
    const bool has_event = now.event != nullptr;
    if (result != StampResult::ok || has_event != (ending->event != nullptr)) [[unlikely]]
        return switch_stamped(this, span, ending, next, span.slot(), now, result);
    now.references = 1;
    finish(*ending, now, nullptr);
    slots_.reuse(span.slot());
    const std::uint16_t depth = stack_.renew(slots_, {span.slot(), span.generation()});
    return id_of(span.slot(), open(*ending, next, now, depth, nullptr)).handle;
}

/// A switch from another thread's span, or to none, or from none, or from a stream to the host.
[[gnu::noinline, gnu::cold]] cep_span ThreadRecorder::switch_between(ThreadRecorder* began_by, SpanId span,
                                                                     SpanSlot* ending, Beginning next) noexcept {
    int slot_index = -1;
    if (next.region != nullptr) {
        recorded_.add();
        slot_index = slots_.claim();
        if (slot_index < 0) dropped_slots_.add();
    }
    if (ending == nullptr && slot_index < 0) return CEP_SPAN_NONE;
    Stamp now;
    const StampResult result = stamp(next.stream, now);
    return switch_stamped(began_by, span, ending, next, slot_index, now, result);
}

/// Ends `ending`, which is the span's slot of `began_by`, and begins a span in this recorder's slot `slot_index`; these
/// may be the same. Null and −1 leave that part out.
[[gnu::noinline, gnu::cold]] cep_span ThreadRecorder::switch_stamped(ThreadRecorder* began_by, SpanId span,
                                                                     SpanSlot* ending, Beginning next, int slot_index,
                                                                     Stamp now, StampResult result) noexcept {
    if (ending != nullptr) {
        end_switched(*ending, next.stream, slot_index >= 0, now, result);
        if (began_by == this && slot_index == span.slot()) {
            slots_.reuse(span.slot());
            stack_.remove({span.slot(), span.generation()});
        } else {
            release_slot(*began_by, span);
        }
    }
    if (slot_index < 0) return CEP_SPAN_NONE;
    const auto index = static_cast<std::uint16_t>(slot_index);
    if (result != StampResult::ok) {
        slots_.keep(index);
        count_failure(result);
        return CEP_SPAN_NONE;
    }
    const std::uint32_t generation = open(slots_.at(index), next, now, stack_.depth(slots_), nullptr);
    stack_.push(slots_, {index, generation});
    return id_of(index, generation).handle;
}

/// Ends a span with the stamp `now`. If `is_shared`, the next span begins with it, too. The host's time says nothing
/// about work on a stream: if `stream` is CEP_HOST, such work ends with an event in its own stream.
void ThreadRecorder::end_switched(SpanSlot& ending, void* stream, bool is_shared, Stamp& now,
                                  StampResult result) noexcept {
    const bool on_device = ending.event != nullptr;
    Stamp end = now;
    if (on_device && stream == CEP_HOST)
        result = stamp(ending.stream, end);
    else if (on_device && is_shared)
        now.references = end.references = 1;
    else if (!on_device && !is_shared)
        release(now);
    if (!on_device) end.event = nullptr;
    if (on_device && result != StampResult::ok)
        end_failed(ending, result);
    else
        finish(ending, end, nullptr);
}

[[gnu::hot]] void ThreadRecorder::change_phase(cep_region* region, StepContext context, void* stream) noexcept {
    std::uint32_t seq = 0;
    if (region != nullptr && !number_inline(*region, context, seq)) [[unlikely]]
        region = nullptr;
    const SpanId span = phase_;
    // Only this thread knows the span, so no other can end it.
    SpanSlot* ending = has_phase() ? &slots_.at(span.slot()) : nullptr;
    if (ending != nullptr && !SpanSlots::take_unshared(*ending, span.generation())) [[unlikely]]
        ending = nullptr;
    phase_ = {switch_from(this, span, ending, {region, context.step, seq, stream})};
}

void ThreadRecorder::add(const Record& given, const GivenAttributes& attributes) noexcept {
    recorded_.add();
    if (attributes.refused) dropped_meta_.add();
    if (!ring_.has_room()) return refuse_record({}, {});
    auto& record = *new (ring_.next_place()) Record(given);
    if (record.type != RecordType::counter && record.type != RecordType::mark)
        add_attributes(record, attributes.values);
    add_meta(record, attributes.meta);
    enqueue();
}

bool ThreadRecorder::innermost(const cep_region* region, SpanId& span) noexcept {
    if (stack_.empty()) return false;
    const SpanStack::Entry* entry = stack_.innermost(slots_, region);
    if (entry == nullptr) return false;
    span = id_of(entry->slot, entry->generation);
    return true;
}

bool ThreadRecorder::adopt() noexcept {
    bool expected = false;
    if (!owned_.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) return false;
    // Spans that the last owner left open can still be ended by their handles. Its phase has none, and stays open.
    stack_.clear();
    phase_ = {CEP_SPAN_NONE};
    return true;
}

void ThreadRecorder::release_left_open() noexcept {
    slots_.visit_left_open([this](SpanSlot& slot) {
        release(slot.begin());
        slot.event = nullptr;
    });
}

bool ThreadRecorder::take(Measurement& measurement) {
    if (!ring_.pop(measurement.record)) return false;
    measurement.attributes = {};
    measurement.meta.clear();
    if (measurement.record.has_attributes) (void)attributes_.pop(measurement.attributes);
    if (measurement.record.meta_bytes > 0) meta_.pop(measurement.record.meta_bytes, measurement.meta);
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
        auto* thread = new ThreadRecorder(SpanId::owner_of(serial_, static_cast<std::uint16_t>(index)), capacity,
                                          meta_budget_, writer_, device_, full, is_bounded_);
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
