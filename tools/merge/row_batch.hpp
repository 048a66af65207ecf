// SPDX-License-Identifier: Apache-2.0
//
// Row batch: rows that one thread collects for a sorter.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "merge/plain_file.hpp"
#include "merge/row_entry.hpp"

namespace cep::tool {

class RowBatch {
  public:
    /// Reserves this many bytes for references to texts, or for rows of the usual size with their texts.
    void reserve_references(std::size_t bytes) { entries_.reserve(bytes / sizeof(RowEntry)); }
    void reserve_rows(std::size_t bytes);
    /// Copies the text.
    void add(RowEntry entry, std::string_view text) {
        entry.size = static_cast<std::uint32_t>(text.size());
        entry.offset = static_cast<std::uint32_t>(text_.size());
        entries_.push_back(entry);
        text_.append(text);
    }
    /// The text stays in its file, at `entry.position`.
    void add_reference(RowEntry entry, std::string_view text) {
        entry.size = static_cast<std::uint32_t>(text.size());
        entry.offset = text_fingerprint(text);
        entries_.push_back(entry);
    }

    void sort();
    /// The texts in the order of the entries, concatenated. Valid until the batch changes.
    [[nodiscard]] std::string_view texts_in_order();
    /// Keeps the memory.
    void clear();

    [[nodiscard]] const std::vector<RowEntry>& entries() const { return entries_; }
    [[nodiscard]] const char* texts() const { return text_.data(); }
    [[nodiscard]] std::size_t used_bytes() const { return text_.size() + entries_.size() * sizeof(RowEntry); }
    [[nodiscard]] std::size_t room_bytes() const { return text_.capacity() + entries_.capacity() * sizeof(RowEntry); }

  private:
    bool sort_by_insertion();

    std::string text_;
    std::string text_in_order_;
    std::vector<RowEntry> entries_;
};

}  // namespace cep::tool
