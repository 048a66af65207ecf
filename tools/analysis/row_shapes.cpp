// SPDX-License-Identifier: Apache-2.0
#include "row_shapes.hpp"

namespace cep::analysis {

// Rows of a job come in the same order in every step. Behind one that comes several times, such as a reduction in
// buckets, there are two.
const char* RowShapes::read(const char* at, Row& row) {
    if (last_ != none) {
        for (const std::uint32_t expected : shapes_[last_].next) {
            if (expected == none) continue;
            const char* const end = shapes_[expected].shape.read(at, row, with_sse_);
            if (end == nullptr) continue;
            last_ = expected;
            ++hits_;
            return end;
        }
    }
    return search(at, row);
}

const char* RowShapes::search(const char* at, Row& row) {
    if (rows_idle_ > 0) {
        --rows_idle_;
        return nullptr;
    }
    for (std::uint32_t i = 0; i < shapes_.size(); ++i) {
        const char* const end = shapes_[i].shape.read(at, row, with_sse_);
        if (end == nullptr) continue;
        follow(i);
        ++hits_;
        return end;
    }
    return nullptr;
}

void RowShapes::learn(const Row& row, std::span<const RowNumber> numbers) {
    if (rows_idle_ > 0 || row.text.size() > RowShape::max_bytes || numbers.size() > RowShape::max_numbers) return;
    const std::uint64_t hash = RowShape::hash_of(row.text, numbers);
    if (const std::uint32_t found = find(row, hash, numbers); found != none) return follow(found);
    if (shapes_.size() == max_shapes) forget();
    shapes_.push_back({RowShape(row, numbers), hash, {none, none}});
    follow(static_cast<std::uint32_t>(shapes_.size() - 1));
}

std::uint32_t RowShapes::find(const Row& row, std::uint64_t hash, std::span<const RowNumber> numbers) {
    for (std::uint32_t i = 0; i < shapes_.size(); ++i)
        if (shapes_[i].hash == hash && shapes_[i].shape.include(row.text, numbers)) return i;
    return none;
}

void RowShapes::follow(std::uint32_t shape) {
    if (last_ != none) {
        auto& next = shapes_[last_].next;
        if (next[0] != shape && next[1] != shape) next[next[0] != none] = shape;
    }
    last_ = shape;
}

// Rows that nearly all differ in a text, as a time that is written as one, are better read without shapes.
void RowShapes::forget() {
    constexpr std::uint64_t hits_worth_it = 8 * max_shapes;
    constexpr std::uint32_t rows_without = 1U << 16;
    if (hits_ < hits_worth_it) rows_idle_ = rows_without;
    shapes_.clear();
    last_ = none;
    hits_ = 0;
}

}  // namespace cep::analysis
