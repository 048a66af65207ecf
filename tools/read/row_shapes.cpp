// SPDX-License-Identifier: Apache-2.0
#include "read/row_shapes.hpp"

#include <algorithm>

namespace cep::tool {

const Row* RowShapes::search(const char* at) {
    if (rows_idle_ > 0) {
        --rows_idle_;
        return nullptr;
    }
    if (last_ != nullptr)
        for (Known* const expected : last_->next) {
            const Row* const row = expected != nullptr ? expected->shape.read_by_number(at) : nullptr;
            if (row != nullptr) return hit(*expected, row);
        }
    for (const auto& known : shapes_)
        if (const Row* const row = known->shape.read_by_layout(at); row != nullptr) return hit(*known, row);
    for (const auto& known : shapes_)
        if (const Row* const row = known->shape.read_by_number(at); row != nullptr) return hit(*known, row);
    return nullptr;
}

const Row* RowShapes::hit(Known& shape, const Row* row) {
    follow(shape);
    ++hits_;
    return row;
}

void RowShapes::learn(const Row& row, std::span<const RowNumber> numbers) {
    if (rows_idle_ > 0 || row.text.size() > RowShape::max_bytes || numbers.size() > RowShape::max_numbers) return;
    const std::uint64_t hash = RowShape::hash_of(row.text, numbers);
    if (Known* const found = find(row, hash, numbers); found != nullptr) return follow(*found);
    if (shapes_.size() == max_shapes) forget();
    shapes_.push_back(std::make_unique<Known>(row, numbers, hash));
    follow(*shapes_.back());
}

RowShapes::Known* RowShapes::find(const Row& row, std::uint64_t hash, std::span<const RowNumber> numbers) {
    for (const auto& known : shapes_)
        if (known->hash == hash && known->shape.include(row.text, numbers)) return known.get();
    return nullptr;
}

void RowShapes::follow(Known& shape) {
    if (last_ != nullptr) {
        auto& next = last_->next;
        if (std::find(next.begin(), next.end(), &shape) == next.end()) {
            const auto free = std::find(next.begin(), next.end(), nullptr);
            *(free != next.end() ? free : free - 1) = &shape;
        }
    }
    last_ = &shape;
}

// Rows that nearly all differ in a text, as a time that is written as one, are better read without shapes.
void RowShapes::forget() {
    constexpr std::uint64_t hits_worth_it = 8 * max_shapes;
    constexpr std::uint32_t rows_without = 1U << 16;
    if (hits_ < hits_worth_it) rows_idle_ = rows_without;
    shapes_.clear();
    last_ = nullptr;
    hits_ = 0;
}

}  // namespace cep::tool
