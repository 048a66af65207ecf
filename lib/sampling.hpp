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
    /// With a stride that may be longer than the user's.
    [[nodiscard]] constexpr bool records(std::int64_t step, std::int64_t stride) const noexcept {
        return in_window(step) && (step - start_step) % stride == 0;
    }
    [[nodiscard]] constexpr bool records(std::int64_t step) const noexcept {
        return records(step, record_every_n_steps);
    }
    [[nodiscard]] constexpr bool flushes(std::int64_t step) const noexcept { return step % flush_every_n_steps == 0; }
};

}  // namespace cep
