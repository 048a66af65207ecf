// SPDX-License-Identifier: Apache-2.0
#include "deviation.hpp"

#include <algorithm>
#include <cmath>

#include "robust.hpp"

namespace cep::analysis {
namespace {

// A low reference holds even if most ranks are slow, such as all of one host of two.
constexpr double usual_quantile = 0.25;

// Of steps some of which vary more than others, the widest tenth tells more of chance than the median does. (1.645 is
// the normal quantile of 0.95, beyond which lies a tenth on both sides.)
double heavy_deviation(const std::vector<double>& values) {
    const std::vector<double> distances = distances_from_median(values);
    return std::max(normal_consistency * median_of(distances), quantile_of(distances, 0.9) / 1.645);
}

}  // namespace

Deviation::Deviation(const LocalPhase& phase, const PeerGroup& group, std::size_t steps)
    : phase_(phase), group_(group), usual_(steps), excess_(group.ranks.size()) {
    find_excess(phase.own_ms, steps);
    centre();
    find_noise();
}

void Deviation::find_excess(const StepMatrix& ms, std::size_t steps) {
    for (std::vector<double>& excess : excess_) excess.reserve(steps);
    std::vector<double> of_step;
    for (std::size_t step = 0; step < steps; ++step) {
        ms.of_step(step, group_.ranks, of_step);
        usual_[step] = quantile_of(of_step, usual_quantile);
        for (std::size_t peer = 0; peer < of_step.size(); ++peer) excess_[peer].push_back(of_step[peer] - usual_[step]);
        for (const std::size_t rank : group_.ranks)
            contains_waiting_ |= phase_.duration_ms.at(rank, step) > ms.at(rank, step) * (1 + 1e-6);
    }
}

// The low reference of a step lies below what a usual rank takes; by as much as the usual rank exceeds it.
void Deviation::centre() {
    std::vector<double> medians;
    for (const std::vector<double>& excess : excess_) medians.push_back(median_of(excess));
    const double offset_ms = quantile_of(medians, usual_quantile);
    if (is_missing(offset_ms)) return;
    for (double& usual_ms : usual_) usual_ms += offset_ms;
    for (std::vector<double>& excess : excess_)
        for (double& ms : excess) ms -= offset_ms;
    // Of normal values, these two quantiles are 0.8317 standard deviations apart; of few, they are nearer.
    const double ranks = static_cast<double>(medians.size());
    spread_ms_ = (quantile_of(medians, 0.375) - quantile_of(medians, 0.125)) / 0.8317 * (1 + 2 / ranks);
}

void Deviation::find_noise() {
    std::vector<double> deviations;
    std::vector<double> correlations;
    for (const std::vector<double>& excess : excess_) {
        const double deviation_ms = heavy_deviation(excess);
        deviations.push_back(deviation_ms);
        correlations.push_back(lag_correlation(excess, 4 * deviation_ms));
    }
    // A usual rank: of those whose steps vary least, the median may be one that is slow now and then.
    noise_ms_ = quantile_of(deviations, 0.5);
    if (is_missing(noise_ms_)) noise_ms_ = 0;
    double correlation = median_of(correlations);
    if (is_missing(correlation)) correlation = 0;
    correlation = std::clamp(correlation, 0.0, 0.95);
    // Of an autoregressive process of order one (Priestley, Spectral Analysis and Time Series, 5.3.2).
    inflation_ = (1 + correlation) / (1 - correlation);
}

}  // namespace cep::analysis
