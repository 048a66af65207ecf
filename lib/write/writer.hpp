// SPDX-License-Identifier: Apache-2.0
//
// The thread that owns the file. It takes records from the rings of the trainer's threads, gets device times from the
// poller, formats rows and writes them. It makes no driver call, so a hung GPU delays only its own spans.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "base/background_thread.hpp"
#include "base/counts.hpp"
#include "base/host_clock.hpp"
#include "base/requests.hpp"
#include "base/wakeup.hpp"
#include "cuda/device.hpp"
#include "cuda/poller.hpp"
#include "options/options.hpp"
#include "record/recorder.hpp"
#include "record/step_board.hpp"
#include "record/stride_control.hpp"
#include "write/pending_spans.hpp"
#include "write/rank_file.hpp"
#include "write/rows.hpp"
#include "write/run_facts.hpp"

namespace cep {

/// State that the writer and the profiler share. It outlives the session.
struct WriterInputs {
    explicit WriterInputs(const StepBoard& steps) noexcept : board(steps) {}

    const StepBoard& board;
    // On another cache line than the board, which every span reads: the writer writes this in each round.
    alignas(64) std::atomic<bool> flush_due{false};  ///< cep_step() reached a flush step
    std::atomic<std::uint32_t> meta_version{0};      ///< grows with each cep_set_meta()
    std::mutex meta_mutex;                           ///< see MetaLock
    RunMeta meta;
    /// With a bound of the cost: the first recorded step, and when it began; −1: none so far.
    std::atomic<std::int64_t> first_step{-1};
    std::atomic<std::int64_t> first_step_ns{0};
    std::atomic<std::uint64_t> recorded_steps{0};  ///< with a bound
    std::atomic<std::uint64_t> refused{0};         ///< calls of a signal handler that interrupted another call
    std::atomic<bool> thread_start_failed{false};  ///< the system refused a thread: try again
    RankDescriptor descriptor;
    Requests closed;  ///< request 1 is served when the writer has finished
};

/// Holds the lock of WriterInputs::meta. No signal handler runs meanwhile: one that called exit() would leave the
/// writer waiting for the lock.
class MetaLock {
  public:
    explicit MetaLock(WriterInputs& inputs) : guard_(inputs.meta_mutex) {}

  private:
    const SignalsBlocked blocked_;
    const std::lock_guard<std::mutex> guard_;
};

class Writer {
  public:
    /// `device` and `poller` are both null, or neither. `stride` is the one that the trainer uses from its next step
    /// on.
    Writer(const Config& config, WriterInputs& inputs, Recorder& recorder, cuda::CudaDevice* device, Poller* poller,
           Wakeup& wakeup, std::atomic<std::int64_t>& stride);
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    /// Opening thread: opens the file and writes the run row. If another profiler is writing the file, returns CEP_OK
    /// and sets `busy`.
    [[nodiscard]] std::int32_t open(bool& busy);

    /// Any thread: starts the threads of the writer and the poller once. If the system refuses, later calls try again,
    /// but not more often than every 100 ms.
    void start() noexcept;
    [[nodiscard]] bool started() const noexcept { return thread_.started(); }

    /// Any thread: writes out everything recorded before the call. If the deadline passes first, it returns
    /// CEP_ETIMEDOUT and, unless `closing`, writes `open` rows.
    [[nodiscard]] std::int32_t flush(std::int64_t deadline_ns, bool closing);

    /// Closing thread, after all recording has ended: writes the remaining rows, an `open` row for each unfinished span
    /// and the last stats row, and closes the file. Returns the code for cep_close().
    [[nodiscard]] std::int32_t finish(std::int64_t deadline_ns) noexcept;
    /// Closing thread, after finish(): false if the writer's thread hangs in a write. Everything it uses must then stay
    /// alive.
    [[nodiscard]] bool join(std::int64_t deadline_ns) noexcept { return thread_.join(deadline_ns); }

