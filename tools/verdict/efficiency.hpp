// SPDX-License-Identifier: Apache-2.0
//
// Efficiency: how well the job used its devices. What is not known is none.
#pragma once

#include <optional>
#include <string_view>

#include "verdict/job_table.hpp"

namespace cep::tool {

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
