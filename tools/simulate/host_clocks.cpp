// SPDX-License-Identifier: Apache-2.0
#include "simulate/host_clocks.hpp"

#include "simulate/random.hpp"

namespace cep::simulation {

std::vector<HostClock> make_host_clocks(const Job& job, const Layout& layout) {
    const Random random(static_cast<std::uint64_t>(job.seed));
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
