// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace cep {

inline constexpr std::int64_t ns_per_ms = 1'000'000;
inline constexpr std::int64_t ns_per_s = 1'000'000'000;

[[nodiscard]] inline std::int64_t clock_ns(clockid_t id) noexcept {
    timespec now;
    clock_gettime(id, &now);
    return static_cast<std::int64_t>(now.tv_sec) * ns_per_s + now.tv_nsec;
}

/// The clock of all host times inside the library. It is steady, and all processes of a host share it.
[[nodiscard]] inline std::int64_t monotonic_ns() noexcept {
    return clock_ns(CLOCK_MONOTONIC);
}

/// Maps the monotonic clock to UNIX time.
struct UnixAnchor {
    std::int64_t offset_ns = 0;  ///< UNIX time − monotonic time
    std::int64_t error_ns = 0;   ///< half the width of the bracket

    /// Reads UNIX time between two readings of the monotonic clock. Keeps the narrowest of a few such brackets.
    [[nodiscard]] static UnixAnchor read() noexcept {
        UnixAnchor best{0, std::numeric_limits<std::int64_t>::max()};
        for (int attempt = 0; attempt < 5; ++attempt) {
            const std::int64_t before = monotonic_ns();
            const std::int64_t unix_ns = clock_ns(CLOCK_REALTIME);
            const std::int64_t after = monotonic_ns();
            const std::int64_t error = std::max<std::int64_t>((after - before + 1) / 2, 1);
            if (error < best.error_ns) best = {unix_ns - (before + after) / 2, error};
        }
        return best;
    }

    [[nodiscard]] std::int64_t unix_ns(std::int64_t monotonic) const noexcept { return monotonic + offset_ns; }
};

}  // namespace cep
