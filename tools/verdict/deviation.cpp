// SPDX-License-Identifier: Apache-2.0
#include "verdict/deviation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "ledger/table_quantiles.hpp"
#include "stats/robust.hpp"
#include "verdict/straggler.hpp"

namespace cep::tool {
namespace {

// A low reference holds for ranks of one population even if many of them are a little slow.
constexpr double usual_quantile = 0.25;
// Two populations are told apart by their levels in usual steps, or in the tenth in which the fast ones are most ahead.
constexpr double typical_quantile = 0.5;
constexpr double window_quantile = 0.1;
// Healthy devices of one type differ by up to 5 % to either side: of so few ranks, a gap says nothing.
constexpr double usual_difference = 0.1;
constexpr std::size_t least_fast = 3;       // ranks, to take the noise from them alone
constexpr double wide_quantile = 0.9;       // of distances from the median
constexpr double normal_tenth = 1.645;      // beyond which, on both sides, lies a tenth of normal values
constexpr double least_seen = 0.1;          // of the variance of a series that is as short as its correlation lasts
constexpr double outlier_deviations = 4;    // what is beyond says nothing of the correlation
constexpr double most_correlation = 0.995;  // no series is long enough to know more
constexpr double nearly_each = 0.97;        // of all steps have to be above the next figure
constexpr double least_of_mean = 0.25;      // of the mean of all steps

// Where some steps vary more than others, the widest tenth tells more of chance than the median does.
double deviation_about(double median_ms, std::vector<double> ms) {
    for (double& one : ms) one = std::abs(one - median_ms);
    const std::vector<double> found = quantiles_of(ms, {0.5, wide_quantile});
    return std::max(normal_consistency * found[0], found[1] / normal_tenth);
}

// The larger of two figures: that of an autoregressive process of order one (Priestley, Spectral Analysis and Time
// Series, 5.3.2) with this correlation of neighbours, corrected for its bias in short series (Kendall, Biometrika
// 1954); and the variance of means of blocks over that of single steps, which sees what a slow drift adds to fast
// noise.
double inflation_of(std::span<const double> ms, double centre_ms, double limit_ms) {
    const auto steps = static_cast<double>(ms.size());
    double correlation = lag_correlation(ms, centre_ms, limit_ms);
    if (is_missing(correlation)) return 1;
    correlation = std::clamp(correlation + (1 + 3 * correlation) / steps, 0.0, most_correlation);
    double inflation = (1 + correlation) / (1 - correlation);
    for (const std::size_t blocks : {8U, 32U}) {
        const std::size_t length = ms.size() / blocks;
        if (length < 2) break;
        double of_blocks = 0;
        double of_steps = 0;
        for (std::size_t block = 0; block < blocks; ++block) {
            double sum = 0;
            for (const double one : ms.subspan(block * length, length)) {
                const double distance = is_missing(one) ? 0 : std::clamp(one - centre_ms, -limit_ms, limit_ms);
                sum += distance;
                of_steps += distance * distance;
            }
            of_blocks += sum * sum;
        }
        if (of_steps > 0) inflation = std::max(inflation, of_blocks / of_steps);
    }
    return inflation;
}

}  // namespace

Deviation::Deviation(const LocalPhase& phase, const StepMatrix& own_ms, const PeerGroup& group, double floor_ms,
                     ChosenSteps steps)
    : group_(group) {
    fast_.resize(group.ranks.size());
    std::iota(fast_.begin(), fast_.end(), std::size_t{0});
    constexpr std::array quantiles = {usual_quantile, typical_quantile};
    std::vector<std::vector<double>> of_all = quantiles_over_ranks(own_ms, fast_, quantiles);
    usual_ = std::move(of_all[1]);
    find_excess(own_ms);
    if (floor_ms > 0) find_fast(floor_ms);
    usual_ = is_split() ? quantiles_over_ranks(own_ms, fast_, typical_quantile) : std::move(of_all[0]);
    find_excess(own_ms);
    if (steps == ChosenSteps::of_device) leave_out_late_hosts(phase);
    centre();
    find_noise();
}

void Deviation::find_excess(const StepMatrix& own_ms) {
    excess_.resize(group_.ranks.size() * usual_.size());
    double* excess_ms = excess_.data();
    for (std::size_t peer = 0; peer < group_.ranks.size(); ++peer) {
        const std::span<const float> of_peer_ms = own_ms.of_rank(peer);
        for (std::size_t step = 0; step < usual_.size(); ++step) *excess_ms++ = of_peer_ms[step] - usual_[step];
    }
}

void Deviation::find_fast(double floor_ms) {
    const double usual_ms = typical_ms(usual_);
    const RankQuantiles levels = quantiles_over_steps(excess_, usual_.size(), {typical_quantile, window_quantile});
    for (const std::vector<double>& of_ranks : levels) {
        const std::size_t below = count_below_gap(of_ranks, floor_ms, std::max(floor_ms, usual_difference * usual_ms));
        if (below >= of_ranks.size()) continue;
        const auto level = [&of_ranks](std::size_t peer) {
            return is_missing(of_ranks[peer]) ? std::numeric_limits<double>::infinity() : of_ranks[peer];
        };
        std::stable_sort(fast_.begin(), fast_.end(), [&](auto a, auto b) { return level(a) < level(b); });
        fast_.resize(below);
        std::sort(fast_.begin(), fast_.end());
        return;
    }
}

// What a host adds says nothing of how much the time of devices varies.
void Deviation::leave_out_late_hosts(const LocalPhase& phase) {
    const std::size_t steps = usual_.size();
    for (std::size_t peer = 0; peer < group_.ranks.size(); ++peer)
        for (std::size_t step = 0; step < steps; ++step)
            if (phase.is_launch_bound[group_.ranks[peer] * steps + step] != 0) excess_[peer * steps + step] = NAN;
}

std::size_t Deviation::peers_with(std::size_t steps) const {
    return static_cast<std::size_t>(std::count_if(
        fast_.begin(), fast_.end(), [&](std::size_t peer) { return count_values(excess_ms(peer)) >= steps; }));
}

// The low reference of a step lies below what a usual rank takes; by as much as the usual rank exceeds it.
void Deviation::centre() {
    medians_ = quantiles_over_steps(excess_, usual_.size(), {0.5}).front();
    std::vector<double> of_fast;
    for (const std::size_t peer : fast_) of_fast.push_back(medians_[peer]);
    const double offset_ms = quantile_of(of_fast, is_split() ? typical_quantile : usual_quantile);
    if (is_missing(offset_ms)) return;
    for (double& usual_ms : usual_) usual_ms += offset_ms;
    for (std::vector<double>* const all : {&excess_, &medians_})
        for (double& ms : *all) ms -= offset_ms;
    std::erase_if(of_fast, is_missing);
    spread_ms_ = of_fast.size() < 2 ? 0 : spread_of(std::move(of_fast));
}

double Deviation::spread_ms(std::size_t steps) const {
    if (fast_.size() < 2) return 0;
    const std::size_t segments = std::max<std::size_t>(1, usual_.size() / std::max<std::size_t>(1, steps));
    if (segments == 1) return spread_ms_;
    const std::size_t length = usual_.size() / segments;
    std::vector<double> medians;
    for (const std::size_t peer : fast_)
        for (std::size_t segment = 0; segment < segments; ++segment)
            medians.push_back(median_of(excess_ms(peer).subspan(segment * length, length)));
    std::erase_if(medians, is_missing);
    return medians.size() < 2 ? spread_ms_ : std::max(spread_ms_, spread_of(std::move(medians)));
}

// The noise of a population is that of its ranks. A single rank deviates from itself by nothing.
std::vector<std::size_t> Deviation::ranks_of_noise() const {
    if (fast_.size() >= least_fast || !is_split()) return fast_;
    std::vector<std::size_t> ranks;
    for (std::size_t peer = 0; peer < group_.ranks.size(); ++peer)
        if (fast_.size() > 1 || peer != fast_.front()) ranks.push_back(peer);
    return ranks;
}

void Deviation::find_noise() {
    const std::vector<std::size_t> peers = ranks_of_noise();
    std::vector<double> deviations;
    std::vector<double> inflations;
    for (const std::size_t peer : peers) {
        const std::span<const double> ms = excess_ms(peer);
        deviations.push_back(deviation_about(medians_[peer], {ms.begin(), ms.end()}));
        inflations.push_back(inflation_of(ms, medians_[peer], outlier_deviations * deviations.back()));
    }
    // A usual rank: of those whose steps vary least, the median may be one that is slow now and then.
    noise_ms_ = median_of(deviations);
    if (is_missing(noise_ms_)) noise_ms_ = 0;
    inflation_ = median_of(inflations);
    if (is_missing(inflation_)) inflation_ = 1;
    double values = 0;
    for (const std::size_t peer : peers) values += static_cast<double>(count_values(excess_ms(peer)));
    // A series that is about as long as its correlation lasts does not show how far it strays.
    const double seen = 1 - inflation_ * static_cast<double>(peers.size()) / std::max(1.0, values);
    noise_ms_ /= std::sqrt(std::max(seen, least_seen));
    independent_values_ = values / inflation_;
}

// The mean, with outliers cut off, over its error, by Student's distribution with one degree of freedom less than there
// are independent values (Zwiers and von Storch, Journal of Climate 1995). Correlation and variance are those of the
// rank's own steps about their mean: one that is slow by different amounts in stretches has few independent values, but
// may exceed its peers in all of them.
double Deviation::chance_of_level(std::size_t peer) const {
    std::vector<double> ms(excess_ms(peer).begin(), excess_ms(peer).end());
    const double limit_ms = outlier_deviations * deviation_about(medians_[peer], ms);
    for (double& one : ms) one = std::clamp(one, medians_[peer] - limit_ms, medians_[peer] + limit_ms);
    const double mean_ms = mean_of(ms);
    const auto values = static_cast<double>(count_values(ms));
    const double independent = values / inflation_of(ms, mean_ms, limit_ms);
    if (independent < static_cast<double>(StragglerRules::least_steps)) return 1;
    if (values < static_cast<double>(StragglerRules::lasting_steps)) return 1;
    if (mean_ms < usual_difference * typical_ms(usual_)) return 1;
    const auto agree = std::count_if(ms.begin(), ms.end(), [=](double one) { return one > least_of_mean * mean_ms; });
    if (static_cast<double>(agree) < nearly_each * values) return 1;
    double squares = 0;
    for (const double one : ms)
        if (!is_missing(one)) squares += (one - mean_ms) * (one - mean_ms);
    const double error_ms = std::sqrt(squares / values / (independent - 1));
    return student_tail(mean_ms / std::max(error_ms, 1e-9), independent - 1);
}

}  // namespace cep::tool
