// SPDX-License-Identifier: Apache-2.0
//
// Even choice: some of very many values, from the first to the last.
#pragma once

#include <cstddef>
#include <vector>

namespace cep::tool {

/// Every n-th value of those that were counted before, at most as many as it may have.
class EvenChoice {
  public:
    void count() { ++count_; }
    [[nodiscard]] std::size_t counted() const { return count_; }
    void take(double value, std::size_t most) {
        if (seen_++ % (count_ / most + 1) == 0) values_.push_back(value);
    }
    [[nodiscard]] const std::vector<double>& values() const { return values_; }

  private:
    std::size_t count_ = 0;
    std::size_t seen_ = 0;
    std::vector<double> values_;
};

}  // namespace cep::tool
