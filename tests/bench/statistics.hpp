// SPDX-License-Identifier: Apache-2.0
//
// The statistics of the benchmarks: medians with quartiles, and ratios of paired samples with a 95 % interval.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace cep::bench {

using Samples = std::vector<double>;

/// A median with two bounds: the quartiles, or the ends of its 95 % interval.
struct Spread {
    double median;
    double low;
    double high;
};

/// Sorted samples at a fraction of the way from the first to the last.
[[nodiscard]] inline double quantile(const Samples& sorted, double fraction) {
    const double position = fraction * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

[[nodiscard]] inline Spread quartiles(Samples samples) {
    std::sort(samples.begin(), samples.end());
    return {quantile(samples, 0.5), quantile(samples, 0.25), quantile(samples, 0.75)};
}

/// The median and its 95 % interval by order statistics, which assume nothing about the distribution of the samples.
[[nodiscard]] inline Spread median_interval(Samples samples) {
    std::sort(samples.begin(), samples.end());
    const double half_width = 0.98 / std::sqrt(static_cast<double>(samples.size()));  // 1.96 / 2 standard deviations
    return {quantile(samples, 0.5), quantile(samples, std::max(0.0, 0.5 - half_width)),
            quantile(samples, std::min(1.0, 0.5 + half_width))};
}

/// samples[i] / peers[i]. Both are from round i, so that a disturbance of the round affects both.
[[nodiscard]] inline Samples paired_ratios(const Samples& samples, const Samples& peers) {
    Samples ratios(std::min(samples.size(), peers.size()));
    for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = samples[i] / peers[i];
    return ratios;
}

/// The heading of a table whose rows print_row() prints.
inline void print_heading(const std::string& title, const char* unit) {
    std::printf("\n%-58s %9s %9s %9s   %s\n", title.c_str(), unit, "q1", "q3", "ratio [95 % interval]");
}

/// One row: the samples and, if there is a peer in the same run, their ratio to it.
inline void print_row(const std::string& name, const Samples& samples, const Samples* peer = nullptr,
                      const std::string& peer_name = "") {
    if (samples.empty()) {
        std::printf("%-58s %9s\n", name.c_str(), "none");
        return;
    }
    const Spread spread = quartiles(samples);
    std::printf("%-58s %9.1f %9.1f %9.1f", name.c_str(), spread.median, spread.low, spread.high);
    if (peer != nullptr && !peer->empty() && quartiles(*peer).median > 0) {
        const Spread ratio = median_interval(paired_ratios(samples, *peer));
        std::printf("   %.3f [%.3f, %.3f] x %s", ratio.median, ratio.low, ratio.high, peer_name.c_str());
    }
    std::printf("\n");
}

}  // namespace cep::bench
