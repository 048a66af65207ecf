// SPDX-License-Identifier: Apache-2.0
//
// Step numbers: the steps of a series. All ranks of a job usually have the same, and then share them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace cep::tool {

class StepNumbers {
  public:
    using Numbers = std::vector<std::int64_t>;

    StepNumbers() : numbers_(std::make_shared<Numbers>()) {}
    StepNumbers(std::initializer_list<std::int64_t> numbers) : numbers_(std::make_shared<Numbers>(numbers)) {}
    StepNumbers(const StepNumbers& other) : StepNumbers(Numbers(other.all())) {}
    StepNumbers(StepNumbers&&) noexcept = default;
    StepNumbers& operator=(StepNumbers other) noexcept {
        numbers_.swap(other.numbers_);
        return *this;
    }
    ~StepNumbers() = default;
    explicit StepNumbers(Numbers numbers) : numbers_(std::make_shared<Numbers>(std::move(numbers))) {}

    void push_back(std::int64_t number) { numbers_->push_back(number); }
    void shrink_to_fit() { numbers_->shrink_to_fit(); }
    /// Takes the memory of `last` if they are the same, else becomes the last. None of those that share it may change.
    void share(std::shared_ptr<Numbers>& last) {
        if (last != nullptr && *last == *numbers_) numbers_ = last;
        last = numbers_;
    }

    [[nodiscard]] const Numbers& all() const { return *numbers_; }
    [[nodiscard]] bool empty() const { return numbers_->empty(); }
    [[nodiscard]] std::size_t size() const { return numbers_->size(); }
    [[nodiscard]] std::int64_t operator[](std::size_t i) const { return (*numbers_)[i]; }
    [[nodiscard]] std::int64_t back() const { return numbers_->back(); }
    [[nodiscard]] Numbers::const_iterator begin() const { return numbers_->begin(); }
    [[nodiscard]] Numbers::const_iterator end() const { return numbers_->end(); }
    friend bool operator==(const StepNumbers& a, const StepNumbers& b) {
        return a.numbers_ == b.numbers_ || a.all() == b.all();
    }

  private:
    std::shared_ptr<Numbers> numbers_;
};

}  // namespace cep::tool
