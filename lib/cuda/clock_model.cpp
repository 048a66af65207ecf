// SPDX-License-Identifier: Apache-2.0
#include "cuda/clock_model.hpp"

#include <algorithm>
#include <cmath>

namespace cep::cuda {
namespace {

// What cannot be excluded before anything is measured: crystals are within 50 ppm of their nominal rate.
constexpr double unknown_drift = 100e-6;
// How much a drift changes with temperature, and with the host's clock being steered, while the window lasts.
constexpr double drift_wander = 0.5e-6;
constexpr double submission_reach_ns = 20e6;  // further away the drift's uncertainty makes the bound useless

[[nodiscard]] double width_ns(const ClockModel::Anchor& anchor) noexcept {
    return static_cast<double>(anchor.after_ns - anchor.before_ns);
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
    const double moved_ns = distance_ns * (1 + drift_) + std::abs(distance_ns) * drift_error_;
    const std::int64_t bound_ns = host_ns - std::llround(moved_ns);
    if (bound_ns <= latest.before_ns || bound_ns >= latest.after_ns) return;
    latest.before_ns = bound_ns;
    fit();
}

void ClockModel::estimate_drift() noexcept {
    if (size_ < 2) return;
    const Anchor& early = tightest(0, size_ / 2);
    const Anchor& late = tightest(size_ / 2, size_);
    const double baseline_ns = late.gpu_ns - early.gpu_ns;
    if (baseline_ns <= 0) return;
    // The flattest and the steepest line through both brackets, as far as there can be such a drift.
    const double flattest = static_cast<double>(late.before_ns - early.after_ns) / baseline_ns - 1;
    const double steepest = static_cast<double>(late.after_ns - early.before_ns) / baseline_ns - 1;
    const double low = std::clamp(flattest, -unknown_drift, unknown_drift);
    const double high = std::clamp(steepest, -unknown_drift, unknown_drift);
    drift_ = (low + high) / 2;
    drift_error_ = (high - low) / 2 + drift_wander;
}

ClockModel::ClockModel() noexcept : drift_error_(unknown_drift) {}

std::int64_t ClockModel::error_ns(std::int64_t reach_ns) const noexcept {
    return half_width_ns_ + static_cast<std::int64_t>(std::ceil(drift_error_ * static_cast<double>(reach_ns)));
}

void ClockModel::fit() noexcept {
    estimate_drift();
    if (const std::size_t agreeing = intersect(); agreeing < size_) {
        size_ = agreeing;  // the drift has changed since the older ones
        estimate_drift();
        (void)intersect();
    }
}

std::size_t ClockModel::intersect() noexcept {
    const Anchor& latest = at(size_ - 1);
    origin_gpu_ns_ = latest.gpu_ns;
    // Each bracket moved along the slope to the latest anchor's GPU time, relative to its `before`, and widened by what
    // the slope leaves open.
    double low = 0;
    double high = width_ns(latest);
    std::size_t agreeing = 1;
    for (; agreeing < size_; ++agreeing) {
        const Anchor& anchor = at(size_ - 1 - agreeing);
        const double distance_ns = latest.gpu_ns - anchor.gpu_ns;
        const double moved_ns = static_cast<double>(anchor.before_ns - latest.before_ns) + distance_ns * (1 + drift_);
        const double new_low = std::max(low, moved_ns - distance_ns * drift_error_);
        const double new_high = std::min(high, moved_ns + width_ns(anchor) + distance_ns * drift_error_);
        if (new_low > new_high) break;
        low = new_low;
        high = new_high;
    }
    origin_host_ns_ = latest.before_ns + static_cast<std::int64_t>(std::llround((low + high) / 2));
    half_width_ns_ = static_cast<std::int64_t>(std::ceil((high - low) / 2)) + 1;  // both ends are whole nanoseconds
    return agreeing;
}

std::int64_t ClockModel::host_ns(double gpu_ns) const noexcept {
    return origin_host_ns_ + static_cast<std::int64_t>(std::llround((gpu_ns - origin_gpu_ns_) * (1 + drift_)));
}

}  // namespace cep::cuda
