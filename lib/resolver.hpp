// SPDX-License-Identifier: Apache-2.0
//
// The one background thread of a profiler: drains the rings, resolves device times, writes rows.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "counts.hpp"
#include "device.hpp"
#include "rank_file.hpp"
#include "recorder.hpp"
#include "rows.hpp"
#include "run_facts.hpp"
#include "wakeup.hpp"

namespace cep {

/// What the resolver reads from the profiler while trainers write it.
struct ResolverInputs {
    std::atomic<std::int64_t> step{-1};
    std::atomic<bool> flush_due{false};          ///< cep_step() passed a flush step
    std::atomic<std::uint32_t> meta_version{0};  ///< grows with each cep_set_meta()
    mutable std::mutex meta_mutex;
    RunMeta meta;
};

class Resolver {
  public:
    Resolver(const Config& config, ResolverInputs& inputs, Recorder& recorder, RankFile& file, DeviceResolver* device,
             Wakeup& wakeup, std::atomic<bool>& cancelled);
    Resolver(const Resolver&) = delete;
    Resolver& operator=(const Resolver&) = delete;

    /// Starts the thread if it is not running. Any thread; does nothing after the first success.
    void start() noexcept;

    /// Writes out everything recorded before the call. Past `deadline_ns` it writes `open` rows, unless
    /// it is `closing`, which does that itself, and returns.
    [[nodiscard]] std::int32_t flush(std::int64_t deadline_ns, bool closing);

    /// Ends the thread, writes what is left and an `open` row for each unfinished span. Nothing may be recording any
    /// more. `release_device`: the driver is still there to take its objects back. False: the thread hangs in the
    /// driver or the file, so that this object and all it refers to must live on.
    [[nodiscard]] bool finish(std::int64_t deadline_ns, bool release_device, std::int32_t& code);

    [[nodiscard]] Totals totals() const noexcept;

  private:
    enum class Thread : std::uint8_t { none, running };

    static void* thread_main(void* self) noexcept;
    void run();
    /// One round: drain, poll, write. Returns the number of records moved.
    std::size_t work(std::unique_lock<std::mutex>& lock, bool write_now);
    std::size_t drain();
    void format(const Record& record, const std::string& meta);
    void emit(ResolvedSpan& span);
    void print_notice();
    void ensure_run_row();
    void write_block(bool last_try);
    void write_stats_if_lost();
    void write_open_rows();
    void serve_flush();
    [[nodiscard]] bool settled() const noexcept;
    [[nodiscard]] std::int64_t next_pause(std::size_t moved) noexcept;
    [[nodiscard]] bool try_lock_until(std::unique_lock<std::mutex>& lock, std::int64_t deadline_ns);
    [[nodiscard]] std::int32_t flush_inline();
    [[nodiscard]] std::int32_t await_flush(std::unique_lock<std::mutex>& lock, std::uint64_t ticket,
                                           std::int64_t deadline_ns);
    void finish_file();

    const Config& config_;
    ResolverInputs& inputs_;
    Recorder& recorder_;
    RankFile& file_;
    DeviceResolver* const device_;
    Wakeup& wakeup_;
    std::atomic<bool>& cancelled_;  ///< finish() gave up on the thread: it must touch nothing any more

    pthread_t thread_{};
    std::atomic<Thread> thread_state_{Thread::none};
    std::atomic<bool> stop_{false};
    std::atomic<bool> release_idle_{false};

    // Guarded by mutex_.
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool exited_ = false;
    std::uint64_t flush_requested_ = 0;
    std::uint64_t flush_done_ = 0;
    std::uint64_t flush_serving_ = 0;  ///< the request that flush_target_ belongs to
    std::uint64_t flush_target_ = 0;   ///< device spans that must be settled first
    std::int32_t flush_waiters_ = 0;
    bool last_write_ok_ = true;
    RowFormatter formatter_;
    RowBlock block_;
    RunFacts facts_;
    bool run_row_written_ = false;
    std::uint32_t meta_version_written_ = 0;
    std::uint32_t facts_version_written_ = 0;
    std::uint64_t losses_written_ = 0;
    std::int64_t block_since_ns_ = 0;  ///< when the block's first row came
    std::int64_t anchored_ns_ = 0;
    std::int64_t pause_ns_ = 0;
    Count self_ns_;
};

}  // namespace cep
