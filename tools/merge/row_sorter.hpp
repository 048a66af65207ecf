// SPDX-License-Identifier: Apache-2.0
//
// Row sorter: all rows in order, in bounded memory. Rows come as batches, each of which is sorted and becomes a run; in
// the end the runs are merged. The rows of a plain file are not copied: their texts are read again, at their turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "merge/row_batch.hpp"
#include "merge/row_run.hpp"

namespace cep::tool {

class RowSorter {
  public:
    static constexpr std::size_t default_memory_bytes = std::size_t{256} << 20;

    /// What is beyond `memory_bytes` goes to unnamed files in `spill_directory`. At most `threads` batches are
    /// collected at a time.
    RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads = 1);
    ~RowSorter();
    RowSorter(const RowSorter&) = delete;
    RowSorter& operator=(const RowSorter&) = delete;

    /// How many bytes a batch may use before it should be added.
    [[nodiscard]] std::size_t batch_bytes() const { return batch_bytes_; }

    // All of these are thread-safe, and may throw WriteError where they write.

    /// A batch to copy rows into; it may have some already.
    [[nodiscard]] RowBatch take_batch();
    /// A batch of copied rows that is full; or, with a kept input, one of places in it, full or not.
    void add(RowBatch&& batch, int kept_input = -1);
    /// A batch of copied rows that others may go on filling.
    void give_back(RowBatch&& batch);

    /// Keeps a file open for its texts; returns what to add its batches with, or -1 where they must be copied.
    [[nodiscard]] int keep_input(int descriptor);
    /// A batch for places in one file; it is empty.
    [[nodiscard]] RowBatch take_empty_batch();

    /// Emits all rows in order. Call once, when nothing is added any more.
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
    const std::size_t max_inputs_;
    std::mutex mutex_;  // guards what follows
    std::vector<RowRun> runs_;
    std::size_t kept_bytes_ = 0;
    std::vector<RowBatch> unfinished_;
    std::vector<RowBatch> spare_;  // empty ones
    std::shared_ptr<Spill> spill_;
    std::vector<int> inputs_;
};

}  // namespace cep::tool
