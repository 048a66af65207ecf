// SPDX-License-Identifier: Apache-2.0
//
// Group slope: by how much one value grows with another within groups, whatever the groups differ in.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace cep::tool {

/// By least squares, about the means of each group.
class GroupSlope {
  public:
    struct Pair {
        double x;
        double y;
    };

    void add(std::span<const Pair> group) {
        const auto size = static_cast<double>(group.size());
        Pair mean{0, 0};
        for (const Pair& one : group) {
            mean.x += one.x / size;
            mean.y += one.y / size;
        }
        for (const Pair& one : group) {
            xx_ += (one.x - mean.x) * (one.x - mean.x);
            xy_ += (one.x - mean.x) * (one.y - mean.y);
            yy_ += (one.y - mean.y) * (one.y - mean.y);
        }
        freedom_ += size - 1;
    }
    void add(const GroupSlope& other) {
        xx_ += other.xx_;
        xy_ += other.xy_;
        yy_ += other.yy_;
        freedom_ += other.freedom_;
    }

    /// Pairs, less one of each group.
    [[nodiscard]] double freedom() const { return freedom_; }
    /// 0 where x does not vary.
    [[nodiscard]] double slope() const { return xx_ > 0 ? xy_ / xx_ : 0; }
    /// By how many standard errors it is more than `other`; 0 where x does not vary.
    [[nodiscard]] double errors(double other = 0) const {
        if (!(xx_ > 0)) return 0;
        const double unexplained = std::max(1e-12, yy_ - slope() * xy_);  // of y squared: less is rounding
        return (slope() - other) / std::sqrt(unexplained / freedom_ / xx_);
    }

  private:
    double xx_ = 0;
    double xy_ = 0;
    double yy_ = 0;
    double freedom_ = 0;
};

}  // namespace cep::tool
