// SPDX-License-Identifier: Apache-2.0
//
// Layout: the coordinates of each rank in the job. As in Megatron-LM, tensor-parallel ranks are neighbours, then
// data-parallel ranks, then pipeline stages.
#pragma once

#include <cstddef>

#include "simulate/job.hpp"

namespace cep::simulation {

struct Coordinates {
    std::size_t tp = 0;
    std::size_t dp = 0;
    std::size_t pp = 0;
};

class Layout {
  public:
    explicit Layout(const Job& job)
        : tp(static_cast<std::size_t>(job.tp)),
          dp(static_cast<std::size_t>(job.dp)),
          pp(static_cast<std::size_t>(job.pp)),
          ranks(static_cast<std::size_t>(job.ranks)),
          ranks_per_host(static_cast<std::size_t>(job.ranks_per_host)),
          plain_groups(job.plain_groups) {}

    const std::size_t tp;
    const std::size_t dp;
    const std::size_t pp;
    const std::size_t ranks;
    const std::size_t ranks_per_host;
    const bool plain_groups;

    [[nodiscard]] std::size_t rank_of(Coordinates at) const { return at.tp + tp * (at.dp + dp * at.pp); }
    [[nodiscard]] Coordinates coordinates_of(std::size_t rank) const {
        return {rank % tp, rank / tp % dp, rank / (tp * dp)};
    }
    [[nodiscard]] std::size_t host_of(std::size_t rank) const { return rank / ranks_per_host; }
    [[nodiscard]] std::size_t hosts() const { return (ranks + ranks_per_host - 1) / ranks_per_host; }

    /// The number of a process group. All groups of the job have different numbers.
    [[nodiscard]] std::size_t dp_group(Coordinates at) const { return at.tp + tp * at.pp; }
    [[nodiscard]] std::size_t tp_group(Coordinates at) const { return tp * pp + at.dp + dp * at.pp; }
    /// The group of the ranks of stages `at.pp` and `at.pp` + 1.
    [[nodiscard]] std::size_t pp_group(Coordinates at) const { return tp * pp + dp * pp + rank_of(at); }
    [[nodiscard]] std::size_t groups() const { return tp * pp + dp * pp + ranks; }
};

}  // namespace cep::simulation
