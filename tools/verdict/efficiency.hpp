// SPDX-License-Identifier: Apache-2.0
//
// Efficiency: what a step's time goes to, and how well the job used its devices. What is not known is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ledger/job_table.hpp"

namespace cep::tool {

/// Shares of the time of iterations, over all ranks; see Ledger.
struct StepShares {
    double compute = 0;
    double comm = 0;          // exposed
    double wait = 0;          // of comm: waiting for other ranks, as far as it is known
    double bubble = 0;        // of wait: of a pipeline's stage for its neighbours
    double data = 0;          // with copies
    double host = 0;          // the device idle while its host works, or as slow as its host launches
    double rest = 0;          // phases of other kinds, and what no phase covers
    double host_phases = 0;   // of rest: phases of the host, checkpoints, evaluation, logging
    bool hides_comm = false;  // of several ranks no communication is timed: it is inside of the other phases
};

/// None where steps have no time, or no phases.
[[nodiscard]] std::optional<StepShares> find_shares(const Ledger& ledger);
/// The share of waiting that is for ranks that are late, not a pipeline's bubble.
[[nodiscard]] inline double lateness_of(const StepShares& shares) {
    return shares.wait - shares.bubble;
}

/// What most of a step's time goes to.
enum class Bound : std::uint8_t { unknown, compute, comm, data, host, mixed };
[[nodiscard]] std::string_view bound_name(Bound bound);
[[nodiscard]] Bound bound_of(const StepShares& shares);

struct Efficiency {
    std::optional<double> mfu;  // FLOPs of the run / its elapsed time / peak
    std::optional<double> hfu;  // the same of the FLOPs that the hardware did, with recomputation
    std::optional<double> tokens_per_s;
    std::optional<double> comm_ms;                      // a recorded step, mean over ranks
    std::optional<double> exposed_comm_ms;              // of that: beside no compute
    std::optional<double> overlap_efficiency;           // hidden communication / all of it, over all steps and ranks
    std::optional<double> overlap_of_possible;          // hidden communication / the shorter of compute and all of it
    std::optional<double> bubble_fraction;              // measured: StepShares::bubble of a pipeline
    std::optional<double> theoretical_bubble_fraction;  // (p − 1) / (m + p − 1)
};

/// `shares`: see find_shares(). `pipeline_length`: see Replay.
[[nodiscard]] Efficiency find_efficiency(const JobTable& table, const Ledger& ledger,
                                         const std::optional<StepShares>& shares, std::size_t pipeline_length);

}  // namespace cep::tool
