// SPDX-License-Identifier: Apache-2.0
//
// Sizes span a factor of a million and errors are proportional to the time: a plain fit would take its intercept, the
// latency, from the noise of the largest messages. So residuals are relative to the fitted time, and every size says
// as much of the line as any other. Outliers (a size that met congestion, a change of protocol) count by Huber's
// weight (Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics 35, 1964), found by
// iteration (Holland and Welsch, Communications in Statistics 6, 1977). The median over the collectives of a size has
// already done away with single slow transfers, which errors_of() and the bandwidth that is paid tell of. Theil and
// Sen's line has no such weights, and a slope from pairs of large sizes leaves the small ones, and so the latency, to
// chance.
#include "stats/transfer_fit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "stats/quantiles.hpp"
#include "stats/robust.hpp"

namespace cep::comm {
namespace {

constexpr double huber_limit = 1.345;    // 95 % efficient for normal errors
constexpr double smallest_scale = 0.01;  // a deviation of 1 % is no outlier, however well the others fit
constexpr std::size_t sizes_for_outliers = 6;

/// bytes are in units of the largest size, times in milliseconds.
struct Line {
    double intercept = 0;
    double slope = 0;
};

struct Sums {
    double w = 0;
    double x = 0;
    double y = 0;
    double xx = 0;
    double xy = 0;
};

class Fitter {
  public:
    explicit Fitter(const std::vector<SizePoint>& points) : weights_(points.size(), 1.0) {
        largest_bytes_ = static_cast<double>(points.back().bytes);
        for (const SizePoint& point : points) {
            // A size with one collective counts for less: its median is the noise of one transfer. Many of them do not
            // make the model any better than it is.
            constexpr double noise_to_model = 4;
            const auto count = static_cast<double>(point.collectives);
            trust_.push_back(count / (count + noise_to_model));
            x_.push_back(static_cast<double>(point.bytes) / largest_bytes_);
            y_.push_back(point.transfer_ms);
        }
        fitted_ms_ = y_;
    }

    Line fit() {
        constexpr int max_iterations = 100;
        Line line = solve();
        for (int i = 0; i < max_iterations; ++i) {
            const Line previous = line;
            weigh(line);
            line = solve();
            const double change = std::abs(line.intercept - previous.intercept) + std::abs(line.slope - previous.slope);
            if (change <= 1e-12 * (std::abs(line.intercept) + std::abs(line.slope))) break;
        }
        return line;
    }

    void describe(const Line& line, TransferFit& fit) const {
        const Sums s = sums();
        const auto count = static_cast<double>(x_.size());
        double mean_ms = 0;
        for (const double time_ms : y_) mean_ms += time_ms / count;
        double residual = 0;
        double total = 0;
        double weighted = 0;
        for (std::size_t i = 0; i < x_.size(); ++i) {
            const double error_ms = line.intercept + line.slope * x_[i] - y_[i];
            residual += error_ms * error_ms;
            total += (y_[i] - mean_ms) * (y_[i] - mean_ms);
            weighted += weight(i) * error_ms * error_ms;
        }
        fit.r_squared = total > 0 ? 1 - residual / total : 0;
        const double variance = weighted / (count - 2);
        const double determinant = s.w * s.xx - s.x * s.x;
        fit.alpha_us = 1e3 * line.intercept;
        fit.alpha_error_us = 1e3 * std::sqrt(variance * s.xx / determinant);
        fit.alpha_beta_covariance = -variance * s.x / determinant;
        if (line.slope <= 0) return;
        // Bytes in a millisecond are kilobytes in a second.
        fit.beta_gb_per_s = largest_bytes_ / line.slope / 1e6;
        fit.beta_error_gb_per_s = *fit.beta_gb_per_s * std::sqrt(variance * s.w / determinant) / line.slope;
    }

  private:
    [[nodiscard]] double weight(std::size_t i) const {
        return trust_[i] * weights_[i] / (fitted_ms_[i] * fitted_ms_[i]);
    }

