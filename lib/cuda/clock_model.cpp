// SPDX-License-Identifier: Apache-2.0
#include "cuda/clock_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cep::cuda {
namespace {

// A drift that has been steady for `settled_ns` is taken as the drift of two crystals in a warm machine. It changes by
// 1 ppm a kelvin at 6 K a minute, and in the long run by no more than the temperature changes under load.
constexpr double settled_ns = 30e9;
constexpr double settled_wander_per_ns = 0.1e-6 * 1e-9;
constexpr double settled_wander_limit = 3e-6;
// Before that, the host's clock may be at the end of a slew. At NTP's usual poll interval of 64 s the kernel's PLL
// reduces the slew by 1/256 each second: 2 ppm of 500.
constexpr double unsettled_wander_per_ns = 2e-6 * 1e-9;
// At any age: the kernel adjusts the clock in steps of a tick, and reading noise moves the brackets.
constexpr double drift_noise = 0.5e-6;
constexpr double submission_reach_ns = 20e6;       // beyond, the drift's uncertainty makes the bound useless
constexpr std::int64_t event_resolution_ns = 500;  // of cuEventElapsedTime(), according to its manual

[[nodiscard]] double width_ns(const ClockModel::Anchor& anchor) noexcept {
    return static_cast<double>(anchor.after_ns - anchor.before_ns);
}

[[nodiscard]] std::int64_t rounded_up(double value) noexcept {
    return static_cast<std::int64_t>(std::ceil(value));
}

}  // namespace

const ClockModel::Anchor& ClockModel::at(std::size_t age_order) const noexcept {
    return anchors_[(next_ + window - size_ + age_order) % window];
}

void ClockModel::add(const Anchor& anchor) noexcept {
    prediction_error_ns_ = 0;
    const bool first = size_ == 0;
    const Anchor previous = latest();
    const std::int64_t prediction_error_ns = first ? 0 : prediction_error_of(anchor);
    anchors_[next_] = anchor;
    next_ = (next_ + 1) % window;
    size_ = std::min(size_ + 1, window);
    if (!first) steady_ns_ += anchor.gpu_ns - previous.gpu_ns;
    if (prediction_error_ns > event_resolution_ns) reset_drift(prediction_error_ns, slope_between(previous, anchor));
    settled_ = steady_ns_ >= settled_ns;
    measure_drift();
    if (settled_ && !is_straight()) {
        settled_ = false;
        measure_drift();
    }
    find_contradiction();
    place_line();
}

void ClockModel::restart() noexcept {
    size_ = next_ = 0;
    prediction_error_ns_ = 0;
}

void ClockModel::observe_submission(double gpu_ns, std::int64_t host_ns) noexcept {
    if (size_ == 0) return;
    const double distance_ns = gpu_ns - latest().gpu_ns;
    const std::int64_t late_ns = host_ns - this->host_ns(gpu_ns) - error_ns(std::llround(std::abs(distance_ns)));
    if (distance_ns > 0 && late_ns > event_resolution_ns + elapsed_rounding_ns(std::llround(distance_ns))) {
        reset_drift(late_ns, slope_between(latest(), {gpu_ns, host_ns, host_ns}));
        return place_line();
    }
    if (std::abs(distance_ns) > submission_reach_ns) return;
    const double moved_ns = distance_ns * (1 + drift_.value) + drift_error_ns(std::abs(distance_ns));
    const std::int64_t bound_ns = host_ns - std::llround(moved_ns);
    if (bound_ns <= latest().before_ns || bound_ns >= latest().after_ns) return;
    latest().before_ns = bound_ns;
    measure_drift();
    place_line();
}

std::int64_t ClockModel::prediction_error_of(const Anchor& anchor) const noexcept {
    const std::int64_t predicted_ns = host_ns(anchor.gpu_ns);
    const std::int64_t bound_ns = error_ns(std::llround(std::abs(anchor.gpu_ns - latest().gpu_ns)));
    return std::max(
        {std::int64_t{0}, anchor.before_ns - bound_ns - predicted_ns, predicted_ns - bound_ns - anchor.after_ns});
}

double ClockModel::wander(double age_ns) const noexcept {
    if (!settled_) return std::min(drift_noise + age_ns * unsettled_wander_per_ns, drift_limit);
    return std::min(drift_noise + age_ns * settled_wander_per_ns, settled_wander_limit);
}

double ClockModel::uncertainty(const Drift& drift, double distance_ns) const noexcept {
    const std::int64_t age_ns = std::max(std::int64_t{0}, latest().before_ns - drift.at_host_ns);
    // The drift's average over a distance is its drift at the middle.
    const double wandered = drift.half_width + wander(static_cast<double>(age_ns) + distance_ns / 2);
    return std::min(wandered, unknown_drift(drift));
}

double ClockModel::unknown_drift(const Drift& drift) noexcept {
    return std::max(drift.half_width, drift_limit + std::abs(drift.value));
}

double ClockModel::drift_error_ns(double distance_ns) const noexcept {
    const double known_ns = std::min(distance_ns, steady_ns_);
    return known_ns * uncertainty(drift_, known_ns) + (distance_ns - known_ns) * unknown_drift(drift_);
}

