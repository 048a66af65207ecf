// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cep {

/// Which steps are recorded, and when rows are flushed. Both ends of the window are inclusive.
struct Sampling {
    std::int64_t start_step = 0;
    std::int64_t end_step = INT64_MAX;
    std::int64_t record_every_n_steps = 10;
    std::int64_t flush_every_n_steps = 10;

    [[nodiscard]] constexpr bool in_window(std::int64_t step) const noexcept {
        return start_step <= step && step <= end_step;
    }
    /// For a step in the window, with the user's stride or a longer one.
    [[nodiscard]] constexpr bool is_on_stride(std::int64_t step, std::int64_t stride) const noexcept {
        return (step - start_step) % stride == 0;
    }
    [[nodiscard]] constexpr bool records(std::int64_t step) const noexcept {
        return in_window(step) && is_on_stride(step, record_every_n_steps);
    }
    [[nodiscard]] constexpr bool flushes(std::int64_t step) const noexcept { return step % flush_every_n_steps == 0; }
};

/// The steps, both inclusive, that another profiler is told to record.
struct CaptureRange {
    std::int64_t first_step = 0;
    std::int64_t last_step = -1;  ///< before the first: none

    [[nodiscard]] constexpr bool any() const noexcept { return first_step <= last_step; }
};

}  // namespace cep
