// SPDX-License-Identifier: Apache-2.0
#include "stats/autocorrelation.hpp"

#include <algorithm>
#include <cmath>

#include "stats/quantiles.hpp"
#include "stats/rank_test.hpp"

namespace cep::compare {
namespace {

/// Ranks around their mean, which is 0.
std::vector<double> centered_ranks(const std::vector<double>& values) {
    std::vector<double> ranks = midranks(values);
    const double middle = (static_cast<double>(values.size()) + 1) / 2;
    for (double& rank : ranks) rank = (rank - middle) / static_cast<double>(values.size());
    return ranks;
}

double sum_of_products(const std::vector<double>& series, std::size_t lag) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < series.size(); ++i) sum += series[i] * series[i + lag];
    return sum;
}

class Correlogram {
  public:
    explicit Correlogram(const std::vector<std::vector<double>>& all_series) {
        for (const std::vector<double>& values : all_series) {
            if (values.size() < 2) continue;
            ranks_.push_back(centered_ranks(values));
            steps_ += values.size();
            shortest_ = ranks_.size() == 1 ? values.size() : std::min(shortest_, values.size());
            variance_ += sum_of_products(ranks_.back(), 0);
        }
    }
    [[nodiscard]] bool empty() const { return variance_ <= 0; }
    [[nodiscard]] std::size_t steps() const { return steps_; }
    [[nodiscard]] std::size_t series() const { return ranks_.size(); }
    [[nodiscard]] std::size_t shortest() const { return shortest_; }
    [[nodiscard]] double at(std::size_t lag) const {
        double sum = 0;
        for (const std::vector<double>& ranks : ranks_) sum += sum_of_products(ranks, lag);
        return sum / variance_;
    }

  private:
    std::vector<std::vector<double>> ranks_;
    std::size_t steps_ = 0;
    std::size_t shortest_ = 0;
    double variance_ = 0;
};

double flat_top(double t) {
    return t <= 0.5 ? 1.0 : 2 * (1 - t);
}

}  // namespace

// The lag from which on correlations are those of noise, and the flat-top window over twice that: Politis and White,
// "Automatic block-length selection for the dependent bootstrap", Econometric Reviews 23(1), 2004, section 3.
double correlation_time_steps(const std::vector<std::vector<double>>& all_series) {
    const Correlogram correlogram(all_series);
    if (correlogram.empty() || correlogram.shortest() < 4) return 1.0;
    const auto steps = static_cast<double>(correlogram.steps());
    const double noise = 2 * std::sqrt(std::log10(steps) / steps);
    const auto quiet_lags = static_cast<std::size_t>(std::max(5.0, std::ceil(std::sqrt(std::log10(steps)))));
    const std::size_t max_lag = std::min(
        correlogram.shortest() - 1,
        static_cast<std::size_t>(std::ceil(2 * std::sqrt(static_cast<double>(correlogram.shortest())))) + quiet_lags);
    std::vector<double> correlations = {1.0};
    std::size_t last_loud = 0;
    for (std::size_t lag = 1; lag <= max_lag && lag <= last_loud + quiet_lags; ++lag) {
        correlations.push_back(correlogram.at(lag));
        if (std::abs(correlations.back()) >= noise) last_loud = lag;
    }
    const std::size_t window = 2 * last_loud;
    double time_steps = 1.0;
    double weights = 0;
    for (std::size_t lag = 1; lag < window && lag < correlogram.shortest(); ++lag) {
        const double correlation = lag < correlations.size() ? correlations[lag] : correlogram.at(lag);
        const double weight = 2 * flat_top(static_cast<double>(lag) / static_cast<double>(window));
        time_steps += weight * correlation;
        weights += weight;
    }
    // A series around its own middle correlates less than the process does, by its time over its length.
    const double steps_each = steps / static_cast<double>(correlogram.series());
    time_steps /= std::max(0.5, 1 - weights / steps_each);
    return std::max(1.0, time_steps);
}

// Means of neighbouring blocks of L steps of a first-order autoregression correlate by φ / ((1 − φ²) L) once L is
// above its correlation time τ = (1 + φ) / (1 − φ); in τ that is (τ − 1/τ) / 4L. The length keeps it below 1/16. The
// cube root, the order of the best block length in Politis and White, is for correlations too weak to be found.
std::size_t choose_block_steps(double correlation_time_steps, std::size_t steps) {
    constexpr double max_correlation = 1.0 / 16;
    const double long_enough = (correlation_time_steps - 1 / correlation_time_steps) / (4 * max_correlation);
    return static_cast<std::size_t>(
        std::max({1.0, std::round(std::cbrt(static_cast<double>(steps))), std::ceil(long_enough)}));
}

std::vector<double> block_medians(const std::vector<double>& values, std::size_t block_steps) {
    const std::size_t blocks = values.size() / std::max<std::size_t>(block_steps, 1);
    std::vector<double> medians;
    for (std::size_t i = 0; i < blocks; ++i) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * values.size() / blocks);
        const auto end = values.begin() + static_cast<std::ptrdiff_t>((i + 1) * values.size() / blocks);
        std::vector<double> block(begin, end);
        medians.push_back(tool::exact_quantile(block, 0.5));
    }
    return medians;
}

}  // namespace cep::compare
