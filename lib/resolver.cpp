// SPDX-License-Identifier: Apache-2.0
#include "resolver.hpp"

#include <csignal>
#include <ctime>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "cep/cep.h"
#include "error.hpp"
#include "host_clock.hpp"

namespace cep {
namespace {

constexpr std::size_t write_block_bytes = 256 * 1024;
constexpr std::int64_t longest_wait_for_write_ns = 5 * ns_per_s;
constexpr std::int64_t anchor_interval_ns = 10 * ns_per_s;
constexpr std::int64_t shortest_pause_ns = 1 * ns_per_ms;
constexpr std::int64_t longest_pause_ns = 50 * ns_per_ms;
constexpr std::size_t plenty_of_records = 1024;
constexpr std::int64_t flushing_pause_ns = ns_per_ms / 4;
constexpr std::size_t thread_stack_bytes = std::size_t{1} << 20;

/// Keeps signals away from the calling thread: handlers belong on the trainer's threads, and SIGXFSZ must not end it.
class SignalsBlocked {
  public:
    SignalsBlocked() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;
    ~SignalsBlocked() {
        take_back(SIGXFSZ);
        take_back(SIGPIPE);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

  private:
    /// What a write of ours has raised must not end the process once signals are let through again.
    void take_back(int signal) const noexcept {
        sigset_t one;
        sigset_t pending;
        sigemptyset(&one);
        sigaddset(&one, signal);
        const timespec no_wait{0, 0};
        if (sigismember(&before_, signal) == 0 && sigpending(&pending) == 0 && sigismember(&pending, signal) == 1)
            sigtimedwait(&one, nullptr, &no_wait);
    }

    sigset_t before_{};
};

}  // namespace

Resolver::Resolver(const Config& config, ResolverInputs& inputs, Recorder& recorder, RankFile& file,
                   DeviceResolver* device, Wakeup& wakeup, std::atomic<bool>& cancelled)
    : config_(config),
      inputs_(inputs),
      recorder_(recorder),
      file_(file),
      device_(device),
      wakeup_(wakeup),
      cancelled_(cancelled),
      formatter_(config) {
    const UnixAnchor anchor = UnixAnchor::read();
    formatter_.set_unix_anchor(anchor);
    anchored_ns_ = monotonic_ns();
    facts_.start_unix_ns = anchor.unix_ns(anchored_ns_);
    facts_.clock_error_ns = anchor.error_ns;
}

void Resolver::start() noexcept {
    Thread expected = Thread::none;
    if (!thread_state_.compare_exchange_strong(expected, Thread::running)) return;
    const SignalsBlocked blocked;  // the new thread inherits the mask
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, thread_stack_bytes);
    if (pthread_create(&thread_, &attributes, &thread_main, this) == 0)
        pthread_setname_np(thread_, "cep-resolver");
    else
        thread_state_.store(Thread::none);  // flush and close do its work; the next thread to record tries again
    pthread_attr_destroy(&attributes);
}

void* Resolver::thread_main(void* self) noexcept {
    static_cast<Resolver*>(self)->run();
    return nullptr;
}

void Resolver::run() {
    std::unique_lock lock(mutex_);
    while (!stop_.load(std::memory_order_acquire)) {
        std::size_t moved = 0;
        try {
            moved = work(lock, false);
        } catch (const std::exception&) {  // no memory: what is in the rings stays there for the next round
            file_.discard(block_);
        }
        if (cancelled_.load(std::memory_order_acquire)) return;
        self_ns_.set(static_cast<std::uint64_t>(clock_ns(CLOCK_THREAD_CPUTIME_ID)));
        const std::int64_t pause = next_pause(moved);
        lock.unlock();
        wakeup_.wait(pause);
        lock.lock();
        if (cancelled_.load(std::memory_order_acquire)) return;
    }
    if (device_ != nullptr && release_idle_.load(std::memory_order_acquire)) {
        recorder_.for_each([](ThreadRecorder& thread) { thread.discard_left_open(); });
        lock.unlock();  // driver calls
        device_->release_idle();
        lock.lock();
    }
    exited_ = true;
    changed_.notify_all();
}

std::size_t Resolver::work(std::unique_lock<std::mutex>& lock, bool write_now) {
    const std::uint64_t requested = flush_requested_;
    const bool flush_due = inputs_.flush_due.exchange(false, std::memory_order_acq_rel);
    std::size_t moved = drain();
    if (requested > flush_serving_) {
        flush_serving_ = requested;
        flush_target_ = device_ != nullptr ? device_->accepted() : 0;
    }
    if (device_ != nullptr) moved += device_->poll(lock, [this](ResolvedSpan span) { emit(span); });
    if (cancelled_.load(std::memory_order_acquire)) return moved;
    if (device_ != nullptr) print_notice();
    const std::int64_t now = monotonic_ns();
    if (now - anchored_ns_ > anchor_interval_ns) {
        formatter_.set_unix_anchor(UnixAnchor::read());
        anchored_ns_ = now;
    }
    if (flush_due) write_stats_if_lost();
    const bool stale = !block_.empty() && now - block_since_ns_ > longest_wait_for_write_ns;
    if (write_now || flush_due || stale || block_.text.size() >= write_block_bytes) write_block(false);
    serve_flush();
    return moved;
}

std::size_t Resolver::drain() {
    std::size_t moved = 0;
    Record record;
    std::string meta;
    recorder_.for_each([&](ThreadRecorder& thread) {
        while (thread.take(record, meta)) {
            ++moved;
            if (record.end.event != nullptr && device_ != nullptr)
                device_->accept(record, meta);
            else
                format(record, meta);
            if (block_.text.size() >= write_block_bytes) write_block(false);
        }
    });
    return moved;
}

void Resolver::emit(ResolvedSpan& span) {
    span.start_ns = formatter_.unix_anchor().unix_ns(span.start_ns);
    ensure_run_row();
    if (block_.empty()) block_since_ns_ = monotonic_ns();
    formatter_.span(block_, span);
}

void Resolver::print_notice() {
    const std::string notice = device_->take_notice(config_.local_rank == 0);
    if (!notice.empty()) std::fprintf(stderr, "cep: rank %d: %s\n", config_.rank, notice.c_str());
}

void Resolver::format(const Record& record, const std::string& meta) {
    ensure_run_row();
    if (block_.empty()) block_since_ns_ = monotonic_ns();
    switch (record.type) {
        case RecordType::counter:
            return formatter_.counter(block_, record);
        case RecordType::mark:
            return formatter_.mark(block_, record, meta);
        case RecordType::external: {
            const std::int64_t duration = record.end.host_ns;
            return formatter_.span(block_, {&record, schema::clock::external, record.begin.host_ns, duration, duration,
                                            std::nullopt, -1, meta});
        }
        case RecordType::span:
            break;
    }
    const std::int64_t duration = record.end.host_ns - record.begin.host_ns;
    formatter_.span(block_, {&record, schema::clock::host, formatter_.unix_anchor().unix_ns(record.begin.host_ns),
                             duration, duration, std::nullopt, -1, meta});
}

void Resolver::ensure_run_row() {
    const std::uint32_t version = inputs_.meta_version.load(std::memory_order_acquire);
    const std::uint32_t facts_version = device_ != nullptr ? device_->facts_version() : 0;
    if (run_row_written_ && version == meta_version_written_ && facts_version == facts_version_written_) return;
    if (!run_row_written_) facts_.attempt = file_.find_attempt();
    if (device_ != nullptr) device_->describe(facts_);
    {
        const std::lock_guard guard(inputs_.meta_mutex);
        facts_.meta = inputs_.meta;
    }
    formatter_.set_flat_metadata(facts_.meta.as_object());
    if (block_.empty()) block_since_ns_ = monotonic_ns();
    formatter_.run(block_, facts_, config_);
    run_row_written_ = true;
    meta_version_written_ = version;
    facts_version_written_ = facts_version;
}

void Resolver::write_block(bool last_try) {
    last_write_ok_ = file_.append(block_, last_try);
}

void Resolver::write_stats_if_lost() {
    const Totals now = totals();
    if (!run_row_written_ || now.losses() == losses_written_) return;
    losses_written_ = now.losses();
    formatter_.stats(block_, now, facts_.attempt, inputs_.step.load(std::memory_order_relaxed));
}

void Resolver::write_open_rows() {
    ensure_run_row();
    const std::int64_t now = monotonic_ns();
    const auto write = [&](const UnfinishedSpan& span) { formatter_.open(block_, span, now); };
    recorder_.for_each([&](ThreadRecorder& thread) {
        thread.slots().visit_open([&](const OpenSpan& span) {
            write({span.region, span.step, span.begin_host_ns, span.seq, span.depth, span.on_device});
        });
    });
    if (device_ != nullptr) device_->visit_pending(write);
}

bool Resolver::settled() const noexcept {
    return device_ == nullptr || device_->settled() >= flush_target_;
}

void Resolver::serve_flush() {
    if (flush_serving_ == flush_done_ || !settled()) return;
    ensure_run_row();
    write_stats_if_lost();
    write_block(false);
    flush_done_ = flush_serving_;
    changed_.notify_all();
}

std::int64_t Resolver::next_pause(std::size_t moved) noexcept {
    if (flush_waiters_ > 0 && flush_serving_ != flush_done_) return flushing_pause_ns;
    // Waking costs more than a row: longer while rounds find little, shorter while they find much. A ring that fills in
    // the middle of a pause ends it.
    pause_ns_ = moved > plenty_of_records ? pause_ns_ / 2 : pause_ns_ + pause_ns_ / 2;
    return pause_ns_ = std::clamp(pause_ns_, shortest_pause_ns, longest_pause_ns);
}

bool Resolver::try_lock_until(std::unique_lock<std::mutex>& lock, std::int64_t deadline_ns) {
    while (!lock.try_lock()) {
        if (monotonic_ns() >= deadline_ns) return false;
        const timespec pause{0, 200'000};
        nanosleep(&pause, nullptr);
    }
    return true;
}

std::int32_t Resolver::flush_inline() {
    const SignalsBlocked blocked;
    std::unique_lock lock(mutex_);
    ++flush_requested_;
    work(lock, true);
    return last_write_ok_ ? CEP_OK : fail(CEP_EIO, "%s: rows could not be written", file_.path().c_str());
}

std::int32_t Resolver::flush(std::int64_t deadline_ns, bool closing) {
    if (thread_state_.load() != Thread::running) return flush_inline();
    const SignalsBlocked blocked;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!try_lock_until(lock, deadline_ns))
        return fail(CEP_ETIMEDOUT, "%s: the resolver is busy", file_.path().c_str());
    const std::uint64_t ticket = ++flush_requested_;
    ++flush_waiters_;
    const std::int32_t code = await_flush(lock, ticket, deadline_ns);
    --flush_waiters_;
    // The resolver's thread may be stuck in the driver: what never finished is written down from here.
    if (code == CEP_ETIMEDOUT && !closing) {
        write_open_rows();
        write_block(false);
    }
    return code;
}

std::int32_t Resolver::await_flush(std::unique_lock<std::mutex>& lock, std::uint64_t ticket, std::int64_t deadline_ns) {
    wakeup_.notify();
    while (flush_done_ < ticket && !exited_) {
        const std::int64_t left_ns = deadline_ns - monotonic_ns();
        if (left_ns <= 0) return fail(CEP_ETIMEDOUT, "%s: device work was not finished in time", file_.path().c_str());
        changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, ns_per_s)));
    }
    return last_write_ok_ ? CEP_OK : fail(CEP_EIO, "%s: rows could not be written", file_.path().c_str());
}

