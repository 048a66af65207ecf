// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/atomic.hpp"

namespace cep {

/// The current step, which any thread may publish to all others. A reader never combines one step's number with the
/// epoch or flags of another. A publisher writes the number into a slot that it has claimed, and then switches one
/// atomic word to that slot.
///
/// Up to `Slots` − 1 threads can be inside publish() before another one has to wait. Readers never wait for publishers.
template <unsigned Slots>
class BasicStepBoard {
    static_assert(Slots >= 2 && Slots <= 16);

  public:
    /// One step as a reader saw it.
    class View {
      public:
        View(std::int64_t number, std::uint64_t word) noexcept : step(number), word_(word) {}

        std::int64_t step;
        [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_of(word_); }
        [[nodiscard]] bool recording() const noexcept { return has(word_, recording_bit); }
        [[nodiscard]] bool in_window() const noexcept { return has(word_, in_window_bit); }

      private:
        std::uint64_t word_;
    };

    /// No step yet: −1, epoch 0, not recording.
    BasicStepBoard() noexcept { steps_[0].store(-1, std::memory_order_relaxed); }
    BasicStepBoard(const BasicStepBoard&) = delete;
    BasicStepBoard& operator=(const BasicStepBoard&) = delete;

    /// Any thread, many at once. The epoch grows by one.
    void publish(std::int64_t step, bool recording, bool in_window) noexcept {
        const unsigned slot = claim_slot();
        steps_[slot].store(step, std::memory_order_release);
        const std::uint64_t flags = (recording ? recording_bit : 0) | (in_window ? in_window_bit : 0);
        std::uint64_t now = word_.load(std::memory_order_relaxed);
        std::uint64_t next = 0;
        do {
            next = (now & (claimed_mask | stopped_bit) & ~claimed_bit(slot)) | slot << slot_shift |
                   std::uint64_t{epoch_of(now) + 1} << epoch_shift | ((now & stopped_bit) == 0 ? flags : 0);
        } while (!word_.compare_exchange_weak(now, next, std::memory_order_release, std::memory_order_relaxed));
    }

    /// Any thread. Inlined: every span reads it.
    [[nodiscard, gnu::always_inline]] View read() const noexcept {
        for (;;) {
            const std::uint64_t before = word_.load(std::memory_order_acquire);
            // Acquire: if this is the number of a later step, the word read below has a later epoch.
            const std::int64_t step = steps_[slot_of(before)].load(std::memory_order_acquire);
            const std::uint64_t after = word_.load(std::memory_order_relaxed);
            // The word may differ by claimed slots or a stop, which do not change the number.
            if (epoch_of(before) == epoch_of(after)) return {step, after};
        }
    }

    [[nodiscard]] bool recording() const noexcept { return has(word_.load(std::memory_order_relaxed), recording_bit); }
    [[nodiscard]] bool in_window() const noexcept { return has(word_.load(std::memory_order_relaxed), in_window_bit); }

    /// Any thread. From now on no step is recorded or in the window, whatever is published.
    void stop() noexcept {
        std::uint64_t now = word_.load(std::memory_order_relaxed);
        while (!word_.compare_exchange_weak(now, (now & ~(recording_bit | in_window_bit)) | stopped_bit,
                                            std::memory_order_relaxed, std::memory_order_relaxed)) {
        }
    }

  private:
    // Parts of the word: flags, the slot of the current step, the slots that publishers have claimed, and the epoch.
    static constexpr std::uint64_t recording_bit = 1;
    static constexpr std::uint64_t in_window_bit = 2;
    static constexpr std::uint64_t stopped_bit = 4;
    static constexpr unsigned slot_shift = 8;
    static constexpr unsigned claimed_shift = 16;
    static constexpr unsigned epoch_shift = 32;
    static constexpr std::uint64_t all_slots = (std::uint64_t{1} << Slots) - 1;
    static constexpr std::uint64_t claimed_mask = all_slots << claimed_shift;

    [[nodiscard]] static bool has(std::uint64_t word, std::uint64_t bit) noexcept { return (word & bit) != 0; }
    [[nodiscard]] static unsigned slot_of(std::uint64_t word) noexcept { return word >> slot_shift & 0xFF; }
    [[nodiscard]] static std::uint32_t epoch_of(std::uint64_t word) noexcept {
        return static_cast<std::uint32_t>(word >> epoch_shift);
    }
    [[nodiscard]] static std::uint64_t claimed_bit(unsigned slot) noexcept {
        return std::uint64_t{1} << (claimed_shift + slot);
    }

    /// Claims a slot that neither the current step nor another publisher uses.
    [[nodiscard]] unsigned claim_slot() noexcept {
        std::uint64_t now = word_.load(std::memory_order_relaxed);
        for (;;) {
            const std::uint64_t free = all_slots & ~(now >> claimed_shift) & ~(std::uint64_t{1} << slot_of(now));
            if (free == 0) {
                yield_thread();
                now = word_.load(std::memory_order_relaxed);
                continue;
            }
            const auto slot = static_cast<unsigned>(std::countr_zero(free));
            if (word_.compare_exchange_weak(now, now | claimed_bit(slot), std::memory_order_acquire,
                                            std::memory_order_relaxed))
                return slot;
        }
    }

    Atomic<std::uint64_t> word_{0};
    std::array<Atomic<std::int64_t>, Slots> steps_{};
};

/// Small enough for a cache line with what else each span reads of a profiler.
using StepBoard = BasicStepBoard<4>;

}  // namespace cep
