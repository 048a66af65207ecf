// SPDX-License-Identifier: Apache-2.0
//
// Clock shifts: by how much the clocks of hosts are ahead of each other, for what shows ranks side by side.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/job.hpp"

namespace cep::tool {

/// From the ends of the collectives that the ranks of hosts share, step by step. None where there is one host, where
/// nothing is shared, or where clocks agree as well as the ends of collectives do.
class ClockShifts {
  public:
    /// One host, and its clock in the median step.
    struct Host {
        std::string name;
        double ahead_ms = 0;
    };

    ClockShifts() = default;
    /// `steps`: those that will be asked for; none for all. The job has its communication, and numbers of collectives.
    ClockShifts(const Job& job, std::span<const std::int64_t> steps);

    [[nodiscard]] bool any() const { return !steps_.empty(); }
    /// In that step, or else in the nearest one before.
    [[nodiscard]] std::int64_t ahead_ns(std::int64_t rank, std::int64_t step) const;
    [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
    /// Between the clocks of the two hosts that are farthest apart, in the median step.
    [[nodiscard]] double most_ms() const;
    /// How far apart the ends of one collective stay in 9 of 10, once the clocks are set right.
    [[nodiscard]] double error_ms() const { return error_ms_; }

  private:
    std::map<std::int64_t, std::uint32_t> host_of_;  // by rank
    std::vector<Host> hosts_;
    std::vector<std::int64_t> steps_;            // ascending
    std::vector<std::vector<double>> ahead_ms_;  // by step and host
    double error_ms_ = 0;
};

}  // namespace cep::tool
