// SPDX-License-Identifier: Apache-2.0
#include "simulate/random.hpp"

namespace cep::simulation {

double Random::uniform(Stream stream, std::uint64_t a, std::uint64_t b, std::uint64_t c) const noexcept {
    constexpr double per_step = 1.0 / 9007199254740992.0;  // 2^-53
    return static_cast<double>(bits(stream, a, b, c) >> 11) * per_step;
}

double Random::normal(Stream stream, std::uint64_t a, std::uint64_t b, std::uint64_t c) const noexcept {
    std::uint64_t word = bits(stream, a, b, c);
    std::uint64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
        sum += (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
        word = tool::mix_bits(word + increment);
    }
    // Twelve halves centre the sixteen-bit uniforms between their steps.
    return (static_cast<double>(sum) + 6.0) / 65536.0 - 6.0;
}

// A Taylor series of x / 64, squared six times.
double exponential(double x) noexcept {
    constexpr double coefficients[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                                       1.0 / 6,     1.0 / 2,    1.0,       1.0};
    const double small = x / 64.0;
    double sum = 0.0;
    for (const double coefficient : coefficients) sum = sum * small + coefficient;
    for (int i = 0; i < 6; ++i) sum *= sum;
    return sum;
}

}  // namespace cep::simulation
