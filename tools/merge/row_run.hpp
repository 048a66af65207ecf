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

#include "merge/row_batch.hpp"
#include "merge/row_entry.hpp"
#include "merge/spill_file.hpp"

namespace cep::tool {

using EmitRow = std::function<void(const RowEntry&, std::string_view text)>;

/// The runs that are on disk: entries apart from texts, so that each run has both in one piece.
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
    int input = -1;                // where the texts are, each at its entry's position; -1: in batch or spill
    RowBatch batch;                // empty where there is a spill
    std::shared_ptr<Spill> spill;  // from here on:
    std::uint64_t entries_begin = 0;
    std::uint64_t texts_begin = 0;

    /// Of a batch that is sorted and not empty.
    RowRun(RowBatch&& sorted, int input_descriptor);
    /// Writes a sorted batch, and clears it. Thread-safe.
    RowRun(RowBatch& sorted, int input_descriptor, std::shared_ptr<Spill> to);
    RowRun(const RowEntry& first_entry, std::shared_ptr<Spill> to) : first(first_entry), spill(std::move(to)) {}

    /// Reading it takes memory of its own, and it is read piece by piece.
    [[nodiscard]] bool needs_window() const { return spill != nullptr || input >= 0; }
};

/// How many runs that need a window are read at a time, at most, when all are merged. Orders the runs by their begin.
[[nodiscard]] std::size_t order_and_count_windows(std::vector<RowRun>& runs);

/// Emits the rows of `count` runs, which are ordered by their begin. A run is read from its first row to its last and
/// held no longer, with about `window_bytes` of memory where it is not in memory.
void merge_runs(const RowRun* runs, std::size_t count, std::size_t window_bytes, const EmitRow& emit);

/// The same, into one run.
[[nodiscard]] RowRun merge_into_one(const RowRun* runs, std::size_t count, std::size_t window_bytes,
                                    const std::shared_ptr<Spill>& spill);

}  // namespace cep::tool
