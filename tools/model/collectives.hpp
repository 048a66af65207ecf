// SPDX-License-Identifier: Apache-2.0
//
// Collectives: which spans of different ranks are one collective. A job numbers each of them once, and all that looks
// at collectives goes by these numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/phase_series.hpp"

namespace cep::tool {

/// One collective. Its transfer is the time that every rank spends in it: the least duration of any rank. A higher
/// quantile would be that of a rank that waits, as one late rank keeps all the others waiting. The rest of a rank's
/// duration is waiting.
struct Collective {
    static constexpr std::uint32_t many_ranks = 3;

    double transfer_ms = 0;
    std::uint32_t ranks = 0;  // that have a span of it, up to many_ranks; 0 for number 0
};

/// By number, see Sample::collective. Spans of which no other rank has one have number 0.
using Collectives = std::vector<Collective>;

struct Job;

/// Finds which communication the work that it is inside of waits for, in rows that no GPU timed: sets
/// PhaseSeries::blocks. `steps`: of which samples were kept, ascending.
void find_blocking_comm(RankSeries& ranks, const std::vector<std::int64_t>& steps);

/// Replaces keys by numbers in all samples of communication.
[[nodiscard]] Collectives number_collectives(RankSeries& ranks, const std::vector<std::int64_t>& steps,
                                             std::size_t threads);

/// One name, or none, may stand for the groups of many communicators; which rows of it are one collective shows in
/// their times. Finds such names, and replaces the numbers of collectives by keys: those of different groups have
/// different ones. Returns false if there are none, and leaves the numbers.
[[nodiscard]] bool separate_groups(Job& job, std::size_t threads);

}  // namespace cep::tool