void Resolver::finish_file() {
    drain();
    ensure_run_row();
    write_open_rows();
    if (device_ != nullptr) device_->abandon_pending();
    write_block(false);
    Totals now = totals();
    formatter_.stats(block_, now, facts_.attempt, inputs_.step.load(std::memory_order_relaxed));
    write_block(true);
    file_.close();
}

bool Resolver::finish(std::int64_t deadline_ns, bool release_device, std::int32_t& code) {
    const SignalsBlocked blocked;
    release_idle_.store(release_device, std::memory_order_release);
    std::unique_lock lock(mutex_, std::defer_lock);
    bool thread_gone = thread_state_.load() != Thread::running;
    if (!thread_gone) {
        stop_.store(true, std::memory_order_release);
        wakeup_.notify();
        if (try_lock_until(lock, deadline_ns)) {
            while (!exited_ && monotonic_ns() < deadline_ns) changed_.wait_for(lock, std::chrono::milliseconds(1));
            thread_gone = exited_;
        } else if (!try_lock_until(lock, monotonic_ns() + 100 * ns_per_ms)) {
            code = fail(CEP_ETIMEDOUT, "%s: the file could not be written in time", file_.path().c_str());
            cancelled_.store(true, std::memory_order_release);
            pthread_detach(thread_);
            return false;
        }
    } else {
        lock.lock();
    }
    if (!thread_gone) cancelled_.store(true, std::memory_order_release);
    finish_file();
    if (!last_write_ok_ && code == CEP_OK) code = fail(CEP_EIO, "%s: rows could not be written", file_.path().c_str());
    lock.unlock();
    if (thread_state_.load() != Thread::running) return true;
    if (!thread_gone) {
        pthread_detach(thread_);
        return false;
    }
    pthread_join(thread_, nullptr);
    return true;
}

Totals Resolver::totals() const noexcept {
    Totals totals;
    recorder_.add_counts(totals);
    if (device_ != nullptr) device_->add_counts(totals);
    totals.written = file_.written();
    totals.dropped_file = file_.dropped_file();
    totals.dropped_io = file_.dropped_io();
    totals.bytes_written = file_.bytes_written();
    totals.self_ns = self_ns_.get();
    return totals;
}

}  // namespace cep
