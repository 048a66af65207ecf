// SPDX-License-Identifier: Apache-2.0
//
// Row pattern: a row that was parsed once, as a model of rows that differ from it in the digits of some numbers only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "read/row.hpp"
#include "read/row_layout.hpp"

namespace cep::tool {

/// A number in the text of a row.
struct RowNumber {
    std::string key;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool differs = false;  // from row to row, as far as known; else it is text like any other

    friend bool operator==(const RowNumber& a, const RowNumber& b) {
        return a.key == b.key && a.begin == b.begin && a.end == b.end;
    }
};

/// Where the values of a row are in its text.
struct RowPlaces {
    std::vector<RowNumber> numbers;
    std::string_view name;
    std::string_view group;
};

/// Finds the places in rows that RowParser has read.
class PlaceFinder {
  public:
    PlaceFinder();
    ~PlaceFinder();
    PlaceFinder(const PlaceFinder&) = delete;
    PlaceFinder& operator=(const PlaceFinder&) = delete;

    /// Nothing for a row that RowParser is to read each time: one with escapes, repeated keys, values of a wrong type,
    /// or blanks around it, a very long one, and a run, stats or unknown row.
    [[nodiscard]] std::optional<RowPlaces> find(const Row& row);

  private:
    struct Parser;
    std::unique_ptr<Parser> parser_;
};

class RowPattern {
  public:
    static constexpr std::size_t max_bytes = 640;  // of a row
    static_assert(RowLayout::readable_bytes(max_bytes) <= RowParser::padding_bytes);

    /// nullptr where the row's numbers are not plain enough for a layout, or the row is too large.
    [[nodiscard]] static std::unique_ptr<RowPattern> of(const Row& row, const RowPlaces& places);
    RowPattern(const RowPattern&) = delete;
    RowPattern& operator=(const RowPattern&) = delete;

    /// Takes in a row that differs in digits only: these are then known to differ. False for any other row.
    bool include(std::string_view text, const RowPlaces& places);
    /// The row at `at`, if it is like this one. The result is valid until the next call.
    CEP_INLINE const Row* read(const char* at) {
        if (!layout_->read(at)) return nullptr;
        row_.text = {at, text_.size()};
        row_.name = {at + name_, row_.name.size()};
        row_.group = {at + group_, row_.group.size()};
        return &row_;
    }
    [[nodiscard]] std::size_t size() const { return text_.size(); }

    std::array<RowPattern*, 4> next{};  // of rows that came behind one of this pattern

  private:
    RowPattern(const Row& row, const RowPlaces& places);
    bool make_layout();

    Row row_;           // what all rows have in common, and the numbers of the last one
    std::string text_;  // of the row that it was made of
    std::size_t name_ = 0;
    std::size_t group_ = 0;
    std::vector<RowNumber> numbers_;
    std::optional<RowLayout> layout_;
};

}  // namespace cep::tool
