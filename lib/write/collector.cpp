// SPDX-License-Identifier: Apache-2.0
#include "write/collector.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/message.hpp"
#include "schema.hpp"
#include "write/earlier_rows.hpp"

namespace cep {
namespace {

constexpr std::size_t longest_meta_bytes = 16 * 1024;
constexpr std::int64_t longest_wait_for_write_ns = 5 * ns_per_s;
constexpr std::int64_t clock_interval_ns = 10 * ns_per_s;
/// Slewing affects the system clock and the monotonic clock alike. They diverge only if the system clock is set.
constexpr std::int64_t smallest_clock_step_ns = 1 * ns_per_ms;

}  // namespace

Collector::Collector(const Config& config, WriterInputs& inputs, Recorder& recorder, cuda::CudaDevice* device,
                     Poller* poller, const RankFile& file, std::atomic<std::int64_t>& stride)
    : config_(config),
      inputs_(inputs),
      recorder_(recorder),
      device_(device),
      poller_(poller),
      file_(file),
      stride_(stride),
      formatter_(config),
      stride_control_(config.max_overhead_percent, config.sampling.record_every_n_steps) {
    const UnixAnchor anchor = UnixAnchor::read();
    formatter_.set_unix_anchor(anchor);
    taken_.meta.reserve(longest_meta_bytes);  // then taking a record from a ring needs no memory
    clock_read_ns_ = monotonic_ns();
    facts_.start_unix_ns = anchor.unix_ns(clock_read_ns_);
    facts_.clock_error_ns = anchor.error_ns;
}

template <class Write>
bool Collector::try_to(Write write) noexcept {
    try {
        write();
        return true;
    } catch (const std::exception&) {
        block_.drop_unfinished_row();
        return false;
    }
}

std::size_t Collector::collect(const FullBlock& take_full_block) noexcept {
    const std::size_t moved = take_times(take_full_block) + take_records(take_full_block);
    send_to_poller();
    if (device_ != nullptr && moved > 0 && device_->has_released_events()) poller_->wake();
    try_to([this] {
        check_system_clock();
        adjust_stride();
        ensure_run_row();
    });
    return moved;
}

std::size_t Collector::take_times(const FullBlock& take_full_block) noexcept {
    std::size_t taken = 0;
    for (DeviceTimes times{}; poller_ != nullptr && has_room(take_full_block) && poller_->receive(times); ++taken) {
        if (times.outcome == DeviceTimes::Outcome::lost)
            abandoned_.add();
        else if (!try_to([&] { write_span(pending_.at(times.id), times); }))
            lost_.add();
        pending_.remove(times.id);
    }
    return taken;
}

void Collector::write_span(const PendingSpans::Entry& entry, const DeviceTimes& times) {
    const Record& record = entry.span.record;
    const std::int64_t host_ns = record.end_ns - record.begin_ns;
    ResolvedSpan span{.measurement = &entry.span,
                      .clock = schema::clock::host,
                      .start_ns = formatter_.unix_anchor().unix_ns(times.start_ns),
                      .duration_ns = times.duration_ns,
                      .host_ns = host_ns,
                      .lag_ns = std::nullopt,
                      .device = -1};
    if (times.outcome != DeviceTimes::Outcome::host_clock) {
        span.clock = schema::clock::gpu;
        span.device = times.device;
    }
    if (times.outcome == DeviceTimes::Outcome::resolved) span.lag_ns = times.start_ns - record.begin_ns;
    begin_rows();
    formatter_.span(block_, span);
}

std::size_t Collector::take_records(const FullBlock& take_full_block) noexcept {
    std::size_t taken = 0;
    recorder_.for_each([&](ThreadRecorder& thread) {
        // Take only the records that are there now: a thread that records without a pause must not delay the others.
        for (std::size_t left = thread.backlog(); left > 0 && has_room(take_full_block) && thread.take(taken_);
             --left) {
            ++taken;
            const bool is_done = try_to([this] {
                if (taken_.record.end_event != nullptr)
                    queue_for_poller();
                else
                    write_record();
            });
            if (!is_done) lost_.add();
        }
    });
    return taken;
}

void Collector::queue_for_poller() {
    bool kept_meta = true;
    DeviceSpan span{.id = PendingSpans::none, .begin = taken_.record.begin(), .end = taken_.record.end()};
    try {
        span.id = pending_.add(taken_, kept_meta);
        unsent_.push_back(span);
    } catch (const std::exception&) {
        if (span.id != PendingSpans::none) pending_.remove(span.id);
        cuda::CudaDevice::release(span);
        throw;
    }
    if (!kept_meta) dropped_meta_.add();
}

void Collector::send_to_poller() noexcept {
    bool sent = false;
    for (; !unsent_.empty() && poller_->send(unsent_.front()); sent = true) unsent_.pop_front();
    if (sent) poller_->wake();
}

void Collector::write_record() {
    begin_rows();
    const UnixAnchor& anchor = formatter_.unix_anchor();
    const Record& record = taken_.record;
    ResolvedSpan span{.measurement = &taken_,
                      .clock = schema::clock::external,
                      .start_ns = record.begin_ns,
                      .duration_ns = record.duration_ns,
                      .host_ns = record.duration_ns,
                      .lag_ns = std::nullopt,
                      .device = -1};
    switch (record.type) {
        case RecordType::counter:
            return formatter_.counter(block_, record);
        case RecordType::mark:
            return formatter_.mark(block_, taken_);
        case RecordType::external:
            return formatter_.span(block_, span);
        case RecordType::external_ending_now:
            span.start_ns = anchor.unix_ns(record.begin_ns - record.duration_ns);
            return formatter_.span(block_, span);
        case RecordType::span:
            break;
    }
    span.clock = schema::clock::host;
    span.start_ns = anchor.unix_ns(record.begin_ns);
    span.duration_ns = span.host_ns = record.end_ns - record.begin_ns;
    formatter_.span(block_, span);
}

void Collector::abandon_pending() noexcept {
    while (!pending_.empty()) {
        abandoned_.add();
        pending_.remove(pending_.first());
    }
    for (const DeviceSpan& span : unsent_) cuda::CudaDevice::release(span);  // the poller has the others
    unsent_.clear();
}

void Collector::note_first_row() noexcept {
    if (block_.empty()) block_since_ns_ = monotonic_ns();
}

void Collector::begin_rows() {
    ensure_run_row();
    note_first_row();
    if (formatted_bytes() - stats_at_bytes_ >= static_cast<std::uint64_t>(stats_interval_bytes))
        append_stats(RowKind::bookkeeping);
}

bool Collector::is_write_due() const noexcept {
    return block_.text.size() >= write_block_bytes ||
           (!block_.empty() && monotonic_ns() - block_since_ns_ > longest_wait_for_write_ns);
}

void Collector::take_block(RowBlock& to) {
    const std::size_t bytes = block_.text.size();
    to.append(block_);
    taken_bytes_ += bytes;
}

void Collector::ensure_run_row() {
    const bool new_meta = inputs_.meta_version.load(std::memory_order_acquire) != meta_version_written_;
    const bool new_facts = device_ != nullptr && device_->facts_version() != facts_.device.version;
    if (run_row_written_ && !new_meta && !new_facts) return;
    run_row_written_ = false;  // until the row is written: any of these lines may run out of memory
    // Each version is read with what it counts. A version from before would let the same row be written again.
    if (device_ != nullptr) facts_.device = device_->facts();
    {
        const MetaLock lock(inputs_);
        facts_.meta = inputs_.meta;
        meta_version_written_ = inputs_.meta_version.load(std::memory_order_relaxed);
    }
    formatter_.set_run_metadata(facts_.meta.as_object());
    note_first_row();
    write_run_row(block_);
    run_row_written_ = true;
}

void Collector::write_run_row(RowBlock& block) const {
    formatter_.run(block, facts_, config_);
    if (stride_change_) formatter_.stride(block, *stride_change_, config_.max_overhead_percent);
}

void Collector::write_run_row_if_due() noexcept {
    try_to([this] { ensure_run_row(); });
}

void Collector::check_system_clock() {
    const std::int64_t now = monotonic_ns();
    if (now - clock_read_ns_ < clock_interval_ns) return;
    clock_read_ns_ = now;
    // Rows keep the offset from the start of the run, so that their times stay comparable if the system clock is set.
    const UnixAnchor anchor = UnixAnchor::read();
    const std::int64_t step_ns = anchor.offset_ns - formatter_.unix_anchor().offset_ns;
    if (std::llabs(step_ns - clock_step_ns_) < smallest_clock_step_ns) return;
    clock_step_ns_ = step_ns;
    UnixAnchor kept = formatter_.unix_anchor();
    kept.error_ns = anchor.error_ns + std::llabs(step_ns);
    formatter_.set_unix_anchor(kept);
    facts_.clock_error_ns = kept.error_ns;
    run_row_written_ = false;
    print_message(config_.rank, "the system clock was set by " + std::to_string(step_ns / ns_per_ms) +
                                    " ms; rows keep the old time, and the run row states the error");
}

void Collector::adjust_stride() {
    if (!stride_control_.is_bounded()) return;
    if (const std::int64_t first = inputs_.first_step.load(std::memory_order_acquire); first >= 0)
        stride_control_.start(first, inputs_.first_step_ns.load(std::memory_order_relaxed));
    std::optional<StrideChange> change =
        stride_control_.decide(recorder_.cost(), inputs_.board.read().step, monotonic_ns());
    if (!change) return;
    // Before the step is read: then at most the trainer's next step is still decided with the old stride.
    stride_.store(change->to, std::memory_order_seq_cst);
    change->step = inputs_.board.read().step;
    stride_change_ = change;
    run_row_written_ = false;
    char text[256];
    std::snprintf(text, sizeof text,
                  "the stride was %s from %" PRId64 " to %" PRId64 " at step %" PRId64
                  ": cep took %.3g %% of the time, and max_overhead_percent is %g",
                  change->to > change->from ? "lengthened" : "shortened", change->from, change->to, change->step,
                  change->cost_percent, config_.max_overhead_percent);
    print_message(config_.rank, text);
}

void Collector::append_stats(RowKind kind) {
    const Totals now = totals();
    losses_written_ = now.losses();
    stats_at_bytes_ = formatted_bytes();
    note_first_row();
    formatter_.stats(block_, now, facts_.attempt, inputs_.board.read().step, kind);
}

void Collector::write_stats(RowKind kind) noexcept {
    try_to([&] { append_stats(kind); });
}

void Collector::write_stats_if_due() noexcept {
    if (totals().losses() != losses_written_) write_stats(RowKind::bookkeeping);
}

void Collector::write_open_rows() noexcept {
    const std::int64_t now = monotonic_ns();
    const auto write = [&](const OpenSpan& span) { formatter_.open(block_, span, now); };
    try_to([&] {
        begin_rows();
        recorder_.for_each([&](ThreadRecorder& thread) { thread.slots().visit_open(write); });
        pending_.for_each([&](const PendingSpans::Entry& entry) {
            const Record& record = entry.span.record;
            write({record.region, record.step, record.begin_ns, record.seq, record.depth, true});
        });
    });
}

void Collector::count_own_time(std::int64_t& counted_ns) noexcept {
    const std::int64_t now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    self_ns_.add(static_cast<std::uint64_t>(now - counted_ns));
    counted_ns = now;
}

Totals Collector::totals() const noexcept {
    Totals totals;
    totals.written = file_.written();
    totals.dropped_file = file_.dropped_file();
    totals.dropped_io = file_.dropped_io() + lost_.get();
    const std::uint64_t settled = totals.written + totals.dropped_file + totals.dropped_io + abandoned_.get();
    recorder_.add_counts(totals);  // read after the counts above, so that `pending` is never negative
    totals.pending -= settled;
    totals.add_refused(inputs_.refused.load(std::memory_order_relaxed));
    totals.abandoned += abandoned_.get();
    totals.dropped_meta += dropped_meta_.get();
    totals.bytes_written = file_.bytes_written();
    totals.self_ns = self_ns_.get();
    if (device_ != nullptr) device_->add_counts(totals);
    if (poller_ != nullptr) totals.self_ns += poller_->self_ns();
    return totals;
}

}  // namespace cep
