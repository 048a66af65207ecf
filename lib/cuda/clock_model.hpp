// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cep::cuda {

/// Maps one GPU's event clock to the host's monotonic clock.
///
/// Each anchor is an event known to have happened between two host times: host(gpu) ∈ [before, after], its bracket. The
/// model widens each bracket by the uncertainty of the drift between its anchor and the latest one. Then it puts the
/// line host = gpu · (1 + drift) + offset through the middle of the narrowest bracket. So the error at the latest
/// anchor is at most half of that anchor's own bracket, whatever the drift does.
///
/// The model makes two assumptions. Between two anchors the drift stays within a limit (slewed host clock plus
/// crystals). And the drift is steady, except for a small wander, until an anchor contradicts it. A change of the drift
/// shows only at the next anchor (prediction_failed()). The model then drops all older anchors and keeps only the range
/// of the drift. Its error covers any drift in that range until new anchors measure it.
class ClockModel {
  public:
    struct Anchor {
        double gpu_ns;           ///< on the GPU's clock, from an arbitrary origin
        std::int64_t before_ns;  ///< host time just before the event was recorded
        std::int64_t after_ns;   ///< host time when it was first seen to be complete
    };

    /// Anchors must come in the order of their times.
    void add(const Anchor& anchor) noexcept;
    /// Adds a lower bound: the GPU cannot have passed `gpu_ns` before the host submitted the work at `host_ns`. If the
    /// GPU was idle, this bound is tighter than any anchor. Far from the latest anchor the drift makes it inexact;
    /// there it only serves to detect a change of the drift.
    void observe_submission(double gpu_ns, std::int64_t host_ns) noexcept;
    /// Drops the anchors, because the GPU clock's origin has moved, but keeps the drift.
    void restart() noexcept;

    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::int64_t host_ns(double gpu_ns) const noexcept;
    /// Error bound of host_ns() for every GPU time at most this far from the latest anchor, before or after it.
    ///
    /// It holds for any distance. Backwards, it grows with the uncertainty of the measured drift for as long as the
    /// drift was steady, and with the limit of any drift before that. Forwards, it is a prediction that holds until the
    /// drift changes. It does not include the rounding of the elapsed time behind `gpu_ns`: see elapsed_rounding_ns().
    [[nodiscard]] std::int64_t error_ns(std::int64_t distance_ns) const noexcept;
    /// Rounding error of a time of this length from cuEventElapsedTime(). A float of milliseconds has 24 bits; the last
    /// bit is 61 ns at 1 s, 0.5 µs at 8 s and 3.9 µs at 60 s.
    [[nodiscard]] static std::int64_t elapsed_rounding_ns(std::int64_t distance_ns) noexcept;

    /// Whether the latest anchor, or a submission after it, contradicted the prediction. Times mapped since the
    /// previous anchor may then be wrong by more than error_ns() stated, and new anchors are needed soon.
    [[nodiscard]] bool prediction_failed() const noexcept { return prediction_error_ns_ > 0; }
    /// How far it was outside the bound of the prediction; 0: it was not.
    [[nodiscard]] std::int64_t prediction_error_ns() const noexcept { return prediction_error_ns_; }

    /// GPU clock against host clock, in parts per million.
    [[nodiscard]] double drift_ppm() const noexcept { return drift_.value * 1e6; }

  private:
    static constexpr std::size_t window = 32;
    /// Crystals of host and GPU are within 100 ppm of each other, and kernels slew a clock by up to 500 ppm
    /// (adjtime(3), MAXFREQ of NTP). This is the first estimate; a measured drift is never clamped to it.
    static constexpr double drift_limit = 600e-6;

    /// The drift at some past time, as an interval that the brackets prove.
    struct Drift {
        double value = 0;
        double half_width = drift_limit;
        std::int64_t at_host_ns = 0;  ///< the middle of that time
    };
    /// Lower and upper bound of a host time, relative to the latest anchor's `before`.
    struct Interval {
        double low_ns;
        double high_ns;
    };

    [[nodiscard]] const Anchor& at(std::size_t age_order) const noexcept;
    [[nodiscard]] Anchor& latest() noexcept { return anchors_[(next_ + window - 1) % window]; }
    [[nodiscard]] const Anchor& latest() const noexcept { return anchors_[(next_ + window - 1) % window]; }
    /// How far the drift may have changed from its average at a time this long ago.
    [[nodiscard]] double wander(double age_ns) const noexcept;
    /// How far the drift may be from a measured one, on average over a distance from the latest anchor.
    [[nodiscard]] double uncertainty(const Drift& drift, double distance_ns) const noexcept;
    /// The same if only the limit of the drift is known.
    [[nodiscard]] static double unknown_drift(const Drift& drift) noexcept;
    [[nodiscard]] static Drift slope_between(const Anchor& early, const Anchor& late) noexcept;
    /// Error that the uncertainty of the drift causes at a distance from the latest anchor.
    [[nodiscard]] double drift_error_ns(double distance_ns) const noexcept;
    /// An anchor's bracket, moved to the latest anchor's GPU time and widened by `slack_ns` on both sides.
    [[nodiscard]] Interval moved(const Anchor& anchor, double slack_ns) const noexcept;
    [[nodiscard]] double distance_to_latest_ns(const Interval& moved) const noexcept;
    [[nodiscard]] std::int64_t prediction_error_of(const Anchor& anchor) const noexcept;

    void measure_drift() noexcept;
    /// Whether a single drift fits all brackets. It does not while the host's clock is at the end of a slew.
    [[nodiscard]] bool is_straight() const noexcept;
    void place_line() noexcept;
    void find_contradiction() noexcept;
    /// Records the prediction error, and keeps only the latest anchor and the range of the drift.
    void reset_drift(std::int64_t prediction_error_ns, const Drift& contradicting) noexcept;

    std::array<Anchor, window> anchors_{};
    std::size_t next_ = 0;
    std::size_t size_ = 0;
    Drift drift_;
    double steady_ns_ = 0;  ///< how long no anchor has contradicted the drift
    bool settled_ = false;  ///< long steady and straight: only the crystals' wander is left
    std::int64_t prediction_error_ns_ = 0;
    double origin_gpu_ns_ = 0;
    std::int64_t origin_host_ns_ = 0;
    std::int64_t half_width_ns_ = 0;
};

}  // namespace cep::cuda
