// SPDX-License-Identifier: Apache-2.0
//
// Row runs: rows in order, in memory or on disk, and their merge into one order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "merge/plain_file.hpp"
#include "merge/row_batch.hpp"
#include "merge/spill_file.hpp"

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

}  // namespace cep::tool
