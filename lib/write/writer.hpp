// SPDX-License-Identifier: Apache-2.0
//
// The thread that owns the file. It has the collector make rows and writes them, for flush and close too. It makes no
// driver call, so a hung GPU delays only its own spans. If a write hangs, a second thread collects meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/background_thread.hpp"
#include "base/counts.hpp"
#include "base/host_clock.hpp"
#include "base/pace.hpp"
#include "base/requests.hpp"
#include "base/wakeup.hpp"
#include "cuda/poller.hpp"
#include "options/options.hpp"
#include "record/recorder.hpp"
#include "write/collector.hpp"
#include "write/rank_file.hpp"
#include "write/row_block.hpp"
#include "write/writer_inputs.hpp"

namespace cep {

class Writer {
  public:
    /// For the parameters, see Collector.
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
    [[nodiscard]] bool join(std::int64_t deadline_ns) noexcept;

    [[nodiscard]] Totals totals() const noexcept { return collector_.totals(); }
    [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

  private:
    /// While it lives, the acting writer leaves the collector to the stand-in, because it may hang in a system call.
    class Handover;

    /// Any thread that notifies the writer when it has not started, or may hang.
    void start_what_lacks() noexcept;
    void run() noexcept;
    void stand_in() noexcept;
    [[nodiscard]] bool is_hanging() const noexcept;
    void take_collector() noexcept;
    /// Runs `body` in the calling thread, unless another thread is acting as the writer now (false).
    template <class Body>
    [[nodiscard]] bool act_as_writer(Body body) noexcept {
        if (acting_.exchange(true, std::memory_order_acquire)) return false;
        take_collector();
        body();
        collecting_.store(false, std::memory_order_release);
        acting_.store(false, std::memory_order_release);
        return true;
    }

    // Called by the acting writer only:
    std::size_t round() noexcept;
    void write_block(bool at_once) noexcept;
    void check_and_append(bool at_once);
    void print_notice();
    [[nodiscard]] bool has_rows() const noexcept { return !unwritten_.empty() || !collector_.block().empty(); }
    void serve() noexcept;
    void finish_device_spans(std::int64_t deadline_ns) noexcept;
    void finish_file(std::int64_t deadline_ns) noexcept;
    void write_rest(std::int64_t deadline_ns) noexcept;
    void give_up() noexcept;
    [[nodiscard]] std::int64_t next_pause(std::size_t moved) noexcept;
    [[nodiscard]] bool has_work() noexcept;
    void sleep_until_woken() noexcept;

    void add_waiters(int change) noexcept;
    [[nodiscard]] bool wait_for_flush(std::uint32_t number, std::int64_t deadline_ns) noexcept;
    [[nodiscard]] std::int32_t io_code() const noexcept;

    /// Longest wait beyond a deadline for short work: a pass of the poller, the write of a block, `open` rows.
    static constexpr std::int64_t grace_ns = 200 * ns_per_ms;

    const Config& config_;
    WriterInputs& inputs_;
    Recorder& recorder_;
    Poller* const poller_;
    Wakeup& wakeup_;
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

    BackgroundThread stand_in_thread_;
    Wakeup stand_in_wakeup_;
    std::atomic<std::int64_t> handed_over_ns_{0};  ///< when the acting writer handed the collector over; 0: it has it

    // Used by the acting writer only:
    RankFile file_;
    RowBlock unwritten_;               ///< taken from the collector
    std::uint32_t flush_serving_ = 0;  ///< the flush request being served
    std::uint64_t flush_order_ = 0;    ///< pending spans up to this order belong to that request
    Pace pace_;
    std::int64_t worked_ns_ = 0;  ///< when a round had work last

    // Used by the thread that has set `collecting_`: the acting writer, or the stand-in after a handover.
    std::atomic<bool> collecting_{false};
    Collector collector_;
    std::size_t unwritten_bytes_ = 0;  ///< in `unwritten_` at the handover
};

}  // namespace cep
