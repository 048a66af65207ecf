// SPDX-License-Identifier: Apache-2.0
#include "write/writer.hpp"

#include <algorithm>
#include <exception>

#include "base/error.hpp"
#include "base/message.hpp"
#include "cep/cep.h"
#include "record/this_thread.hpp"

namespace cep {
namespace {

/// After so long without work, the writer sleeps until a thread wakes it. That is a system call of the trainer's
/// thread, so it must be rare.
constexpr std::int64_t idle_after_ns = 1 * ns_per_s;
constexpr std::int64_t start_retry_ns = 100 * ns_per_ms;
/// A write that takes longer hangs. A working disk takes a block within 1 ms.
constexpr std::int64_t longest_write_ns = 10 * ns_per_ms;

}  // namespace

Writer::Writer(const Config& config, WriterInputs& inputs, Recorder& recorder, cuda::CudaDevice* device, Poller* poller,
               Wakeup& wakeup, std::atomic<std::int64_t>& stride)
    : config_(config),
      inputs_(inputs),
      recorder_(recorder),
      poller_(poller),
      wakeup_(wakeup),
      file_(inputs.descriptor),
      collector_(config, inputs, recorder, device, poller, file_, stride) {
    wakeup_.set_start([](void* self) noexcept { static_cast<Writer*>(self)->start_what_lacks(); }, this);
}

std::int32_t Writer::open(bool& busy) {
    if (const std::int32_t code = file_.open(config_, busy); code != CEP_OK || busy) return code;
    collector_.set_attempt(file_.attempt());
    const WriteSignalsBlocked blocked;
    (void)act_as_writer([this] {
        collector_.write_run_row_if_due();
        write_block(true);  // if it fails, the row waits for the next try
    });
    return CEP_OK;
}

void Writer::start() noexcept {
    const std::int64_t now = monotonic_ns();
    const bool first = !started();
    std::int64_t due = next_start_ns_.load(std::memory_order_relaxed);
    if (now < due || !next_start_ns_.compare_exchange_strong(due, now + start_retry_ns)) return;
    const bool polls = poller_ == nullptr || poller_->start();
    const bool writes = thread_.start(
        "cep-writer", [](void* self) noexcept { static_cast<Writer*>(self)->run(); }, this);
    inputs_.thread_start_failed.store(!polls || !writes, std::memory_order_relaxed);
    if (first && writes) wakeup_.set_served(true);
}

void Writer::start_what_lacks() noexcept {
    if (!started()) return start();
    if (!is_hanging() || closing_.load(std::memory_order_relaxed)) return;
    (void)stand_in_thread_.start(
        "cep-stand-in", [](void* self) noexcept { static_cast<Writer*>(self)->stand_in(); }, this);
    stand_in_wakeup_.notify();
}

void Writer::run() noexcept {
    std::int64_t counted_ns = 0;
    // A flush that began before this thread ran may be acting as the writer: wait until it is done.
    while (!act_as_writer([this, &counted_ns] {
        while (finish_deadline_ns_.load(std::memory_order_acquire) < 0) {
            const std::int64_t pause = next_pause(round());
            collector_.count_own_time(counted_ns);
            if (pause == Wakeup::for_ever_ns)
                sleep_until_woken();
            else
                wakeup_.wait(pause);
        }
        finish_file(finish_deadline_ns_.load(std::memory_order_acquire));
    }))
        wakeup_.wait(Pace::shortest_ns);
}

class Writer::Handover {
  public:
    explicit Handover(Writer& writer) noexcept : writer_(writer) {
        writer_.unwritten_bytes_ = writer_.unwritten_.text.size();
        writer_.handed_over_ns_.store(monotonic_ns(), std::memory_order_relaxed);
        writer_.wakeup_.set_served(false);  // who notifies the writer now looks whether it hangs
        writer_.collecting_.store(false, std::memory_order_release);
    }
    Handover(const Handover&) = delete;
    Handover& operator=(const Handover&) = delete;
    ~Handover() {
        writer_.handed_over_ns_.store(0, std::memory_order_relaxed);
        writer_.wakeup_.set_served(writer_.started());
        writer_.take_collector();
    }

