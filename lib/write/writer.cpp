// SPDX-License-Identifier: Apache-2.0
#include "write/writer.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/error.hpp"
#include "base/host_clock.hpp"
#include "base/message.hpp"
#include "cep/cep.h"
#include "record/this_thread.hpp"
#include "schema.hpp"
#include "write/earlier_rows.hpp"

namespace cep {
namespace {

constexpr std::size_t write_block_bytes = 256 * 1024;
constexpr std::size_t longest_meta_bytes = 16 * 1024;
constexpr std::int64_t longest_wait_for_write_ns = 5 * ns_per_s;
constexpr std::int64_t clock_interval_ns = 10 * ns_per_s;
constexpr std::int64_t shortest_pause_ns = 1 * ns_per_ms;
/// After so long without work, the writer sleeps until a thread wakes it. That is a system call of the trainer's
/// thread, so it must be rare.
constexpr std::int64_t idle_after_ns = 1 * ns_per_s;
constexpr std::size_t busy_round_records = 1024;
constexpr std::int64_t start_retry_ns = 100 * ns_per_ms;
/// Slewing affects the system clock and the monotonic clock alike. They diverge only if the system clock is set.
constexpr std::int64_t smallest_clock_step_ns = 1 * ns_per_ms;

}  // namespace

Writer::Writer(const Config& config, WriterInputs& inputs, Recorder& recorder, cuda::CudaDevice* device, Poller* poller,
               Wakeup& wakeup, std::atomic<std::int64_t>& stride)
    : config_(config),
      inputs_(inputs),
      recorder_(recorder),
      device_(device),
      poller_(poller),
      wakeup_(wakeup),
      stride_(stride),
      file_(inputs.descriptor),
      formatter_(config),
      stride_control_(config.max_overhead_percent, config.sampling.record_every_n_steps) {
    const UnixAnchor anchor = UnixAnchor::read();
    formatter_.set_unix_anchor(anchor);
    wakeup_.set_start([](void* self) noexcept { static_cast<Writer*>(self)->start(); }, this);
    taken_.meta.reserve(longest_meta_bytes);  // then taking a record from a ring needs no memory
    clock_read_ns_ = monotonic_ns();
    facts_.start_unix_ns = anchor.unix_ns(clock_read_ns_);
    facts_.clock_error_ns = anchor.error_ns;
}

std::int32_t Writer::open(bool& busy) {
    if (const std::int32_t code = file_.open(config_, busy); code != CEP_OK || busy) return code;
    facts_.attempt = file_.attempt();
    const WriteSignalsBlocked blocked;
    ensure_run_row();
    write_block(true);  // if it fails, the row waits for the next try
    return CEP_OK;
}

void Writer::start() noexcept {
    const std::int64_t now = monotonic_ns();
    std::int64_t due = next_start_ns_.load(std::memory_order_relaxed);
    if (now < due || !next_start_ns_.compare_exchange_strong(due, now + start_retry_ns)) return;
    const bool polls = poller_ == nullptr || poller_->start();
    const bool writes = thread_.start("cep-writer", &thread_main, this);
    inputs_.thread_start_failed.store(!polls || !writes, std::memory_order_relaxed);
    if (writes) wakeup_.set_served();
}

void Writer::run() noexcept {
    // A flush that began before this thread ran may be acting as the writer: wait until it is done.
    while (!act_as_writer([this] {
        while (finish_deadline_ns_.load(std::memory_order_acquire) < 0) {
            const std::int64_t pause = next_pause(round());
            self_ns_.set(static_cast<std::uint64_t>(clock_ns(CLOCK_THREAD_CPUTIME_ID)));
            if (pause == Wakeup::for_ever_ns)
                sleep_until_woken();
            else
                wakeup_.wait(pause);
        }
        finish_file(finish_deadline_ns_.load(std::memory_order_acquire));
    }))
        wakeup_.wait(shortest_pause_ns);
}

std::size_t Writer::round() noexcept {
    const std::uint32_t flushes = flushes_.asked();
    const bool flush_due = inputs_.flush_due.exchange(false, std::memory_order_acq_rel);
    std::size_t moved = 0;
    try {
        moved = take_times() + drain();
        send_to_poller();
        if (device_ != nullptr && moved > 0 && device_->has_released_events()) poller_->wake();
        if (flushes != flush_serving_) {
            flush_serving_ = flushes;
            flush_order_ = pending_.last_order();
        }
        check_system_clock();
        adjust_stride();
        ensure_run_row();
        if (flush_due) write_stats_if_due();
    } catch (const std::exception&) {  // no memory: the next round continues where this one stopped
        block_.drop_unfinished_row();
    }
    const bool stale = !block_.empty() && monotonic_ns() - block_since_ns_ > longest_wait_for_write_ns;
    if (flush_due || stale || block_.text.size() >= write_block_bytes) write_block(false);
    serve();
    return moved;
}

std::size_t Writer::take_times() {
    if (poller_ == nullptr) return 0;
    std::size_t taken = 0;
    for (DeviceTimes times{}; poller_->receive(times); ++taken) {
        const PendingSpans::Entry& entry = pending_.at(times.id);
        if (times.outcome == DeviceTimes::Outcome::lost)
            abandoned_.add();
        else
            write_span(entry, times);
        pending_.remove(times.id);
        if (block_.text.size() >= write_block_bytes) write_block(false);
    }
    return taken;
}

void Writer::write_span(const PendingSpans::Entry& entry, const DeviceTimes& times) {
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
    try {
        begin_rows();
        formatter_.span(block_, span);
    } catch (const std::exception&) {
        block_.drop_unfinished_row();
        file_.count_lost();
    }
}

std::size_t Writer::drain() {
    std::size_t moved = 0;
    recorder_.for_each([&](ThreadRecorder& thread) {
        // Take only the records that are there now: a thread that records without a pause must not delay the others.
        for (std::size_t left = thread.backlog(); left > 0 && thread.take(taken_); --left) {
            ++moved;
            try {
                if (taken_.record.end_event != nullptr)
                    queue_for_poller();
                else
                    write_record();
            } catch (const std::exception&) {
                block_.drop_unfinished_row();
                file_.count_lost();
            }
            if (block_.text.size() >= write_block_bytes) write_block(false);
        }
    });
    return moved;
}

void Writer::queue_for_poller() {
    bool kept_meta = true;
    DeviceSpan span{.id = 0, .begin = taken_.record.begin(), .end = taken_.record.end()};
    try {
        unsent_.push_back(span);
    } catch (const std::exception&) {
        cuda::CudaDevice::release(span.begin);
        cuda::CudaDevice::release(span.end);
        throw;
    }
    try {
        unsent_.back().id = pending_.add(taken_, kept_meta);
    } catch (const std::exception&) {
        unsent_.pop_back();
        cuda::CudaDevice::release(span.begin);
        cuda::CudaDevice::release(span.end);
        throw;
    }
    if (!kept_meta) dropped_meta_.add();
}

void Writer::send_to_poller() noexcept {
    bool sent = false;
    for (; !unsent_.empty() && poller_->send(unsent_.front()); sent = true) unsent_.pop_front();
    if (sent) poller_->wake();
}

void Writer::write_record() {
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

void Writer::begin_rows() {
    ensure_run_row();
    if (block_.empty()) block_since_ns_ = monotonic_ns();
    const std::uint64_t bytes = file_.bytes_written() + block_.text.size();
    if (bytes - stats_at_bytes_ >= static_cast<std::uint64_t>(stats_interval_bytes)) write_stats(RowKind::bookkeeping);
}

void Writer::ensure_run_row() {
    const bool new_meta = inputs_.meta_version.load(std::memory_order_acquire) != meta_version_written_;
    const bool new_facts = device_ != nullptr && device_->facts_version() != facts_.device.version;
    if (file_.take_bookkeeping_lost()) run_row_written_ = false;
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
    write_run_row(block_);
    run_row_written_ = true;
}

void Writer::write_run_row(RowBlock& block) {
    if (block_.empty()) block_since_ns_ = monotonic_ns();
    formatter_.run(block, facts_, config_);
    if (stride_change_) formatter_.stride(block, *stride_change_, config_.max_overhead_percent);
}

void Writer::check_system_clock() {
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

void Writer::adjust_stride() {
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

void Writer::write_stats(RowKind kind) {
    const Totals now = totals();
    losses_written_ = now.losses();
    stats_at_bytes_ = file_.bytes_written() + block_.text.size();
    if (block_.empty()) block_since_ns_ = monotonic_ns();
    formatter_.stats(block_, now, facts_.attempt, inputs_.board.read().step, kind);
}

void Writer::write_stats_if_due() {
    if (totals().losses() != losses_written_) write_stats(RowKind::bookkeeping);
}

void Writer::write_open_rows() {
    ensure_run_row();
    const std::int64_t now = monotonic_ns();
    const auto write = [&](const OpenSpan& span) { formatter_.open(block_, span, now); };
    recorder_.for_each([&](ThreadRecorder& thread) { thread.slots().visit_open(write); });
    pending_.for_each([&](const PendingSpans::Entry& entry) {
        const Record& record = entry.span.record;
        write({record.region, record.step, record.begin_ns, record.seq, record.depth, true});
    });
}

void Writer::write_block(bool at_once) noexcept {
    try {
        const std::int64_t now = monotonic_ns();
        const RankFile::Change change = file_.check(now, at_once, closing_.load(std::memory_order_relaxed));
        print_notice();
        if (change != RankFile::Change::none) {
            RowBlock front;
            write_run_row(front);
            block_.prepend(std::move(front));
        }
        (void)file_.append(block_, now, at_once);
        print_notice();
    } catch (const std::exception&) {  // no memory: the rows wait, and the next block begins with a run row
        run_row_written_ = false;
    }
    io_failing_.store(file_.failing(), std::memory_order_release);
}

void Writer::print_notice() {
    const std::string notice = file_.take_notice();
    if (!notice.empty()) print_message(config_.rank, notice);
}

void Writer::serve() {
    const std::uint32_t open_rows = open_rows_.asked();
    if (!open_rows_.served(open_rows)) {
        try {
            write_open_rows();
        } catch (const std::exception&) {
            block_.drop_unfinished_row();
        }
        write_block(true);
        open_rows_.serve(open_rows);
    }
    if (flushes_.served(flush_serving_) || !pending_.settled(flush_order_)) return;
    try {
        write_stats_if_due();
    } catch (const std::exception&) {
        block_.drop_unfinished_row();
    }
    write_block(true);
    flushes_.serve(flush_serving_);
}

std::int64_t Writer::next_pause(std::size_t moved) noexcept {
    if (waiters_.load(std::memory_order_relaxed) > 0 && !flushes_.served(flush_serving_)) return urgent_pause_ns;
    const std::int64_t now = monotonic_ns();
    if (moved > 0 || has_work()) worked_ns_ = now;
    if (now - worked_ns_ > idle_after_ns) return Wakeup::for_ever_ns;
    // A wakeup costs more than a row: lengthen the pause while rounds find few records, shorten it while they find
    // many. A ring that gets half full ends the pause.
    pause_ns_ = moved > busy_round_records ? pause_ns_ / 2 : pause_ns_ + pause_ns_ / 2;
    return pause_ns_ = std::clamp(pause_ns_, shortest_pause_ns, longest_pause_ns);
}

/// Whether there is anything to do before a thread records, flushes or closes.
bool Writer::has_work() noexcept {
    return !pending_.empty() || !block_.empty() || file_.failing() || !flushes_.served(flushes_.asked()) ||
           !open_rows_.served(open_rows_.asked());
}

/// A thread that records from now on wakes this one with its first record. It reads that it has to after it has handed
/// over the record, but the processor may reorder the two: hence the barrier in all threads before the last look.
void Writer::sleep_until_woken() noexcept {
    recorder_.for_each([](ThreadRecorder& thread) { thread.set_writer_asleep(true); });
    bool is_empty = pass_remote_barrier();
    recorder_.for_each([&](const ThreadRecorder& thread) { is_empty = is_empty && thread.backlog() == 0; });
    wakeup_.wait(is_empty ? Wakeup::for_ever_ns : longest_pause_ns);
    recorder_.for_each([](ThreadRecorder& thread) { thread.set_writer_asleep(false); });
}

std::int32_t Writer::io_code() const noexcept {
    if (!io_failing_.load(std::memory_order_acquire)) return CEP_OK;
    return fail(CEP_EIO, "%s: rows could not be written; they are tried again", file_.path().c_str());
}

void Writer::add_waiters(int change) noexcept {
    waiters_.fetch_add(change, std::memory_order_relaxed);
    if (poller_ != nullptr) poller_->add_waiters(change);
}

bool Writer::wait_for_flush(std::uint32_t number, std::int64_t deadline_ns) noexcept {
    wakeup_.notify();  // also retries a failed start of the threads
    while (!started() && !flushes_.served(number) && monotonic_ns() < deadline_ns) {
        const WriteSignalsBlocked blocked;
        if (!act_as_writer([this] { (void)round(); })) break;
        if (!flushes_.served(number)) wakeup_.wait(urgent_pause_ns);
    }
    return flushes_.wait(number, deadline_ns);
}

std::int32_t Writer::flush(std::int64_t deadline_ns, bool closing) {
    if (closing) closing_.store(true, std::memory_order_relaxed);
    const std::uint32_t number = flushes_.ask();
    add_waiters(1);
    const bool served = wait_for_flush(number, deadline_ns);
    add_waiters(-1);
    if (served) return io_code();
    if (!closing) {
        const std::uint32_t rows = open_rows_.ask();
        wakeup_.notify();
        (void)open_rows_.wait(rows, monotonic_ns() + grace_ns);
    }
    return fail(CEP_ETIMEDOUT, "%s: device work or writing did not finish within the timeout", file_.path().c_str());
}

Totals Writer::totals() const noexcept {
    Totals totals;
    totals.written = file_.written();
    totals.dropped_file = file_.dropped_file();
    totals.dropped_io = file_.dropped_io();
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
