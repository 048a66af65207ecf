// SPDX-License-Identifier: Apache-2.0
//
// Change points: where a series changes to another level and stays there.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cep::tool {

/// A lasting change of a series: from `at` on, up to the next change.
struct ChangePoint {
    std::size_t at = 0;
    double before = 0;  // median of the segment before
    double after = 0;   // median of the segment from `at` on
};

struct ChangeRules {
    double least_change = 0.02;   ///< relative
    double noise_multiple = 5;    ///< of the standard error of the difference of two segments' means
    double false_alarms = 0.001;  ///< chance that noise, however long it lasts, looks like a change anywhere
    std::size_t least_steps = 8;  ///< in a segment; what is shorter is an event
};

/// Change points of positive values, ascending. Relative to the values' own scale and noise: on logarithms with
/// outliers cut off, by binary segmentation (Scott and Knott, Biometrics 1974) with the noise from neighbours'
/// differences, so that the changes themselves do not add to it.
[[nodiscard]] std::vector<ChangePoint> find_change_points(std::span<const double> values,
                                                          const ChangeRules& rules = {});

}  // namespace cep::tool
