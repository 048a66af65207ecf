// SPDX-License-Identifier: Apache-2.0
//
// Row sorter: an external merge sort of rows in bounded memory.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

class RowSorter {
  public:
    using Emit = std::function<void(const SortedRow&, std::string_view)>;

    static constexpr std::size_t default_memory_bytes = std::size_t{256} << 20;

    /// Rows beyond `memory_bytes` go to unnamed files in `spill_directory`.
    RowSorter(std::size_t memory_bytes, std::string spill_directory);
    ~RowSorter();
    RowSorter(const RowSorter&) = delete;
    RowSorter& operator=(const RowSorter&) = delete;

    /// Throws WriteError if a spill file cannot be written.
    void add(const SortedRow& row, std::string_view text);
    /// Emits all rows in order. Call once.
    void finish(const Emit& emit);

  private:
    struct Entry {
        SortedRow row;
        std::size_t offset;
        std::size_t size;
    };
    class SpillFile;
    class SpillCursor;

    void sort_entries();
    void spill();
    void merge(std::size_t first, std::size_t count, const Emit& emit);

    std::size_t memory_bytes_;
    std::string spill_directory_;
    std::string text_;
    std::vector<Entry> entries_;
    std::vector<std::unique_ptr<SpillFile>> spills_;
};

}  // namespace cep::analysis
