// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cep::cuda {

/// Maps one GPU's event clock to the host's monotonic clock.
///
/// Each anchor is an event known to have happened between two host times: host(gpu) ∈ [before, after]. The model is
/// the line host = gpu · (1 + drift) + offset through the middle of the narrowest bracket, each bracket widened by what
/// the drift leaves open between it and the latest anchor. So the error at the latest anchor is half of its own
/// bracket, whatever the drift does, except where an older bracket that is narrower speaks for it.
///
/// What is assumed: between two anchors the drift stays within a limit (steered host clock plus crystals); and it is
/// steady but for a small wander until an anchor contradicts this. A change of the drift cannot be known before the
/// next anchor. That one notices it (surprised()): everything older is then forgotten but its order of magnitude, and
/// the error covers any drift until new anchors measure it.
class ClockModel {
  public:
    struct Anchor {
        double gpu_ns;           ///< on the GPU's clock, from an arbitrary origin
        std::int64_t before_ns;  ///< host time just before the event was recorded
        std::int64_t after_ns;   ///< host time when it was first seen to be complete
    };

    /// The anchors come in the order of their times.
    void add(const Anchor& anchor) noexcept;
    /// The GPU cannot have passed `gpu_ns` before the host submitted the work, at `host_ns`: a lower bound that an idle
    /// GPU makes tighter than any anchor. Far from the latest anchor, where drift would spoil it, it is used only to
    /// notice that the drift has changed.
    void observe_submission(double gpu_ns, std::int64_t host_ns) noexcept;
    /// Forgets the anchors (the GPU clock's origin has moved) but keeps the drift.
    void restart() noexcept;

    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::int64_t host_ns(double gpu_ns) const noexcept;
    /// Bound of host_ns() for every GPU time at most this far from the latest anchor, before or after it.
    ///
    /// It holds for any distance. Backwards it grows with what is known of the drift as far back as nothing
    /// contradicted it, and with the limits of any drift beyond. Forwards it is a prediction: it holds until the drift
    /// changes. It does not contain the rounding of the elapsed time that `gpu_ns` was made from:
    /// elapsed_rounding_ns().
    [[nodiscard]] std::int64_t error_ns(std::int64_t distance_ns) const noexcept;
    /// What a time of this length loses in cuEventElapsedTime(): a float of milliseconds has 24 bits, whose last is
    /// worth 61 ns at 1 s, 0.5 µs at 8 s and 3.9 µs at 60 s.
    [[nodiscard]] static std::int64_t elapsed_rounding_ns(std::int64_t distance_ns) noexcept;

    /// Whether the latest anchor, or a submission after it, contradicted what was predicted for it: times that were
    /// mapped since the anchor before may be wrong by more than was said. Anchors are needed soon.
    [[nodiscard]] bool surprised() const noexcept { return surprise_ns_ > 0; }
    /// By how much it lay outside the prediction and its bound; 0: it did not.
    [[nodiscard]] std::int64_t last_surprise_ns() const noexcept { return surprise_ns_; }

    /// GPU clock against host clock, in parts per million.
    [[nodiscard]] double drift_ppm() const noexcept { return drift_.value * 1e6; }

  private:
    static constexpr std::size_t window = 32;
    /// Crystals of host and GPU are within 100 ppm of each other, and kernels slew a clock by up to 500 ppm
    /// (adjtime(3), MAXFREQ of NTP). This is the first estimate; a measured drift is never clamped to it.
    static constexpr double drift_limit = 600e-6;

    /// The drift, as an interval that brackets prove for some time in the past.
    struct Drift {
        double value = 0;
        double half_width = drift_limit;
        std::int64_t at_host_ns = 0;  ///< the middle of that time
    };
    /// Host times that an instant lies between, relative to the latest anchor's `before`.
    struct Interval {
        double low_ns;
        double high_ns;
    };

    [[nodiscard]] const Anchor& at(std::size_t age_order) const noexcept;
    [[nodiscard]] Anchor& latest() noexcept { return anchors_[(next_ + window - 1) % window]; }
    [[nodiscard]] const Anchor& latest() const noexcept { return anchors_[(next_ + window - 1) % window]; }
    /// How far the drift may be from what it was on average at a time so long ago.
    [[nodiscard]] double wander(double age_ns) const noexcept;
    /// How far the drift may be from a measured one, on average over a distance from the latest anchor.
    [[nodiscard]] double uncertainty(const Drift& drift, double distance_ns) const noexcept;
    /// The same where nothing is known but the limit.
    [[nodiscard]] static double unknown_drift(const Drift& drift) noexcept;
    [[nodiscard]] static Drift slope_between(const Anchor& early, const Anchor& late) noexcept;
    /// What the drift leaves open at a distance from the latest anchor.
    [[nodiscard]] double drift_error_ns(double distance_ns) const noexcept;
    /// An anchor's bracket moved to the latest one's GPU time, and widened on both sides.
    [[nodiscard]] Interval moved(const Anchor& anchor, double open_ns) const noexcept;
    [[nodiscard]] double distance_to_latest_ns(const Interval& moved) const noexcept;
    [[nodiscard]] std::int64_t distance_to_prediction_ns(const Anchor& anchor) const noexcept;

    void measure_drift() noexcept;
    /// Whether one drift explains all brackets: a clock that comes out of a slew has a curve.
    [[nodiscard]] bool is_straight() const noexcept;
    void place_line() noexcept;
    void find_contradiction() noexcept;
    /// Notes a surprise, and keeps of all that is known the latest anchor and the range that the drift is in.
    void forget_steadiness(std::int64_t surprise_ns, const Drift& contradicting) noexcept;

    std::array<Anchor, window> anchors_{};
    std::size_t next_ = 0;
    std::size_t size_ = 0;
    Drift drift_;
    double steady_ns_ = 0;  ///< how long nothing has contradicted the drift
    bool settled_ = false;  ///< steady for long and straight: the wander is that of warm crystals
    std::int64_t surprise_ns_ = 0;
    double origin_gpu_ns_ = 0;
    std::int64_t origin_host_ns_ = 0;
    std::int64_t half_width_ns_ = 0;
};

}  // namespace cep::cuda
