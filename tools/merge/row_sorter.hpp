// SPDX-License-Identifier: Apache-2.0
//
// Row sorter: puts all rows in order, in bounded memory. Rows come in batches. Each batch is sorted and becomes a run;
// finish() merges the runs. The rows of a plain file are not copied: their texts are read again when they are emitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "merge/plain_file.hpp"
#include "merge/row_batch.hpp"
#include "merge/spill_file.hpp"
#include "read/file_report.hpp"

namespace cep::tool {

using EmitRow = std::function<void(const RowEntry&, std::string_view text)>;

/// The runs that are on disk: entries and texts in separate files, so that each run has both in one piece.
struct Spill {
    explicit Spill(const std::string& directory) : entries(directory), texts(directory) {}
    SpillFile entries;
    SpillFile texts;
};

/// Rows in order.
struct RowRun {
    RowEntry first;
    RowEntry last;
    std::size_t rows = 0;
    const PlainFile* file = nullptr;  // has the texts, each at its entry's position; nullptr: batch or spill has them
    RowBatch batch;                   // empty where there is a spill
    std::shared_ptr<Spill> spill;     // has the run from here on:
    std::uint64_t entries_begin = 0;
    std::uint64_t texts_begin = 0;

    /// The batch is sorted and not empty.
    RowRun(RowBatch&& sorted, const PlainFile* plain_file);
    /// Writes the sorted batch to disk, and clears it. Thread-safe.
    RowRun(RowBatch& sorted, const PlainFile* plain_file, std::shared_ptr<Spill> to);
    RowRun(const RowEntry& first_entry, std::shared_ptr<Spill> to) : first(first_entry), spill(std::move(to)) {}

    /// Whether it is read piece by piece, which takes memory.
    [[nodiscard]] bool needs_window() const { return spill != nullptr || file != nullptr; }
};

/// Orders the runs by their first rows. Returns how many runs that need a window are read at the same time, at most,
/// when all are merged.
[[nodiscard]] std::size_t order_and_count_windows(std::vector<RowRun>& runs);

/// Emits the rows of `count` runs, which are ordered by their first rows. A run that is not in memory takes about
/// `window_bytes`, from its first row to its last. Throws ReadError.
void merge_runs(const RowRun* runs, std::size_t count, std::size_t window_bytes, const EmitRow& emit);

/// The same, into one run.
[[nodiscard]] RowRun merge_into_one(const RowRun* runs, std::size_t count, std::size_t window_bytes,
                                    const std::shared_ptr<Spill>& spill);

class RowSorter {
  public:
    static constexpr std::size_t default_memory_bytes = std::size_t{256} << 20;

    /// What exceeds `memory_bytes` goes to unnamed files in `spill_directory`. `threads` threads collect batches.
    RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads = 1);
    RowSorter(const RowSorter&) = delete;
    RowSorter& operator=(const RowSorter&) = delete;

    /// How many bytes a batch may use before it should be added.
    [[nodiscard]] std::size_t batch_bytes() const { return batch_bytes_; }

    // These are thread-safe, and throw WriteError where they cannot write to disk.

    /// A batch to copy rows into. It may contain rows already.
    [[nodiscard]] RowBatch take_batch();
    /// An empty batch, for references to one file.
    [[nodiscard]] RowBatch take_empty_batch();
    /// Adds a full batch of copied rows; or, with `file`, a batch of references to that file.
    void add(RowBatch&& batch, const PlainFile* file = nullptr);
    /// Returns a batch of copied rows that is not full, for others to fill.
    void give_back(RowBatch&& batch);
    /// Keeps a file open, to read its texts again. nullptr: too many are open, so its rows must be copied.
    [[nodiscard]] const PlainFile* keep_file(int descriptor, const std::string& path);

    /// Emits all rows in order. Call once, after the last add(). Throws ReadError where a kept file was changed.
    void finish(const EmitRow& emit);

  private:
    [[nodiscard]] bool take_from(std::vector<RowBatch>& batches, RowBatch& batch);
    void add_run(RowRun&& run);
    [[nodiscard]] bool take_room(std::size_t bytes);
    [[nodiscard]] std::shared_ptr<Spill> spill();
    [[nodiscard]] std::size_t window_bytes(std::size_t windows) const;
    void merge_into_fewer();

    const std::size_t batch_bytes_;
    const std::size_t kept_limit_bytes_;
    const std::size_t windows_limit_bytes_;
    const std::string spill_directory_;
    const std::size_t max_files_;
    std::mutex mutex_;  // guards what follows
    std::vector<RowRun> runs_;
    std::size_t kept_bytes_ = 0;
    std::vector<RowBatch> unfinished_;
    std::vector<RowBatch> spare_;  // empty ones
    std::shared_ptr<Spill> spill_;
    std::vector<std::unique_ptr<PlainFile>> files_;
};

class RowCollector {
  public:
    /// `index` is that of the file among the inputs.
    RowCollector(RowSorter& sorter, std::string path, std::size_t index)
        : sorter_(sorter), path_(std::move(path)), index_(static_cast<std::uint32_t>(index)) {}

    /// Where the rows that follow are.
    void begin_block(const BlockLocation& location);
    /// Sets the entry's file and position, and adds it. `text` is inside the block.
    void add(RowEntry& entry, std::string_view text);
    /// Call it after the last row.
    void end();

  private:
    [[nodiscard]] bool copies() const { return *file_ == nullptr; }

    RowSorter& sorter_;
    const std::string path_;
    const std::uint32_t index_;
    BlockLocation block_;
    std::optional<const PlainFile*> file_;  // nullptr: rows are copied; nothing before the first block
    std::optional<RowBatch> batch_;         // nothing before the first row
};

}  // namespace cep::tool