std::int64_t ClockModel::error_ns(std::int64_t distance_ns) const noexcept {
    return half_width_ns_ + rounded_up(drift_error_ns(static_cast<double>(distance_ns)));
}

std::int64_t ClockModel::elapsed_rounding_ns(std::int64_t distance_ns) noexcept {
    const auto elapsed_ms = static_cast<float>(static_cast<double>(std::abs(distance_ns)) * 1e-6);
    const float next_ms = std::nextafter(elapsed_ms, std::numeric_limits<float>::infinity());
    return rounded_up(static_cast<double>(next_ms - elapsed_ms) * 1e6);
}

ClockModel::Drift ClockModel::slope_between(const Anchor& early, const Anchor& late) noexcept {
    // The drift lies between the flattest and the steepest line through both brackets.
    const double baseline_ns = late.gpu_ns - early.gpu_ns;
    const double flattest = static_cast<double>(late.before_ns - early.after_ns) / baseline_ns - 1;
    const double steepest = static_cast<double>(late.after_ns - early.before_ns) / baseline_ns - 1;
    return {(flattest + steepest) / 2, (steepest - flattest) / 2,
            early.before_ns + (late.before_ns - early.before_ns) / 2};
}

void ClockModel::measure_drift() noexcept {
    double least = uncertainty(drift_, 0);
    for (std::size_t early = 0; early + 1 < size_; ++early)
        for (std::size_t late = early + 1; late < size_; ++late) {
            if (at(late).gpu_ns <= at(early).gpu_ns) continue;
            const Drift measured = slope_between(at(early), at(late));
            const double open = uncertainty(measured, 0);
            if (open > least) continue;
            least = open;
            drift_ = measured;
        }
}

ClockModel::Interval ClockModel::moved(const Anchor& anchor, double slack_ns) const noexcept {
    const double distance_ns = latest().gpu_ns - anchor.gpu_ns;
    const double low_ns =
        static_cast<double>(anchor.before_ns - latest().before_ns) + distance_ns * (1 + drift_.value) - slack_ns;
    return {low_ns, low_ns + width_ns(anchor) + 2 * slack_ns};
}

double ClockModel::distance_to_latest_ns(const Interval& moved) const noexcept {
    return std::max({0.0, moved.low_ns - width_ns(latest()), -moved.high_ns});
}

bool ClockModel::is_straight() const noexcept {
    for (std::size_t i = 0; i < size_; ++i) {
        const double slack_ns = (latest().gpu_ns - at(i).gpu_ns) * (drift_.half_width + drift_noise);
        if (distance_to_latest_ns(moved(at(i), slack_ns)) > 0) return false;
    }
    return true;
}

void ClockModel::find_contradiction() noexcept {
    for (std::size_t i = size_; i-- > 0;) {
        const double slack_ns = drift_error_ns(latest().gpu_ns - at(i).gpu_ns);
        const double apart_ns = distance_to_latest_ns(moved(at(i), slack_ns));
        if (apart_ns > event_resolution_ns) return reset_drift(rounded_up(apart_ns), slope_between(at(i), latest()));
    }
}

void ClockModel::reset_drift(std::int64_t prediction_error_ns, const Drift& contradicting) noexcept {
    prediction_error_ns_ = std::max(prediction_error_ns_, prediction_error_ns);
    const double before = uncertainty(drift_, 0);
    const double low = std::min({-drift_limit, drift_.value - before, contradicting.value - contradicting.half_width});
    const double high = std::max({drift_limit, drift_.value + before, contradicting.value + contradicting.half_width});
    drift_ = {(low + high) / 2, (high - low) / 2, latest().before_ns};
    steady_ns_ = 0;
    settled_ = false;
    size_ = 1;
}

void ClockModel::place_line() noexcept {
    Interval narrowest{0, width_ns(latest())};
    for (std::size_t i = 0; i + 1 < size_; ++i) {
        const Interval bracket = moved(at(i), drift_error_ns(latest().gpu_ns - at(i).gpu_ns));
        if (bracket.high_ns - bracket.low_ns < narrowest.high_ns - narrowest.low_ns) narrowest = bracket;
    }
    // The intersection of all brackets would be wrong: if the drift wanders too far, it is narrow but misses the truth.
    const double middle_ns =
        std::clamp((narrowest.low_ns + narrowest.high_ns) / 2, 0.0, std::max(0.0, width_ns(latest())));
    origin_gpu_ns_ = latest().gpu_ns;
    origin_host_ns_ = latest().before_ns + std::llround(middle_ns);
    half_width_ns_ = rounded_up((narrowest.high_ns - narrowest.low_ns) / 2) + 1;  // both ends are whole nanoseconds
}

std::int64_t ClockModel::host_ns(double gpu_ns) const noexcept {
    return origin_host_ns_ + static_cast<std::int64_t>(std::llround((gpu_ns - origin_gpu_ns_) * (1 + drift_.value)));
}

}  // namespace cep::cuda