    [[nodiscard]] Totals totals() const noexcept;
    [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

  private:
    static void thread_main(void* self) noexcept { static_cast<Writer*>(self)->run(); }
    void run() noexcept;
    /// Runs `body` in the calling thread, unless another thread is acting as the writer now (false).
    template <class Body>
    [[nodiscard]] bool act_as_writer(Body body) noexcept {
        if (acting_.exchange(true, std::memory_order_acquire)) return false;
        body();
        acting_.store(false, std::memory_order_release);
        return true;
    }

    // Called by the acting writer only:
    std::size_t round() noexcept;
    std::size_t take_times();
    std::size_t drain();
    void write_record();
    void queue_for_poller();
    void send_to_poller() noexcept;
    void write_span(const PendingSpans::Entry& entry, const DeviceTimes& times);
    void abandon_pending() noexcept;
    void begin_rows();
    void ensure_run_row();
    void write_run_row(RowBlock& block);
    void check_system_clock();
    void adjust_stride();
    void write_stats(RowKind kind);
    void write_stats_if_due();
    void write_open_rows();
    void write_block(bool at_once) noexcept;
    void print_notice();
    void serve();
    void finish_device_spans(std::int64_t deadline_ns) noexcept;
    void finish_file(std::int64_t deadline_ns) noexcept;
    void write_rest(std::int64_t deadline_ns) noexcept;
    [[nodiscard]] std::int64_t next_pause(std::size_t moved) noexcept;
    [[nodiscard]] bool has_work() noexcept;
    void sleep_until_woken() noexcept;
    void add_waiters(int change) noexcept;
    [[nodiscard]] bool wait_for_flush(std::uint32_t number, std::int64_t deadline_ns) noexcept;
    [[nodiscard]] std::int32_t io_code() const noexcept;

    static constexpr std::int64_t urgent_pause_ns = ns_per_ms / 4;
    static constexpr std::int64_t longest_pause_ns = 50 * ns_per_ms;
    /// Longest wait beyond a deadline for short work: a pass of the poller, the write of a block, `open` rows.
    static constexpr std::int64_t grace_ns = 200 * ns_per_ms;

    const Config& config_;
    WriterInputs& inputs_;
    Recorder& recorder_;
    cuda::CudaDevice* const device_;
    Poller* const poller_;
    Wakeup& wakeup_;
    std::atomic<std::int64_t>& stride_;
    BackgroundThread thread_;
    std::atomic<std::int64_t> next_start_ns_{0};
    std::atomic<bool> acting_{false};
    std::atomic<int> waiters_{0};  ///< callers of flush()
    Requests flushes_;
    Requests open_rows_;
    std::atomic<std::int64_t> finish_deadline_ns_{-1};  ///< −1: not asked to finish yet
    std::atomic<std::int32_t> finish_code_{0};
    std::atomic<bool> io_failing_{false};
    std::atomic<bool> closing_{false};

    // Used by the acting writer only:
    RankFile file_;
    RowFormatter formatter_;
    RowBlock block_;
    RunFacts facts_;
    StrideControl stride_control_;
    std::optional<StrideChange> stride_change_;  ///< the last; each run row is followed by its row
    PendingSpans pending_;
    std::deque<DeviceSpan> unsent_;
    Measurement taken_;
    bool run_row_written_ = false;
    std::uint32_t meta_version_written_ = 0;
    std::uint64_t losses_written_ = 0;
    std::uint64_t stats_at_bytes_ = 0;  ///< bytes written and formatted at the last stats row
    std::uint32_t flush_serving_ = 0;   ///< the flush request being served
    std::uint64_t flush_order_ = 0;     ///< pending spans up to this order belong to that request
    std::int64_t block_since_ns_ = 0;   ///< when the block got its first row
    std::int64_t clock_read_ns_ = 0;
    std::int64_t clock_step_ns_ = 0;
    std::int64_t pause_ns_ = 0;
    std::int64_t worked_ns_ = 0;  ///< when a round had work last
    Count abandoned_;
    Count dropped_meta_;
    Count self_ns_;
};

}  // namespace cep
