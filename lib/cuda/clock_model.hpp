// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cep::cuda {

/// Maps one GPU's event clock to the host's monotonic clock.
///
/// Each anchor is an event known to have happened between two host times: host(gpu) ∈ [before, after]. The model is
/// the line host = gpu · (1 + drift) + offset: drift from the tightest anchors of the older and the newer half of the
/// window, between the flattest and the steepest line through their brackets; offset from the intersection of all
/// brackets, each widened by what the drift leaves open. The error bound is half the width of the intersection plus
/// what the drift leaves open until the next anchor.
class ClockModel {
  public:
    struct Anchor {
        double gpu_ns;           ///< on the GPU's clock, from an arbitrary origin
        std::int64_t before_ns;  ///< host time just before the event was recorded
        std::int64_t after_ns;   ///< host time when it was first seen to be complete
    };

    ClockModel() noexcept;

    void add(const Anchor& anchor) noexcept;
    /// The GPU cannot have passed `gpu_ns` before the host submitted the work, at `host_ns`: a lower bound that an idle
    /// GPU makes tighter than any anchor. Ignored far from the latest anchor, where drift would spoil it.
    void observe_submission(double gpu_ns, std::int64_t host_ns) noexcept;
    /// Forgets the anchors (the GPU clock's origin has moved) but keeps the drift.
    void restart() noexcept;

    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::int64_t host_ns(double gpu_ns) const noexcept;
    /// Bound of host_ns() within `reach_ns` of the latest anchor.
    [[nodiscard]] std::int64_t error_ns(std::int64_t reach_ns) const noexcept;
    /// GPU clock against host clock, in parts per million.
    [[nodiscard]] double drift_ppm() const noexcept { return drift_ * 1e6; }

  private:
    static constexpr std::size_t window = 32;

    [[nodiscard]] const Anchor& at(std::size_t age_order) const noexcept;
    [[nodiscard]] const Anchor& tightest(std::size_t from, std::size_t to) const noexcept;
    void estimate_drift() noexcept;
    void fit() noexcept;
    /// Sets the offset and its error; returns how many of the latest anchors agree on it.
    [[nodiscard]] std::size_t intersect() noexcept;

    std::array<Anchor, window> anchors_{};
    std::size_t next_ = 0;
    std::size_t size_ = 0;
    double drift_ = 0;
    double drift_error_;
    double origin_gpu_ns_ = 0;
    std::int64_t origin_host_ns_ = 0;
    std::int64_t half_width_ns_ = 0;
};

}  // namespace cep::cuda
