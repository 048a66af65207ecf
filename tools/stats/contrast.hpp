// SPDX-License-Identifier: Apache-2.0
//
// Contrast: a series that has another level from a position on, between two positions, or after a ramp from one to the
// other; and whether that is more than chance, however much neighbouring values resemble each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cep::tool {

enum class ContrastKind : std::uint8_t { cut, burst, ramp };

/// Where the level is another one: from `first` on; before `last` only; with all of the change from `last` on.
struct Contrast {
    ContrastKind kind = ContrastKind::cut;
    std::size_t first = 0;
    std::size_t last = 0;  // of a cut the end of the series

    /// How much of the change a position has.
    [[nodiscard]] double share(std::size_t at) const {
        if (at < first) return 0;
        if (kind == ContrastKind::cut) return 1;
        if (kind == ContrastKind::burst) return at < last ? 1 : 0;
        return at >= last ? 1 : static_cast<double>(at - first + 1) / static_cast<double>(last - first + 1);
    }
};

/// By least squares.
struct FittedContrast {
    Contrast contrast;
    double change = 0;  // from one level to the other
    double mean_share = 0;
    double freedom = 0;  // Σ (share − mean share)²: independent values of variance 1 would give `change` 1 / freedom
    double explained = 0;  // squares of the series that it explains
};

/// The best of each kind; none where the series has too few values. No level has fewer than `least` values.
[[nodiscard]] std::vector<FittedContrast> find_contrasts(std::span<const double> values, std::size_t least);

/// The change over what chance makes of the best of all positions, in 1 of 1 / `false_alarms` series without a change:
/// above 1, it is there. The noise is that of what the contrast leaves, with its long-run variance, by Student's
/// distribution with as many degrees of freedom as the series has independent values. Or the same of the jumps at its
/// edges, where that is more; then a level has 3 values at least.
[[nodiscard]] double significance(std::span<const double> values, const FittedContrast& fitted, double false_alarms);

}  // namespace cep::tool
