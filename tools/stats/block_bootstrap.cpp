// SPDX-License-Identifier: Apache-2.0
#include "stats/block_bootstrap.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/hash.hpp"
#include "stats/quantiles.hpp"
#include "stats/robust.hpp"
#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

using Season = MeanBootstrap::Season;

std::vector<double> centered(std::span<const double> values) {
    const double mean = mean_of(values);
    std::vector<double> result(values.begin(), values.end());
    for (double& value : result) value -= mean;
    return result;
}

/// `values`: around 0. The sum is divided by the number of all of them.
double autocovariance(std::span<const double> values, std::size_t lag) {
    double sum = 0;
    for (std::size_t i = lag; i < values.size(); ++i) sum += values[i] * values[i - lag];
    return sum / static_cast<double>(values.size());
}

/// The variance of the mean of circular blocks, times their length: Bartlett's window over the circular
/// autocovariances.
double block_variance(std::span<const double> values, std::size_t block) {
    const auto length = static_cast<double>(block);
    double sum = autocovariance(values, 0);
    for (std::size_t lag = 1; lag < block; ++lag)
        sum += 2 * (1 - static_cast<double>(lag) / length) *
               (autocovariance(values, lag) + autocovariance(values, values.size() - lag));
    return std::max(sum, 0.0);
}

/// What slow correlation adds that a block is too short to keep: the long-run variance by prewhitening with a
/// first-order autoregression (Andrews and Monahan, "An improved heteroskedasticity and autocorrelation consistent
/// covariance matrix estimator", Econometrica 60(4), 1992). Its coefficient is as much too small as Kendall found
/// ("Note on bias in the estimation of autocorrelation", Biometrika 41, 1954).
double prewhitened_variance(std::span<const double> values, std::size_t block) {
    constexpr double most = 0.97;
    const auto size = static_cast<double>(values.size());
    const double variance = autocovariance(values, 0);
    if (values.size() < 5 || variance <= 0) return 0;
    const double found = autocovariance(values, 1) / variance;
    const double phi = std::min(found + (1 + 3 * found) / size, most);
    if (phi <= 0) return 0;
    std::vector<double> innovations;
    for (std::size_t i = 1; i < values.size(); ++i) innovations.push_back(values[i] - phi * values[i - 1]);
    return block_variance(centered(innovations), block) / ((1 - phi) * (1 - phi));
}

/// Takes the season out of values around 0: how many steps with a checkpoint there are is no chance.
Season remove_season(std::span<double> values) {
    constexpr double clearly = 4;  // standard deviations
    std::vector<std::int64_t> indices(values.size());
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    const double scale = std::abs(*std::max_element(values.begin(), values.end()));
    const auto period = find_period(indices, values, std::max(clearly * robust_deviation(values), 1e-9 * scale));
    if (!period || period->larger <= period->usual) return {};
    std::array<double, 2> sums{};
    std::array<double, 2> counts{};
    const auto is_large = [&](std::size_t i) { return indices[i] % period->length == period->remainder ? 1U : 0U; };
    for (std::size_t i = 0; i < values.size(); ++i) {
        sums[is_large(i)] += values[i];
        ++counts[is_large(i)];
    }
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= sums[is_large(i)] / counts[is_large(i)];
    const auto length = static_cast<std::size_t>(period->length);
    return {sums[1] / counts[1] - sums[0] / counts[0],
            static_cast<double>(values.size() % length) / static_cast<double>(length)};
}

double least_positive(std::span<const double> values) {
    double least = *std::max_element(values.begin(), values.end());
    for (const double value : values)
        if (value > 0) least = std::min(least, value);
    return least;
}

/// The p-value of a difference from 0 that has this standard deviation.
double two_sided_p(double difference, double deviation, double freedom) {
    if (difference == 0) return 1;
    return deviation > 0 ? 2 * student_tail(difference / deviation, freedom) : 0;
}

// Vigna's SplitMix64.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    /// Below `end`.
    std::size_t below(std::size_t end) { return static_cast<std::size_t>((next() >> 32) * end >> 32); }
    bool has_chance(double chance) { return static_cast<double>(next() >> 32) < chance * 0x1p32; }

  private:
    std::uint64_t next() { return mix_bits(state_ += 0x9e3779b97f4a7c15); }

    std::uint64_t state_;
};

}  // namespace

