// SPDX-License-Identifier: Apache-2.0
//
// Row reader: RowParser, with a memory of the rows that it has parsed. Rows of a job look alike, so nearly all are read
// by the layout of one before. Both agree on every row to the last bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "read/row.hpp"
#include "read/row_pattern.hpp"

namespace cep::tool {

/// One a thread. Each row is valid until the next call.
class RowReader {
  public:
    /// Reads the row that begins at `at` if it is like one that was parsed, up to and with its last brace; else returns
    /// nullptr. A NUL must end the bytes, and RowParser::padding_bytes must be readable behind it.
    const Row* scan(const char* at);
    /// Parses one JSON object as RowParser does.
    const Row* parse(std::string_view text);
    /// The same, for a row whose strings are to stay valid as long as the text. Returns nullptr where they would not.
    const Row* parse_in_place(std::string_view text);
    [[nodiscard]] const std::string& why() const { return parser_.why(); }

  private:
    static constexpr std::size_t max_patterns = 2048;

    const Row* search(const char* at);
    void follow(RowPattern& pattern);
    void learn(const Row& row, const RowPlaces& places);
    void forget();

    RowParser parser_;
    PlaceFinder finder_;
    Row row_;  // of parse_in_place()
    std::vector<std::unique_ptr<RowPattern>> patterns_;
    std::array<std::vector<RowPattern*>, RowPattern::max_bytes + 1> by_size_;
    RowPattern* last_ = nullptr;
    std::uint64_t hits_ = 0;       // since patterns were last forgotten
    std::uint32_t rows_idle_ = 0;  // rows that are not learnt
};

// Rows of a job come in the same order in every step. Behind one that comes several times, such as a reduction in
// buckets, there are a few.
CEP_INLINE const Row* RowReader::scan(const char* at) {
    if (last_ == nullptr) return nullptr;
    for (RowPattern* const expected : last_->next) {
        if (expected == nullptr) break;
        const Row* const row = expected->read(at);
        if (row == nullptr) continue;
        last_ = expected;
        ++hits_;
        return row;
    }
    return search(at);
}

}  // namespace cep::tool
