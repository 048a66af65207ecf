// SPDX-License-Identifier: Apache-2.0
//
// Row sorter: an external merge sort of rows in bounded memory.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace cep::analysis {

/// The place of a row in a merged file. What each section sorts by is in cep-merge(1).
struct SortKey {
    enum Section : std::int64_t { run_rows, step_rows, other_rows, stats_rows };

    std::int64_t section = step_rows;
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::int64_t third = 0;
    std::uint64_t file = 0;  // then the order of the inputs
    std::uint64_t line = 0;

    friend auto operator<=>(const SortKey&, const SortKey&) = default;
};

struct SortedRow {
    SortKey key;
    std::int64_t rank = 0;
    std::int64_t run_start_ns = 0;  // orders the runs of a rank
    std::int64_t attempt = 0;
    std::uint64_t is_span = 0;
};

/// Some rows in memory. One thread collects them.
class RowBatch {
  public:
    /// Makes room for rows of the usual size.
    void reserve(std::size_t bytes);
    void add(const SortedRow& row, std::string_view text) {
        entries_.push_back({row, text_.size(), text.size()});
        text_.append(text);
    }
    void sort();
    /// Keeps the room.
    void clear();
    [[nodiscard]] bool empty() const { return entries_.empty(); }
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] const SortedRow& row(std::size_t i) const { return entries_[i].row; }
    [[nodiscard]] std::string_view text(std::size_t i) const {
        return {text_.data() + entries_[i].offset, entries_[i].size};
    }
    [[nodiscard]] std::size_t used_bytes() const { return text_.size() + entries_.size() * sizeof(Entry); }

  private:
    bool sort_by_insertion();

    struct Entry {
        SortedRow row;
        std::size_t offset;
        std::size_t size;
    };
    std::string text_;
    std::vector<Entry> entries_;
};

/// Takes batches from any number of threads, and gives all rows back in order.
class RowSorter {
  public:
    using Emit = std::function<void(const SortedRow&, std::string_view)>;

    static constexpr std::size_t default_memory_bytes = std::size_t{256} << 20;

    /// Rows beyond `memory_bytes` go to unnamed files in `spill_directory`. At most `threads` batches are collected at
    /// a time.
    RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads = 1);
    ~RowSorter();
    RowSorter(const RowSorter&) = delete;
    RowSorter& operator=(const RowSorter&) = delete;

    /// How many bytes a batch may use before it should be added.
    [[nodiscard]] std::size_t batch_bytes() const { return batch_bytes_; }
    /// A batch to collect rows in; it may have some already. Thread-safe.
    [[nodiscard]] RowBatch take_batch();
    /// A batch that is full. Thread-safe. Throws WriteError if a spill file cannot be written.
    void add(RowBatch&& batch);
    /// A batch that others may go on filling. Thread-safe.
    void give_back(RowBatch&& batch);
    /// Emits all rows in order. Call once.
    void finish(const Emit& emit);

  private:
    class SpillFile;
    class Cursor;
    class BatchCursor;
    class SpillCursor;
    using Cursors = std::vector<std::unique_ptr<Cursor>>;

    void spill();
    [[nodiscard]] Cursors spill_cursors() const;
    [[nodiscard]] Cursors batch_cursors() const;
    static void merge(Cursors cursors, const Emit& emit);

    std::size_t batch_bytes_;
    std::size_t kept_limit_bytes_;
    std::string spill_directory_;
    std::mutex mutex_;  // guards what follows
    std::vector<RowBatch> batches_;
    std::size_t kept_bytes_ = 0;
    std::vector<RowBatch> unfinished_;
    std::vector<RowBatch> spare_;  // empty ones
    std::vector<std::unique_ptr<SpillFile>> spills_;
};

}  // namespace cep::analysis