// Politis and White, "Automatic block-length selection for the dependent bootstrap", Econometric Reviews 23(1), 2004,
// with the correction of Patton, Politis and White, Econometric Reviews 28(4), 2009: of circular blocks.
double best_block(std::span<const double> values) {
    const std::vector<double> series = centered(values);
    const double variance = autocovariance(series, 0);
    const auto size = static_cast<double>(series.size());
    if (series.size() < 4 || variance <= 0) return 1;
    const auto quiet_lags = static_cast<std::size_t>(std::max(5.0, std::ceil(std::sqrt(std::log10(size)))));
    const std::size_t most =
        std::min(series.size() - 1, static_cast<std::size_t>(std::ceil(std::sqrt(size))) + quiet_lags);
    const double noise = 2 * std::sqrt(std::log10(size) / size) * variance;
    std::vector<double> covariances = {variance};
    std::size_t last_loud = 0;  // the first lag behind which so many are quiet
    for (std::size_t lag = 1; lag <= most && lag <= last_loud + quiet_lags; ++lag) {
        covariances.push_back(autocovariance(series, lag));
        if (std::abs(covariances.back()) >= noise) last_loud = lag;
    }
    const std::size_t window = std::min(2 * std::max<std::size_t>(last_loud, 1), most);
    double long_run = variance;
    double slope = 0;
    for (std::size_t lag = 1; lag <= window; ++lag) {
        const double covariance = lag < covariances.size() ? covariances[lag] : autocovariance(series, lag);
        const double share = static_cast<double>(lag) / static_cast<double>(window);
        const double weight = 2 * std::min(1.0, 2 * (1 - share));  // the flat-top window, on both sides
        long_run += weight * covariance;
        slope += weight * static_cast<double>(lag) * covariance;
    }
    if (long_run <= 0) return 1;
    const double longest = std::ceil(std::min(3 * std::sqrt(size), size / 3));
    return std::clamp(std::cbrt(1.5 * slope * slope / (long_run * long_run) * size), 1.0, longest);
}

namespace {

/// The cube root, the order of the best length, is for correlations too weak to be found.
std::size_t block_length(std::span<const double> series) {
    const auto longest = std::max<std::size_t>(series.size() / MeanBootstrap::least_blocks, 1);
    const double length = std::max(best_block(series), std::cbrt(static_cast<double>(series.size())));
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(length)), 1, longest);
}

/// `series`: values around 0.
MeanVariance variance_by_blocks(std::span<const double> series, std::size_t block) {
    const auto size = static_cast<double>(series.size());
    const auto length = static_cast<double>(block);
    const double of_blocks = block_variance(series, block);
    const double long_run = std::max(of_blocks, prewhitened_variance(series, block));
    // Blocks around the mean of all of them vary less than they do around the true one.
    const double unbiased = size > length ? size / (size - length) : 1;
    MeanVariance found;
    found.widening = of_blocks > 0 ? std::sqrt(long_run / of_blocks * unbiased) : 1;
    found.variance = long_run * unbiased / size;
    const double variance = autocovariance(series, 0);
    found.correlation_time = variance > 0 ? std::max(1.0, long_run / variance) : 1;
    double weights = 1;
    for (std::size_t lag = 1; lag < block; ++lag) {
        const double weight = 1 - static_cast<double>(lag) / length;
        weights += 2 * weight * weight;
    }
    found.freedom = std::max(1.0, size / weights - 1);
    return found;
}

}  // namespace

MeanVariance variance_of_mean(std::span<const double> values) {
    const std::vector<double> series = centered(values);
    return variance_by_blocks(series, block_length(series));
}

