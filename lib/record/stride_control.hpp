// SPDX-License-Identifier: Apache-2.0
//
// Keeps the cost of recording below the option max_overhead_percent.
#pragma once

#include <cstdint>
#include <optional>

namespace cep {

/// What the calls that recorded have cost the trainer's threads so far.
struct TrainerCost {
    std::uint64_t timed_calls = 0;
    std::uint64_t cost_ns = 0;  ///< an estimate for all calls from the timed ones
};

/// A change of the stride, and its reason.
struct StrideChange {
    std::int64_t step;        ///< the trainer's step when the writer decided
    std::int64_t decided_ns;  ///< monotonic clock
    std::int64_t from;
    std::int64_t to;
    double cost_percent;  ///< share of the trainer's time that recording took with the stride `from`
};

/// Decides on the stride: the user's stride times a power of two, so that the steps of a longer stride are among those
/// of each shorter one. It lengthens the stride when the cost is above the bound, by as much as that takes, and halves
/// it when the cost is at most a quarter of the bound: the cost is then at most half of the bound, so that it does not
/// swing to and fro.
class StrideControl {
  public:
    /// A decision needs this many timed calls, or chance decides. ThreadRecorder times at least one of 7: these are
    /// made within 50 recorded steps.
    static constexpr std::uint64_t least_timed_calls = 7;
    /// A decision needs this many strides of steps: a part of a stride would weigh too much or too little.
    static constexpr std::int64_t least_strides = 32;

    /// `max_percent` 0: no bound.
    StrideControl(double max_percent, std::int64_t stride) noexcept
        : max_percent_(max_percent), shortest_(stride), stride_(stride) {}

    [[nodiscard]] bool is_bounded() const noexcept { return max_percent_ > 0; }

    /// The first recorded step began at that time. Later calls do nothing.
    void start(std::int64_t step, std::int64_t now_ns) noexcept {
        if (since_.step < 0) since_ = {{}, step, now_ns};
    }
    /// The stride's change, if there is one. `step` is the trainer's current step, −1 before the first.
    [[nodiscard]] std::optional<StrideChange> decide(const TrainerCost& cost, std::int64_t step,
                                                     std::int64_t now_ns) noexcept;

  private:
    struct Moment {
        TrainerCost cost;
        std::int64_t step = -1;
        std::int64_t now_ns = 0;
    };

    [[nodiscard]] bool is_long_enough(const Moment& now) const noexcept;
    [[nodiscard]] std::int64_t find_stride(double cost_percent) const noexcept;

    const double max_percent_;
    const std::int64_t shortest_;
    std::int64_t stride_;
    Moment since_;  ///< the last decision; step −1: none, and no step yet
};

}  // namespace cep
