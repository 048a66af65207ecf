// SPDX-License-Identifier: Apache-2.0
#include "read/row_reader.hpp"

#include <algorithm>
#include <utility>

namespace cep::tool {

// Rows of a job come in the same order in every step. Behind one that comes several times, such as a reduction in
// buckets, there are a few.
const Row* RowReader::scan(const char* at) {
    if (last_ == nullptr) return nullptr;
    for (RowTemplate* const expected : last_->next) {
        if (expected == nullptr) break;
        const Row* const row = expected->read(at);
        if (row == nullptr) continue;
        last_ = expected;
        ++hits_;
        return row;
    }
    return search(at);
}

const Row* RowReader::search(const char* at) {
    const auto found = templates_.find(RowTemplate::shape_of(at));
    if (found == templates_.end()) return nullptr;
    const Row* const row = found->second->read(at);
    if (row == nullptr) return nullptr;
    follow(*found->second);
    ++hits_;
    return row;
}

// The template that came last is expected first.
void RowReader::follow(RowTemplate& found) {
    if (last_ != nullptr) {
        auto& next = last_->next;
        const auto slot = std::find(next.begin(), next.end() - 1, &found);
        std::move_backward(next.begin(), slot, slot + 1);
        next.front() = &found;
    }
    last_ = &found;
}

const Row* RowReader::parse(std::string_view text) {
    const Row* const row = parser_.parse(text);
    if (row != nullptr) learn(*row);
    return row;
}

void RowReader::learn(const Row& row) {
    if (rows_idle_ > 0) {
        --rows_idle_;
        return;
    }
    std::unique_ptr<RowTemplate> made = RowTemplate::of(row);
    if (made == nullptr) return;
    if (templates_.size() == max_templates) forget();
    follow(*templates_.try_emplace(made->shape(), std::move(made)).first->second);
}

// Rows that nearly all differ in a text, as a time that is written as one, are better parsed each.
void RowReader::forget() {
    constexpr std::uint64_t hits_worth_it = 8 * max_templates;
    constexpr std::uint32_t rows_without = 1U << 16;
    if (hits_ < hits_worth_it) rows_idle_ = rows_without;
    templates_.clear();
    last_ = nullptr;
    hits_ = 0;
}

}  // namespace cep::tool
