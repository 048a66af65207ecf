// SPDX-License-Identifier: Apache-2.0
//
// Intervals of time: unions, and what two unions have in common.
#pragma once

#include <cstdint>
#include <vector>

namespace cep::kernels {

struct Interval {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
};

/// Disjoint intervals in order.
class IntervalUnion {
  public:
    /// Intervals come ordered by their begin.
    void add(Interval interval);
    [[nodiscard]] std::int64_t length_ns() const;
    /// Of what lies between two times.
    [[nodiscard]] std::int64_t length_within_ns(Interval window) const;
    [[nodiscard]] std::int64_t shared_ns(const IntervalUnion& with) const;

  private:
    std::vector<Interval> intervals_;
};

}  // namespace cep::kernels
