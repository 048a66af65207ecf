// SPDX-License-Identifier: Apache-2.0
#include "record/stride_control.hpp"

namespace cep {

std::optional<StrideChange> StrideControl::decide(const TrainerCost& cost, std::int64_t step,
                                                  std::int64_t now_ns) noexcept {
    if (!is_bounded() || step < 0) return std::nullopt;
    const Moment now{cost, step, now_ns};
    if (since_.step < 0 || step < since_.step) {
        since_ = now;
        return std::nullopt;
    }
    if (!is_long_enough(now)) return std::nullopt;
    const double time_ns = static_cast<double>(now_ns - since_.now_ns);
    const double cost_percent = 100 * static_cast<double>(cost.cost_ns - since_.cost.cost_ns) / time_ns;
    since_ = now;
    const std::int64_t from = stride_;
    stride_ = find_stride(cost_percent);
    if (stride_ == from) return std::nullopt;
    return StrideChange{step, now_ns, from, stride_, cost_percent};
}

bool StrideControl::is_long_enough(const Moment& now) const noexcept {
    return now.now_ns > since_.now_ns && now.cost.timed_calls - since_.cost.timed_calls >= least_timed_calls &&
           (now.step - since_.step) / least_strides >= stride_;
}

std::int64_t StrideControl::find_stride(double cost_percent) const noexcept {
    if (cost_percent <= max_percent_ / 4 && stride_ > shortest_) return stride_ / 2;
    std::int64_t stride = stride_;
    for (double percent = cost_percent; percent > max_percent_ && stride <= INT64_MAX / 2; percent /= 2) stride *= 2;
    return stride;
}

}  // namespace cep
