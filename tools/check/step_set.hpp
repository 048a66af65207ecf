// SPDX-License-Identifier: Apache-2.0
//
// Step sets: which steps a rank, an attempt or a file recorded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cep::tool {

class StepSet {
  public:
    void add(std::int64_t step) {
        if (!steps_.empty() && steps_.back() == step) return;
        steps_.push_back(step);
        if (steps_.size() >= sort_at_) sort();
    }
    /// Most ranks record the same steps: those that were added last are not added again.
    void add(const StepSet& set) {
        const auto count = static_cast<std::ptrdiff_t>(set.steps_.size());
        if (steps_.size() >= set.steps_.size() &&
            std::equal(set.steps_.begin(), set.steps_.end(), steps_.end() - count))
            return;
        steps_.insert(steps_.end(), set.steps_.begin(), set.steps_.end());
        if (steps_.size() >= sort_at_) sort();
    }
    /// Call it after the last step, and before steps().
    void sort() {
        std::sort(steps_.begin(), steps_.end());
        steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
        sort_at_ = std::max(sort_at_, 2 * steps_.size());
    }
    /// Ascending, each once.
    [[nodiscard]] const std::vector<std::int64_t>& steps() const { return steps_; }

  private:
    std::vector<std::int64_t> steps_;  // in the order of their rows, some more than once, until they are sorted
    // A rank that goes back and forth between few steps makes no longer list.
    std::size_t sort_at_ = 1024;
};

}  // namespace cep::tool
