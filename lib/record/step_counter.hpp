// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/atomic.hpp"

namespace cep {

/// Numbers a region's spans within each step, from 0. Any thread, many at once.
class StepCounter {
  public:
    /// Numbers a span that begins in the step of `view`. If other threads have counted spans of a later step meanwhile,
    /// the span belongs to the step of now, which `read_board()` tells. False if that step is not recorded.
    template <class View, class ReadBoard>
    [[nodiscard, gnu::always_inline]] bool next(View& view, std::uint32_t& number, ReadBoard read_board) noexcept {
        // Acquire: the board then tells of the later step, too.
        std::uint64_t now = word_.load(std::memory_order_acquire);
        do {
            if (epoch_of(now) == view.epoch()) {
                number = static_cast<std::uint32_t>(now);
                continue;
            }
            if (is_later(epoch_of(now), view.epoch()) && !move_on(view, read_board)) return false;
            number = epoch_of(now) == view.epoch() ? static_cast<std::uint32_t>(now) : 0;
        } while (!word_.compare_exchange_weak(now, word_of(view.epoch(), number + 1), std::memory_order_release,
                                              std::memory_order_acquire));
        return true;
    }

  private:
    [[nodiscard]] static std::uint32_t epoch_of(std::uint64_t word) noexcept {
        return static_cast<std::uint32_t>(word >> 32);
    }
    [[nodiscard]] static std::uint64_t word_of(std::uint32_t epoch, std::uint32_t count) noexcept {
        return std::uint64_t{epoch} << 32 | count;
    }
    /// Epochs wrap.
    [[nodiscard]] static bool is_later(std::uint32_t epoch, std::uint32_t other) noexcept {
        return static_cast<std::int32_t>(epoch - other) > 0;
    }
    /// The view stays if the board still shows its step: the count is from 2³¹ steps ago.
    template <class View, class ReadBoard>
    [[nodiscard, gnu::noinline, gnu::cold]] static bool move_on(View& view, ReadBoard read_board) noexcept {
        const View now = read_board();
        if (now.epoch() != view.epoch()) view = now;
        return view.recording();
    }

    Atomic<std::uint64_t> word_{0};  ///< epoch of the step << 32 | spans begun in it
};

}  // namespace cep
