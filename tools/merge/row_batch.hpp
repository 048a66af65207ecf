// SPDX-License-Identifier: Apache-2.0
//
// Row batch: rows that one thread collects for a sorter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "merge/plain_file.hpp"

namespace cep::tool {

/// cep-merge(1) says what each section is sorted by.
enum class Section : std::uint32_t { run_rows, step_rows, other_rows, stats_rows };

/// Merging holds one of these for each row, and not the row: keep it small.
struct RowEntry {
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::int64_t third = 0;
    std::uint64_t position = 0;  // of the text in its file, decompressed
    std::uint32_t file = 0;      // rows that are equal in all of the above come in the order of the inputs
    std::uint32_t size = 0;      // of the text
    std::uint32_t offset = 0;    // of a copied text in its batch; else its text_fingerprint()
    std::uint32_t run : 29 = 0;  // of the trainer; an index into RunIndex
    std::uint32_t section_bits : 2 = static_cast<std::uint32_t>(Section::step_rows);
    std::uint32_t is_span : 1 = 0;

    static constexpr std::uint32_t max_run = (1U << 29) - 1;

    [[nodiscard]] Section section() const { return static_cast<Section>(section_bits); }

    friend bool operator<(const RowEntry& a, const RowEntry& b) {
        if (a.section_bits != b.section_bits) return a.section_bits < b.section_bits;
        if (a.first != b.first) return a.first < b.first;
        if (a.second != b.second) return a.second < b.second;
        return std::tie(a.third, a.file, a.position) < std::tie(b.third, b.file, b.position);
    }
};
static_assert(sizeof(RowEntry) == 48);

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