  private:
    Writer& writer_;
};

void Writer::take_collector() noexcept {
    while (collecting_.exchange(true, std::memory_order_acquire)) {
        const timespec pause{0, Pace::urgent_ns};  // the stand-in takes what is in the rings
        nanosleep(&pause, nullptr);
    }
}

bool Writer::is_hanging() const noexcept {
    const std::int64_t since_ns = handed_over_ns_.load(std::memory_order_relaxed);
    return since_ns != 0 && monotonic_ns() - since_ns > longest_write_ns;
}

/// Collects while the acting writer hangs, until as many rows wait as for a disk that fails. What does not fit the
/// rings then is counted there. It writes nothing, and serves no flush.
void Writer::stand_in() noexcept {
    std::int64_t counted_ns = 0;
    while (finish_deadline_ns_.load(std::memory_order_acquire) < 0) {
        if (is_hanging() && !collecting_.exchange(true, std::memory_order_acquire)) {
            const auto has_room = [this] {
                return unwritten_bytes_ + collector_.block().text.size() < RankFile::backlog_limit_bytes;
            };
            if (has_room()) (void)collector_.collect(has_room);
            collector_.count_own_time(counted_ns);
            collecting_.store(false, std::memory_order_release);
        }
        stand_in_wakeup_.wait(is_hanging() ? Pace::longest_ns : Wakeup::for_ever_ns);
    }
}

std::size_t Writer::round() noexcept {
    const std::uint32_t flushes = flushes_.asked();
    const bool flush_due = inputs_.flush_due.exchange(false, std::memory_order_acq_rel);
    const std::size_t moved = collector_.collect([this] {
        write_block(false);
        return true;
    });
    if (flushes != flush_serving_) {
        flush_serving_ = flushes;
        flush_order_ = collector_.last_order();
    }
    if (flush_due) collector_.write_stats_if_due();
    const bool retry = !unwritten_.empty() && monotonic_ns() >= file_.next_try_ns();
    if (flush_due || retry || collector_.is_write_due()) write_block(false);
    serve();
    return moved;
}

void Writer::write_block(bool at_once) noexcept {
    constexpr std::size_t most_bytes = RankFile::backlog_limit_bytes + 2 * Collector::write_block_bytes;
    try {
        // All at once, of which memory is used as rows come: growing would copy what waits, and need twice as much.
        if (!unwritten_.empty()) unwritten_.text.reserve(most_bytes);
        collector_.take_block(unwritten_);
        check_and_append(at_once);
    } catch (const std::exception&) {  // no memory: the rows wait, and the next block begins with a run row
        collector_.repeat_run_row();
    }
    if (file_.take_bookkeeping_lost()) collector_.repeat_run_row();
    io_failing_.store(file_.failing(), std::memory_order_release);
}

void Writer::check_and_append(bool at_once) {
    const std::int64_t now = monotonic_ns();
    RankFile::Change change{};
    {
        const Handover handover(*this);
        change = file_.check(now, at_once, closing_.load(std::memory_order_relaxed));
        print_notice();
    }
    if (change != RankFile::Change::none) {
        RowBlock front;
        collector_.write_run_row(front);
        front.append(unwritten_);
        std::swap(front, unwritten_);
    }
    const Handover handover(*this);
    (void)file_.append(unwritten_, now, at_once);
    print_notice();
}

void Writer::print_notice() {
    const std::string notice = file_.take_notice();
    if (!notice.empty()) print_message(config_.rank, notice);
}

void Writer::serve() noexcept {
    const std::uint32_t open_rows = open_rows_.asked();
    if (!open_rows_.served(open_rows)) {
        collector_.write_open_rows();
        write_block(true);
        open_rows_.serve(open_rows);
    }
    if (flushes_.served(flush_serving_) || !collector_.settled(flush_order_)) return;
    collector_.write_stats_if_due();
    write_block(true);
    flushes_.serve(flush_serving_);
}

std::int64_t Writer::next_pause(std::size_t moved) noexcept {
    if (waiters_.load(std::memory_order_relaxed) > 0 && !flushes_.served(flush_serving_)) return Pace::urgent_ns;
    const std::int64_t now = monotonic_ns();
    if (moved > 0 || has_work()) worked_ns_ = now;
    if (now - worked_ns_ > idle_after_ns) return Wakeup::for_ever_ns;
    return pace_.next_ns(moved);  // a ring that gets half full ends the pause
}

/// Whether there is anything to do before a thread records, flushes or closes.
bool Writer::has_work() noexcept {
    return collector_.has_pending() || has_rows() || file_.failing() || !flushes_.served(flushes_.asked()) ||
           !open_rows_.served(open_rows_.asked());
}

/// A thread that records from now on wakes this one with its first record. It reads that it has to after it has handed
/// over the record, but the processor may reorder the two: hence the barrier in all threads before the last look.
void Writer::sleep_until_woken() noexcept {
    recorder_.for_each([](ThreadRecorder& thread) { thread.set_writer_asleep(true); });
    bool is_empty = pass_remote_barrier();
    recorder_.for_each([&](const ThreadRecorder& thread) { is_empty = is_empty && thread.backlog() == 0; });
    wakeup_.wait(is_empty ? Wakeup::for_ever_ns : Pace::longest_ns);
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
        if (!flushes_.served(number)) wakeup_.wait(Pace::urgent_ns);
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

}  // namespace cep
