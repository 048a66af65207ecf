// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cep {

enum class RowKind : std::uint8_t {
    measurement,  ///< a span, counter or mark: counted when written and when lost
    bookkeeping,  ///< a row about the profiler itself: run, stats, open
    closing,      ///< the last stats row
};

/// Rows that wait to be written to the file, each a whole line.
struct RowBlock {
    struct Row {
        std::size_t end;  ///< offset after its newline
        RowKind kind;
    };
    std::string text;
    std::vector<Row> rows;

    /// Makes the text appended since the last row one row.
    void finish_row(RowKind kind) { rows.push_back({text.size(), kind}); }
    [[nodiscard]] bool empty() const noexcept { return rows.empty(); }
    [[nodiscard]] std::uint64_t measurements() const noexcept {
        std::uint64_t count = 0;
        for (const Row& row : rows) count += row.kind == RowKind::measurement;
        return count;
    }
    /// Removes the text after the last whole row: a row that could not be finished.
    void drop_unfinished_row() noexcept { text.resize(rows.empty() ? 0 : rows.back().end); }
    void erase_front(std::size_t count) {
        if (count == 0) return;
        const std::size_t bytes = rows[count - 1].end;
        text.erase(0, bytes);
        rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
        for (Row& row : rows) row.end -= bytes;
    }
    void erase_last() noexcept {
        rows.pop_back();
        drop_unfinished_row();
    }
    /// Moves the rows of another block behind these. If memory runs out, nothing has changed.
    void append(RowBlock& more) {
        if (empty()) return std::swap(*this, more);
        const std::size_t offset = text.size();
        rows.reserve(rows.size() + more.rows.size());
        text += more.text;
        for (const Row& row : more.rows) rows.push_back({offset + row.end, row.kind});
        more.clear();
    }
    void clear() noexcept {
        text.clear();
        rows.clear();
    }
};

}  // namespace cep