    [[nodiscard]] Sums sums() const {
        Sums sums;
        for (std::size_t i = 0; i < x_.size(); ++i) {
            const double w = weight(i);
            sums.w += w;
            sums.x += w * x_[i];
            sums.y += w * y_[i];
            sums.xx += w * x_[i] * x_[i];
            sums.xy += w * x_[i] * y_[i];
        }
        return sums;
    }

    // Neither a latency nor a time for a byte is below zero.
    [[nodiscard]] Line solve() const {
        const Sums s = sums();
        const double determinant = s.w * s.xx - s.x * s.x;
        Line line;
        line.slope = (s.w * s.xy - s.x * s.y) / determinant;
        line.intercept = (s.y - line.slope * s.x) / s.w;
        if (!(line.slope > 0)) return {s.y / s.w, 0};
        if (line.intercept < 0) return {0, s.xy / s.xx};
        return line;
    }

    void weigh(const Line& line) {
        std::vector<double> sizes;
        for (std::size_t i = 0; i < x_.size(); ++i) {
            fitted_ms_[i] = line.intercept + line.slope * x_[i];
            sizes.push_back(std::abs(y_[i] / fitted_ms_[i] - 1));
        }
        if (x_.size() < sizes_for_outliers) return;
        const double scale = std::max(tool::normal_consistency * tool::quantile_of(sizes, 0.5), smallest_scale);
        for (std::size_t i = 0; i < sizes.size(); ++i)
            weights_[i] = sizes[i] <= huber_limit * scale ? 1.0 : huber_limit * scale / sizes[i];
    }

    double largest_bytes_ = 1;
    std::vector<double> x_;
    std::vector<double> y_;
    std::vector<double> trust_;
    std::vector<double> weights_;
    std::vector<double> fitted_ms_;
};

}  // namespace

double TransferFit::time_ms(double bytes, const Factors& factors) const {
    return factors.alpha * alpha_us / 1e3 + (beta_gb_per_s ? factors.byte * bytes / (*beta_gb_per_s * 1e6) : 0);
}

double TransferFit::time_error_ms(double bytes, const Factors& factors) const {
    const double of_alpha_ms = factors.alpha * alpha_error_us / 1e3;
    if (!beta_gb_per_s) return of_alpha_ms;
    const double of_bytes_ms = factors.byte * bytes / (*beta_gb_per_s * 1e6) * *beta_error_gb_per_s / *beta_gb_per_s;
    const double both = factors.alpha * factors.byte * bytes / static_cast<double>(max_bytes) * alpha_beta_covariance;
    return std::sqrt(std::max(0.0, of_alpha_ms * of_alpha_ms + of_bytes_ms * of_bytes_ms + 2 * both));
}

std::optional<double> TransferFit::half_bytes() const {
    return beta_gb_per_s ? std::optional(alpha_us * *beta_gb_per_s * 1e3) : std::nullopt;
}

TransferErrors errors_of(std::span<const double> ratios) {
    std::vector<double> errors;
    TransferErrors found;
    for (const double ratio : ratios) {
        errors.push_back(std::abs(ratio - 1));
        found.mean += errors.back() / static_cast<double>(ratios.size());
    }
    const std::vector<double> quantiles = tool::quantiles_of(errors, {0.9, 1});
    return {found.mean, quantiles[0], quantiles[1]};
}

std::optional<TransferFit> fit_transfers(const std::vector<SizePoint>& points, std::string& reason) {
    std::vector<SizePoint> usable;
    for (const SizePoint& point : points)
        if (point.transfer_ms > 0) usable.push_back(point);
    if (usable.size() < min_sizes) {
        reason = fmt::format("{} distinct size{}, and {} are needed", usable.size(), usable.size() == 1 ? "" : "s",
                             min_sizes);
        return std::nullopt;
    }
    Fitter fitter(usable);
    TransferFit fit;
    fitter.describe(fitter.fit(), fit);
    fit.sizes = usable.size();
    fit.min_bytes = usable.front().bytes;
    fit.max_bytes = usable.back().bytes;
    return fit;
}

}  // namespace cep::comm
