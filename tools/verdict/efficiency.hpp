// SPDX-License-Identifier: Apache-2.0
//
// Efficiency: what a step's time goes to, and how well the job used its devices. What is not known is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "verdict/job_table.hpp"

namespace cep::tool {

/// Shares of a step on the median rank.
struct StepShares {
    double compute = 0;
    double comm = 0;  // exposed
    double wait = 0;  // of comm: waiting for other ranks, as far as it is known
    double data = 0;
    double host = 0;          // the device idle while its host works, or as slow as its host launches
    double rest = 0;          // phases of other kinds, and what no phase covers
    bool hides_comm = false;  // of several ranks no communication is timed: it is inside of the other phases
};

/// None where steps have no time, or no phases.
[[nodiscard]] std::optional<StepShares> find_shares(const JobTable& table);

/// What most of a step's time goes to.
enum class Bound : std::uint8_t { unknown, compute, comm, data, host, mixed };
[[nodiscard]] std::string_view bound_name(Bound bound);
[[nodiscard]] Bound bound_of(const StepShares& shares);

struct Efficiency {
    std::optional<double> mfu;  // flops_per_step / step time / peak
    std::optional<double> hfu;  // the same of the FLOPs that the hardware did, with recomputation
    std::optional<double> tokens_per_s;
    std::optional<double> comm_ms;          // a step on the median rank
    std::optional<double> exposed_comm_ms;  // of that: beside no local work
    std::optional<double> overlap_efficiency;
    std::optional<double> bubble_fraction;              // measured: idle share of a pipeline stage
    std::optional<double> theoretical_bubble_fraction;  // (p − 1) / (m + p − 1)
};

/// Dense peak of a device, FLOP/s, of 16-bit floats with 32-bit accumulation; none for a device that is not in the
/// table.
[[nodiscard]] std::optional<double> known_peak_flops(std::string_view device_name);

/// `peak_flops` precedes what run rows and the table say.
[[nodiscard]] Efficiency find_efficiency(const JobTable& table, std::optional<double> peak_flops);

}  // namespace cep::tool
