// SPDX-License-Identifier: Apache-2.0
//
// Random numbers by counter: each is a function of the seed and of its purpose (a stream, a rank, a step, …). So a job
// has the same random numbers on any number of threads, and with a fault as without. They are computed with +, −, × and
// ÷ of doubles only, because the distributions and functions of standard libraries differ between machines.
#pragma once

#include <cstdint>

#include "base/hash.hpp"

namespace cep::simulation {

/// The purpose of a random number. With other values, a seed would give another job.
enum class Stream : std::uint64_t {
    own_noise = 1,
    host_noise,
    step_noise,
    rank_spread,
    spike,
    spike_phase,
    spike_size,
    transfer,
    event,
    fault,
    clock_offset,
    clock_drift,
    drop,
    memory = 16,
};

class Random {
  public:
    explicit constexpr Random(std::int64_t seed) noexcept
        : key_(tool::mix_bits(static_cast<std::uint64_t>(seed) + increment)) {}

    [[nodiscard]] constexpr std::uint64_t bits(Stream stream, std::uint64_t a = 0, std::uint64_t b = 0,
                                               std::uint64_t c = 0) const noexcept {
        std::uint64_t hash = tool::mix_bits(key_ + static_cast<std::uint64_t>(stream) * increment);
        hash = tool::mix_bits(hash + (a + 1) * increment);
        hash = tool::mix_bits(hash + (b + 1) * increment);
        return tool::mix_bits(hash + (c + 1) * increment);
    }
    /// In [0, 1).
    [[nodiscard]] double uniform(Stream stream, std::uint64_t a = 0, std::uint64_t b = 0,
                                 std::uint64_t c = 0) const noexcept;
    /// Mean 0, variance 1, within ±6: the sum of twelve uniforms.
    [[nodiscard]] double normal(Stream stream, std::uint64_t a = 0, std::uint64_t b = 0,
                                std::uint64_t c = 0) const noexcept;

  private:
    static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15U;  // 2^64 / golden ratio

    std::uint64_t key_;
};

/// e^x to 10 digits for |x| ≤ 10, to 15 for |x| ≤ 1.
[[nodiscard]] double exponential(double x) noexcept;

}  // namespace cep::simulation
