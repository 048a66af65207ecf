// SPDX-License-Identifier: Apache-2.0
#include "cuda/clock_model.hpp"

#include <algorithm>
#include <cmath>

namespace cep::cuda {
namespace {

constexpr double largest_drift = 500e-6;      // crystals are within 100 ppm of each other; more is a bad anchor
constexpr double submission_reach_ns = 20e6;  // over 20 ms, 20 ppm make 0.4 µs

[[nodiscard]] double width_ns(const ClockModel::Anchor& anchor) noexcept {
    return static_cast<double>(anchor.after_ns - anchor.before_ns);
}

[[nodiscard]] double middle_ns(const ClockModel::Anchor& anchor) noexcept {
    return static_cast<double>(anchor.before_ns) + width_ns(anchor) / 2;
}

}  // namespace

const ClockModel::Anchor& ClockModel::at(std::size_t age_order) const noexcept {
    return anchors_[(next_ + window - size_ + age_order) % window];
}

const ClockModel::Anchor& ClockModel::tightest(std::size_t from, std::size_t to) const noexcept {
    std::size_t best = from;
    for (std::size_t i = from + 1; i < to; ++i)
        if (width_ns(at(i)) < width_ns(at(best))) best = i;
    return at(best);
}

void ClockModel::add(const Anchor& anchor) noexcept {
    anchors_[next_] = anchor;
    next_ = (next_ + 1) % window;
    size_ = std::min(size_ + 1, window);
    fit();
}

void ClockModel::restart() noexcept {
    size_ = next_ = 0;
}

void ClockModel::observe_submission(double gpu_ns, std::int64_t host_ns) noexcept {
    if (size_ == 0) return;
    Anchor& latest = anchors_[(next_ + window - 1) % window];
    const double distance_ns = gpu_ns - latest.gpu_ns;
    if (std::abs(distance_ns) > submission_reach_ns) return;
    const std::int64_t bound_ns = host_ns - std::llround(distance_ns * (1 + drift_));
    if (bound_ns <= latest.before_ns || bound_ns >= latest.after_ns) return;
    latest.before_ns = bound_ns;
    fit();
}

void ClockModel::estimate_drift() noexcept {
    if (size_ < 4) return;
    const Anchor& early = tightest(0, size_ / 2);
    const Anchor& late = tightest(size_ / 2, size_);
    const double baseline_ns = late.gpu_ns - early.gpu_ns;
    if (baseline_ns <= 0) return;
    // The mean of a normal prior (0, unknown_drift) and the measured slope, weighted by their variances.
    const double measured = (middle_ns(late) - middle_ns(early)) / baseline_ns - 1;
    const double measured_error = (width_ns(early) + width_ns(late)) / 2 / baseline_ns;
    const double prior_variance = unknown_drift * unknown_drift;
    const double variance = measured_error * measured_error;
    drift_ = std::clamp(measured * prior_variance / (prior_variance + variance), -largest_drift, largest_drift);
    drift_error_ = std::sqrt(prior_variance * variance / (prior_variance + variance));
}

std::int64_t ClockModel::error_ns(std::int64_t reach_ns) const noexcept {
    return half_width_ns_ + static_cast<std::int64_t>(std::ceil(drift_error_ * static_cast<double>(reach_ns)));
}

void ClockModel::fit() noexcept {
    estimate_drift();
    const Anchor& latest = at(size_ - 1);
    origin_gpu_ns_ = latest.gpu_ns;
    // Each bracket moved along the slope to the latest anchor's GPU time, relative to its `before`.
    double low = 0;
    double high = width_ns(latest);
    for (std::size_t i = size_ - 1; i-- > 0;) {
        const Anchor& anchor = at(i);
        const double moved = (latest.gpu_ns - anchor.gpu_ns) * (1 + drift_);
        const double anchor_low = static_cast<double>(anchor.before_ns - latest.before_ns) + moved;
        const double new_low = std::max(low, anchor_low);
        const double new_high = std::min(high, anchor_low + width_ns(anchor));
        if (new_low > new_high) break;  // older anchors contradict: the drift has changed since
        low = new_low;
        high = new_high;
    }
    origin_host_ns_ = latest.before_ns + static_cast<std::int64_t>(std::llround((low + high) / 2));
    half_width_ns_ = static_cast<std::int64_t>(std::ceil((high - low) / 2));
}

std::int64_t ClockModel::host_ns(double gpu_ns) const noexcept {
    return origin_host_ns_ + static_cast<std::int64_t>(std::llround((gpu_ns - origin_gpu_ns_) * (1 + drift_)));
}

}  // namespace cep::cuda
