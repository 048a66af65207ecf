// SPDX-License-Identifier: Apache-2.0
#include "verdict/deviation.hpp"

#include <algorithm>
#include <cmath>

#include "stats/robust.hpp"
#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

// A low reference holds even if most ranks are slow, such as all of one host of two.
constexpr double usual_quantile = 0.25;

}  // namespace

Deviation::Deviation(const LocalPhase& phase, const PeerGroup& group)
    : group_(group), usual_(quantiles_over_ranks(phase.own_ms, group.ranks, usual_quantile)) {
    find_excess(phase);
    centre();
    find_noise();
}

void Deviation::find_excess(const LocalPhase& phase) {
    excess_.resize(group_.ranks.size() * usual_.size());
    for (std::size_t peer = 0; peer < group_.ranks.size(); ++peer) {
        const std::span<const float> own_ms = phase.own_ms.of_rank(group_.ranks[peer]);
        const std::span<const float> duration_ms = phase.duration_ms.of_rank(group_.ranks[peer]);
        double* const excess_ms = excess_.data() + peer * usual_.size();
        for (std::size_t step = 0; step < usual_.size(); ++step) {
            const double ms = own_ms[step];
            excess_ms[step] = ms - usual_[step];
            contains_waiting_ |= duration_ms[step] > ms * (1 + 1e-6);
        }
    }
}

// The low reference of a step lies below what a usual rank takes; by as much as the usual rank exceeds it.
void Deviation::centre() {
    const std::vector<double> medians = quantiles_over_steps(excess_, usual_.size(), {0.5}).front();
    const double offset_ms = quantile_of(medians, usual_quantile);
    if (is_missing(offset_ms)) return;
    for (double& usual_ms : usual_) usual_ms += offset_ms;
    for (double& ms : excess_) ms -= offset_ms;
    // Of normal values, these two quantiles are 0.8317 standard deviations apart; of few, they are nearer.
    const double ranks = static_cast<double>(medians.size());
    spread_ms_ = (quantile_of(medians, 0.375) - quantile_of(medians, 0.125)) / 0.8317 * (1 + 2 / ranks);
}

void Deviation::find_noise() {
    const std::size_t peers = group_.ranks.size();
    const std::vector<double> medians = quantiles_over_steps(excess_, usual_.size(), {0.5}).front();
    const auto fill_distances = [&](std::size_t peer, std::span<double> row) {
        std::transform(excess_ms(peer).begin(), excess_ms(peer).end(), row.begin(),
                       [median = medians[peer]](double ms) { return std::abs(ms - median); });
    };
    const RankQuantiles distances = quantiles_over_steps(peers, usual_.size(), {0.5, 0.9}, fill_distances);
    std::vector<double> deviations;
    std::vector<double> correlations;
    for (std::size_t peer = 0; peer < peers; ++peer) {
        // Of steps some of which vary more than others, the widest tenth tells more of chance than the median does.
        // (1.645 is the normal quantile of 0.95, beyond which lies a tenth on both sides.)
        deviations.push_back(std::max(normal_consistency * distances[0][peer], distances[1][peer] / 1.645));
        correlations.push_back(lag_correlation(excess_ms(peer), medians[peer], 4 * deviations[peer]));
    }
    // A usual rank: of those whose steps vary least, the median may be one that is slow now and then.
    noise_ms_ = median_of(deviations);
    if (is_missing(noise_ms_)) noise_ms_ = 0;
    double correlation = median_of(correlations);
    if (is_missing(correlation)) correlation = 0;
    correlation = std::clamp(correlation, 0.0, 0.95);
    // Of an autoregressive process of order one (Priestley, Spectral Analysis and Time Series, 5.3.2).
    inflation_ = (1 + correlation) / (1 - correlation);
}

}  // namespace cep::tool
