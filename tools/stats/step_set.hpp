// SPDX-License-Identifier: Apache-2.0
//
// Step sets: which steps a rank, an attempt or a job recorded.
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
        const bool ascends = sorted_ == steps_.size() && (steps_.empty() || steps_.back() < step);
        steps_.push_back(step);
        sorted_ += ascends;
        sort_if_long();
    }
    /// Ranks usually have the same steps as the one before: that is seen in no time.
    void add(const std::vector<std::int64_t>& ascending) {
        const auto count = static_cast<std::ptrdiff_t>(ascending.size());
        if (ascending.size() <= steps_.size() && std::equal(ascending.begin(), ascending.end(), steps_.end() - count))
            return;
        const auto end = steps_.begin() + static_cast<std::ptrdiff_t>(sorted_);
        const auto first = std::lower_bound(steps_.begin(), end, ascending.front());
        if (std::includes(first, end, ascending.begin(), ascending.end())) return;
        steps_.insert(steps_.end(), ascending.begin(), ascending.end());
        sort_if_long();
    }
    /// Call it after the last step, and before steps().
    void sort() {
        if (sorted_ == steps_.size()) return;
        std::sort(steps_.begin(), steps_.end());
        steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
        sorted_ = steps_.size();
    }
    /// Ascending, each once.
    [[nodiscard]] const std::vector<std::int64_t>& steps() const { return steps_; }

  private:
    // A rank that goes back and forth between few steps makes no longer list.
    void sort_if_long() {
        if (steps_.size() > 2 * sorted_) sort();
    }

    std::vector<std::int64_t> steps_;
    std::size_t sorted_ = 0;  // the first of them, each once; the others in the order in which they came
};

}  // namespace cep::tool
