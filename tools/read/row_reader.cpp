// SPDX-License-Identifier: Apache-2.0
#include "read/row_reader.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace cep::tool {

const Row* RowReader::search(const char* at) {
    const void* const newline = std::memchr(at, '\n', RowPattern::max_bytes + 2);
    if (newline == nullptr) return nullptr;
    auto size = static_cast<std::size_t>(static_cast<const char*>(newline) - at);
    if (size > 0 && at[size - 1] == '\r') --size;
    if (size > RowPattern::max_bytes) return nullptr;
    for (RowPattern* const pattern : by_size_[size]) {
        const Row* const row = pattern->read(at);
        if (row == nullptr) continue;
        follow(*pattern);
        ++hits_;
        return row;
    }
    return nullptr;
}

// The pattern that came last is expected first.
void RowReader::follow(RowPattern& pattern) {
    if (last_ != nullptr) {
        auto& next = last_->next;
        const auto found = std::find(next.begin(), next.end() - 1, &pattern);
        std::move_backward(next.begin(), found, found + 1);
        next.front() = &pattern;
    }
    last_ = &pattern;
}

const Row* RowReader::parse(std::string_view text) {
    const Row* const row = parser_.parse(text);
    if (row == nullptr) return nullptr;
    if (const std::optional<RowPlaces> places = finder_.find(*row)) learn(*row, *places);
    return row;
}

const Row* RowReader::parse_in_place(std::string_view text) {
    const Row* const row = parser_.parse(text);
    if (row == nullptr) return nullptr;
    const std::optional<RowPlaces> places = finder_.find(*row);
    if (!places) return nullptr;
    learn(*row, *places);
    row_ = *row;
    row_.name = places->name;
    row_.group = places->group;
    return &row_;
}

void RowReader::learn(const Row& row, const RowPlaces& places) {
    if constexpr (!RowLayout::usable) return;
    if (rows_idle_ > 0) {
        --rows_idle_;
        return;
    }
    if (row.text.size() > RowPattern::max_bytes) return;
    for (RowPattern* const pattern : by_size_[row.text.size()])
        if (pattern->include(row.text, places)) return follow(*pattern);
    std::unique_ptr<RowPattern> pattern = RowPattern::of(row, places);
    if (pattern == nullptr) return;
    if (patterns_.size() == max_patterns) forget();
    by_size_[pattern->size()].push_back(pattern.get());
    patterns_.push_back(std::move(pattern));
    follow(*patterns_.back());
}

// Rows that nearly all differ in a text, as a time that is written as one, are better parsed each.
void RowReader::forget() {
    constexpr std::uint64_t hits_worth_it = 8 * max_patterns;
    constexpr std::uint32_t rows_without = 1U << 16;
    if (hits_ < hits_worth_it) rows_idle_ = rows_without;
    patterns_.clear();
    for (auto& patterns : by_size_) patterns.clear();
    last_ = nullptr;
    hits_ = 0;
}

}  // namespace cep::tool
