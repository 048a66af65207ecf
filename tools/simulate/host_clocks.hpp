// SPDX-License-Identifier: Apache-2.0
//
// Host clocks: turn true times into the times that a host's clock shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulate/job.hpp"
#include "simulate/layout.hpp"
#include "simulate/random.hpp"

namespace cep::simulation {

/// UNIX time of the job's start.
inline constexpr std::int64_t job_start_unix_ns = 1'763'700'000'000'000'000;

struct HostClock {
    std::int64_t offset_ns = 0;  // at the job's start
    double drift_ppm = 0;

    /// `true_ns` counts from the job's start.
    [[nodiscard]] std::int64_t unix_ns(std::int64_t true_ns) const {
        const auto drift_ns = static_cast<std::int64_t>(drift_ppm * 1e-6 * static_cast<double>(true_ns));
        return job_start_unix_ns + true_ns + offset_ns + drift_ns;
    }
};

/// The clock of each host.
[[nodiscard]] inline std::vector<HostClock> make_host_clocks(const Job& job, const Layout& layout) {
    const Random random(job.seed);
    std::vector<HostClock> clocks(layout.hosts());
    for (std::size_t host = 0; host < clocks.size(); ++host) {
        const double offset = 2.0 * random.uniform(Stream::clock_offset, host) - 1.0;
        const double drift = 2.0 * random.uniform(Stream::clock_drift, host) - 1.0;
        clocks[host].offset_ns = static_cast<std::int64_t>(offset * job.clock_skew_ms * 1e6);
        if (job.clock_drift_ppm > 0) clocks[host].drift_ppm = drift * job.clock_drift_ppm;
    }
    return clocks;
}

}  // namespace cep::simulation
