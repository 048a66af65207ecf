// SPDX-License-Identifier: Apache-2.0
//
// Row sorter: puts all rows in order, in bounded memory. Rows come in batches. Each batch is sorted and becomes a run;
// finish() merges the runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "merge/spill_file.hpp"

namespace cep::tool {

/// cep-merge(1) says what each section is sorted by.
enum class Section : std::uint32_t { run_rows, step_rows, other_rows, stats_rows };

/// Where a row belongs, and where its text is.
struct RowEntry {
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::int64_t third = 0;
    std::uint64_t index = 0;     // of the row among those of its file that are sorted
    std::uint32_t file = 0;      // rows that are equal in all of the above come in the order of the inputs
    std::uint32_t size = 0;      // of the text
    std::uint32_t offset = 0;    // of the text in its batch
    std::uint32_t run : 29 = 0;  // of the trainer; an index into RunIndex
    std::uint32_t section_bits : 2 = static_cast<std::uint32_t>(Section::step_rows);
    std::uint32_t is_span : 1 = 0;

    static constexpr std::uint32_t max_run = (1U << 29) - 1;

    [[nodiscard]] Section section() const { return static_cast<Section>(section_bits); }

    friend bool operator<(const RowEntry& a, const RowEntry& b) {
        if (a.section_bits != b.section_bits) return a.section_bits < b.section_bits;
        if (a.first != b.first) return a.first < b.first;
        if (a.second != b.second) return a.second < b.second;
        return std::tie(a.third, a.file, a.index) < std::tie(b.third, b.file, b.index);
    }
};
static_assert(sizeof(RowEntry) == 48);

/// Rows that one thread collects.
class RowBatch {
  public:
    RowBatch() = default;
    /// With room for so many bytes of rows of the usual size.
    explicit RowBatch(std::size_t bytes);
    void add(RowEntry entry, std::string_view text) {
        entry.size = static_cast<std::uint32_t>(text.size());
        entry.offset = static_cast<std::uint32_t>(text_.size());
        entries_.push_back(entry);
        text_.append(text);
    }
    void sort() { std::sort(entries_.begin(), entries_.end()); }
    /// Keeps the memory.
    void clear();

    [[nodiscard]] const std::vector<RowEntry>& entries() const { return entries_; }
    [[nodiscard]] std::string_view text_of(const RowEntry& entry) const {
        return std::string_view(text_).substr(entry.offset, entry.size);
    }
    [[nodiscard]] std::size_t used_bytes() const { return text_.size() + entries_.size() * sizeof(RowEntry); }

  private:
    std::string text_;
    std::vector<RowEntry> entries_;
};

using EmitRow = std::function<void(const RowEntry&, std::string_view text)>;

/// Rows in order: a sorted batch, or a piece of a file, in which the entry of each row is in front of its text.
struct RowRun {
    RowEntry first{};
    RowEntry last{};
    RowBatch batch{};  // empty where there is a file
    std::shared_ptr<SpillFile> file{};
    std::uint64_t begin = 0;  // in the file
    std::uint64_t end = 0;
};

class RowSorter {
  public:
    static constexpr std::size_t default_memory_bytes = std::size_t{256} << 20;

    /// What exceeds `memory_bytes` goes to a file without a name in `spill_directory`. `threads` threads collect
    /// batches.
    RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads = 1);
    RowSorter(const RowSorter&) = delete;
    RowSorter& operator=(const RowSorter&) = delete;

    /// How many bytes a batch may use before it should be added.
    [[nodiscard]] std::size_t batch_bytes() const { return batch_bytes_; }

    // These are thread-safe, and throw WriteError where they cannot write to disk.

    /// A batch to add rows to. It may contain rows already.
    [[nodiscard]] RowBatch take_batch();
    /// Adds a full batch.
    void add(RowBatch&& batch);
    /// Returns a batch that is not full, for others to fill.
    void give_back(RowBatch&& batch);

    /// Emits all rows in order. Call once, after the last add(). Throws ReadError.
    void finish(const EmitRow& emit);

  private:
    void add_run(RowRun&& run);
    [[nodiscard]] bool take_room(std::size_t bytes);
    [[nodiscard]] RowRun write_to_disk(const RowBatch& sorted);
    [[nodiscard]] std::size_t window_bytes(std::size_t windows) const;
    void merge_into_fewer();

    const std::size_t batch_bytes_;
    const std::size_t kept_limit_bytes_;
    const std::size_t windows_limit_bytes_;
    const std::string spill_directory_;
    std::mutex mutex_;  // guards what follows, up to the next
    std::vector<RowRun> runs_;
    std::size_t kept_bytes_ = 0;
    std::vector<RowBatch> batches_;  // that nobody fills
    std::mutex spill_mutex_;         // guards what follows
    std::shared_ptr<SpillFile> spill_;
};

/// The rows of one file on their way to the sorter.
class RowCollector {
  public:
    /// `file`: its index among the inputs.
    RowCollector(RowSorter& sorter, std::size_t file) : sorter_(sorter), file_(static_cast<std::uint32_t>(file)) {}

    /// Sets the entry's file and index, and adds it.
    void add(RowEntry& entry, std::string_view text);
    /// Call it after the last row.
    void end();

  private:
    RowSorter& sorter_;
    const std::uint32_t file_;
    std::uint64_t rows_ = 0;
    std::optional<RowBatch> batch_;  // nothing before the first row
};

}  // namespace cep::tool
