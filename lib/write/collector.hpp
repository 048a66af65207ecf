// SPDX-License-Identifier: Apache-2.0
//
// From the rings to rows: takes records from the trainer's threads, sends those with CUDA events to the poller, gets
// their times back, and formats rows. It touches no file.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "base/counts.hpp"
#include "base/host_clock.hpp"
#include "cuda/device.hpp"
#include "cuda/poller.hpp"
#include "options/options.hpp"
#include "record/recorder.hpp"
#include "record/stride_control.hpp"
#include "write/pending_spans.hpp"
#include "write/row_block.hpp"
#include "write/rows.hpp"
#include "write/run_facts.hpp"
#include "write/writer_inputs.hpp"

namespace cep {

/// One thread at a time uses it; any thread may call totals(). What finds no memory is counted or made up for later.
class Collector {
  public:
    /// A block of so many bytes is worth a write.
    static constexpr std::size_t write_block_bytes = std::size_t{256} * 1024;

    /// Called with a full block: whether to go on.
    using FullBlock = std::function<bool()>;

    /// `device` and `poller` are both null, or neither. Of the file it reads the counts. `stride` is the one that the
    /// trainer uses from its next step on.
    Collector(const Config& config, WriterInputs& inputs, Recorder& recorder, cuda::CudaDevice* device, Poller* poller,
              const RankFile& file, std::atomic<std::int64_t>& stride);
    Collector(const Collector&) = delete;
    Collector& operator=(const Collector&) = delete;

    /// The number of this start, for run and stats rows.
    void set_attempt(std::int64_t attempt) noexcept { facts_.attempt = attempt; }

    /// Makes rows of the times and records that are there now; returns how many. Whenever the block has
    /// write_block_bytes, it asks `take_full_block` whether to go on.
    std::size_t collect(const FullBlock& take_full_block) noexcept;

    [[nodiscard]] const RowBlock& block() const noexcept { return block_; }
    /// Whether the block is full, or its first row has waited long.
    [[nodiscard]] bool is_write_due() const noexcept;
    /// Moves the rows behind those in `to`. If memory runs out, nothing has changed.
    void take_block(RowBlock& to);
    /// Writes the run row once more, before any other row.
    void repeat_run_row() noexcept { run_row_written_ = false; }
    void write_run_row(RowBlock& block) const;
    void write_run_row_if_due() noexcept;
    void write_stats(RowKind kind) noexcept;
    /// Writes a stats row if anything was lost since the last one.
    void write_stats_if_due() noexcept;
    /// Writes a row for each span that is open or waits for its times.
    void write_open_rows() noexcept;

    /// The order of the last span that was sent to the poller, or is yet to be.
    [[nodiscard]] std::uint64_t last_order() const noexcept { return pending_.last_order(); }
    /// Whether the spans up to that order have their rows.
    [[nodiscard]] bool settled(std::uint64_t order) const noexcept { return pending_.settled(order); }
    [[nodiscard]] bool has_pending() const noexcept { return !pending_.empty(); }
    [[nodiscard]] bool has_unsent() const noexcept { return !unsent_.empty(); }
    /// Counts the spans that wait for their times as abandoned.
    void abandon_pending() noexcept;

    /// Adds the calling thread's processor time since `counted_ns`, and sets that.
    void count_own_time(std::int64_t& counted_ns) noexcept;
    [[nodiscard]] Totals totals() const noexcept;

  private:
    std::size_t take_times(const FullBlock& take_full_block) noexcept;
    std::size_t take_records(const FullBlock& take_full_block) noexcept;
    /// False: the block is full and stays so.
    [[nodiscard]] bool has_room(const FullBlock& take_full_block) const {
        return block_.text.size() < write_block_bytes || take_full_block();
    }
    /// Runs `write`, which appends rows. False if memory runs out: the unfinished row is gone then.
    template <class Write>
    bool try_to(Write write) noexcept;
    void write_record();
    void queue_for_poller();
    void send_to_poller() noexcept;
    void write_span(const PendingSpans::Entry& entry, const DeviceTimes& times);
    void begin_rows();
    void append_stats(RowKind kind);
    void ensure_run_row();
    void note_first_row() noexcept;
    void check_system_clock();
    void adjust_stride();
    [[nodiscard]] std::uint64_t formatted_bytes() const noexcept { return taken_bytes_ + block_.text.size(); }

    const Config& config_;
    WriterInputs& inputs_;
    Recorder& recorder_;
    cuda::CudaDevice* const device_;
    Poller* const poller_;
    const RankFile& file_;
    std::atomic<std::int64_t>& stride_;

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
    std::uint64_t taken_bytes_ = 0;     ///< of all blocks that were taken
    std::uint64_t stats_at_bytes_ = 0;  ///< formatted_bytes() at the last stats row
    std::int64_t block_since_ns_ = 0;   ///< when the block got its first row
    std::int64_t clock_read_ns_ = 0;
    std::int64_t clock_step_ns_ = 0;
    Count abandoned_;
    Count dropped_meta_;
    Count lost_;  ///< measurements that found no memory for a row
    Count self_ns_;
};

}  // namespace cep