MeanBootstrap::MeanBootstrap(std::span<const double> values, std::size_t block, std::uint64_t seed)
    : mean_(mean_of(values)) {
    std::vector<double> series = centered(values);
    const Season season = remove_season(series);
    const auto size = static_cast<double>(values.size());
    const auto longest = std::max<std::size_t>(values.size() / least_blocks, 1);
    block_ = block > 0 ? std::min(block, longest) : block_length(series);
    of_mean_ = variance_by_blocks(series, block_);
    const double chance = season.excess / size;  // of one large value more or less
    of_mean_.variance += chance * chance * season.fraction * (1 - season.fraction);
    if (mean_ > 0) resample(series, least_positive(values) / (2 * size), season, seed);
}

void MeanBootstrap::resample(std::span<const double> series, double least, const Season& season, std::uint64_t seed) {
    const std::size_t size = series.size();
    std::vector<double> sums(size + block_ + 1);  // of the first values, which follow the last ones again
    for (std::size_t i = 0; i < size + block_; ++i) sums[i + 1] = sums[i] + series[i % size];
    Random random(seed);
    deviations_.reserve(resamples);
    while (deviations_.size() < resamples) {
        double sum = season.excess * ((random.has_chance(season.fraction) ? 1 : 0) - season.fraction);
        for (std::size_t drawn = 0; drawn < size; drawn += block_) {
            const std::size_t first = random.below(size);
            sum += sums[first + std::min(block_, size - drawn)] - sums[first];
        }
        const double mean = std::max(mean_ + sum / static_cast<double>(size), least);
        deviations_.push_back(of_mean_.widening * std::log(mean / mean_));
    }
}

namespace {

/// How far the logarithm of a mean, or of a ratio of means, may be from the one that was found: its 95 % interval has
/// the shape of the resamples, and Student's quantile instead of the normal one.
struct LogSpread {
    double below = 0;  // standard deviations
    double above = 0;
    double freedom = 1;

    LogSpread(std::span<const double> deviations, double of_freedom) : freedom(of_freedom) {
        const std::vector<double> ends = quantiles_of(deviations, {interval_alpha / 2, 1 - interval_alpha / 2});
        below = std::max(0.0, -ends[0] / normal_quantile);
        above = std::max(0.0, ends[1] / normal_quantile);
    }
    [[nodiscard]] ConfidenceInterval around(double logarithm) const {
        const double quantile = student_quantile(interval_alpha / 2, freedom);
        return {std::exp(logarithm - quantile * below), std::exp(logarithm + quantile * above)};
    }
    /// The p-value of the logarithm being 0.
    [[nodiscard]] double p(double logarithm) const {
        return two_sided_p(std::abs(logarithm), logarithm > 0 ? below : above, freedom);
    }
};

/// Welch and Satterthwaite's degrees of freedom of a sum of two variances.
double joint_freedom(double a, double freedom_a, double b, double freedom_b) {
    return a + b > 0 ? (a + b) * (a + b) / (a * a / freedom_a + b * b / freedom_b) : freedom_a + freedom_b;
}

double relative_variance(const MeanBootstrap& series) {
    return series.variance() / (series.mean() * series.mean());
}

}  // namespace

MeanChange compare_means(const MeanBootstrap& before, const MeanBootstrap& after, double factor) {
    if (before.mean() <= 0 || after.mean() <= 0) {
        MeanChange none;
        const double difference = after.mean() - before.mean();
        if (difference != 0)
            none.p = two_sided_p(std::abs(difference), std::sqrt(before.variance() + after.variance()),
                                 (difference > 0 ? after : before).freedom());
        if (before.mean() > 0) none = {-1, {-1, -1}, none.p};
        return none;
    }
    std::vector<double> deviations = after.deviations();
    for (std::size_t i = 0; i < deviations.size(); ++i) deviations[i] -= before.deviations()[i];
    const LogSpread spread(deviations, joint_freedom(relative_variance(before), before.freedom(),
                                                     relative_variance(after), after.freedom()));
    const double ratio = factor * after.mean() / before.mean();
    const ConfidenceInterval interval = spread.around(std::log(ratio));
    return {ratio - 1, {interval.low - 1, interval.high - 1}, spread.p(std::log(ratio))};
}

ConfidenceInterval mean_interval(const MeanBootstrap& series) {
    if (series.mean() <= 0) return {0, 0};
    return LogSpread(series.deviations(), series.freedom()).around(std::log(series.mean()));
}

}  // namespace cep::tool
