// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cep {

/// Where the trainer is, published as one word, so that nobody pairs the number of one step with the flags of another.
class StepBoard {
  public:
    struct View {
        std::int64_t step;
        std::uint32_t epoch;
        bool recording;
        bool in_window;
    };

    void publish(std::int64_t step, bool recording, bool in_window) noexcept {
        const std::uint32_t epoch = last_epoch_.fetch_add(1, std::memory_order_relaxed) + 1;
        steps_[epoch % slots].store(step, std::memory_order_relaxed);
        word_.store(static_cast<std::uint64_t>(epoch) << 2 | (recording ? 1U : 0U) | (in_window ? 2U : 0U),
                    std::memory_order_seq_cst);
        if (stopped_.load(std::memory_order_seq_cst)) stop();
    }
    void stop() noexcept {
        stopped_.store(true, std::memory_order_seq_cst);
        word_.fetch_and(~std::uint64_t{3}, std::memory_order_seq_cst);
    }
    [[nodiscard]] View read() const noexcept {
        const std::uint64_t word = word_.load(std::memory_order_acquire);
        const auto epoch = static_cast<std::uint32_t>(word >> 2);
        return {steps_[epoch % slots].load(std::memory_order_acquire), epoch, (word & 1) != 0, (word & 2) != 0};
    }
    [[nodiscard]] bool recording() const noexcept { return (word_.load(std::memory_order_acquire) & 1) != 0; }
    [[nodiscard]] bool in_window() const noexcept { return (word_.load(std::memory_order_acquire) & 2) != 0; }

  private:
    static constexpr std::size_t slots = 16;
    std::atomic<std::uint64_t> word_{0};
    std::array<std::atomic<std::int64_t>, slots> steps_ = {{-1}};
    std::atomic<std::uint32_t> last_epoch_{0};
    std::atomic<bool> stopped_{false};
};

}  // namespace cep
