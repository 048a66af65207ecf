// SPDX-License-Identifier: Apache-2.0
//
// Disjoint sets with union and find: things are joined one with another, and what was joined is one set.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace cep::tool {

class DisjointSets {
  public:
    explicit DisjointSets(std::size_t count) : parents_(count) {
        std::iota(parents_.begin(), parents_.end(), std::size_t{});
    }
    /// The one that stands for all that it is joined with.
    [[nodiscard]] std::size_t find(std::size_t i) {
        while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
        return i;
    }
    /// Returns the one that stands for both.
    std::size_t join(std::size_t a, std::size_t b) { return parents_[find(b)] = find(a); }

  private:
    std::vector<std::size_t> parents_;
};

}  // namespace cep::tool
