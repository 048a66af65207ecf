// SPDX-License-Identifier: Apache-2.0
#include "merge/row_batch.hpp"

#include <algorithm>

namespace cep::tool {

void RowBatch::reserve_rows(std::size_t bytes) {
    constexpr std::size_t usual_row_bytes = 200;
    const std::size_t rows = bytes / (usual_row_bytes + sizeof(RowEntry));
    text_.reserve(rows * usual_row_bytes);
    entries_.reserve(rows);
}

void RowBatch::clear() {
    text_.clear();
    text_in_order_.clear();
    entries_.clear();
}

// Rows of a rank file are nearly in order: the span of a step comes after the spans inside it. Insertion sort is fast
// for such rows and slow for others, so it stops after a bounded number of moves.
bool RowBatch::sort_by_insertion() {
    constexpr std::size_t moves_per_row = 16;
    std::size_t moves_left = moves_per_row * entries_.size();
    for (std::size_t i = 1; i < entries_.size(); ++i) {
        if (entries_[i - 1] < entries_[i]) continue;
        const RowEntry moved = entries_[i];
        std::size_t hole = i;
        for (; hole > 0 && moves_left > 0 && moved < entries_[hole - 1]; --hole, --moves_left)
            entries_[hole] = entries_[hole - 1];
        entries_[hole] = moved;
        if (moves_left == 0) return false;
    }
    return true;
}

void RowBatch::sort() {
    if (!sort_by_insertion()) std::sort(entries_.begin(), entries_.end());
}

std::string_view RowBatch::texts_in_order() {
    text_in_order_.clear();
    text_in_order_.reserve(text_.size());
    for (const RowEntry& entry : entries_) text_in_order_.append(text_, entry.offset, entry.size);
    return text_in_order_;
}

}  // namespace cep::tool
