// SPDX-License-Identifier: Apache-2.0
//
// Saving: what a job would gain without what its verdict names.
#pragma once

#include <vector>

#include "verdict/judged_job.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// After the replay: sorts the findings by what they cost, and sets what all slow ranks cost together.
void set_saving(const JudgedJob& judged, Verdict& verdict);

/// With few peers, ranks are not compared; the graph of the steps shows more than comparing does. Takes back an
/// abstention where a cause is certain, and sets what it costs.
void settle(const JudgedJob& judged, Verdict& verdict);

/// What ranks cost that are slow and waited for, however little that is, by step of the table.
[[nodiscard]] std::vector<double> explained_ms(const JudgedJob& judged, const Verdict& verdict);

}  // namespace cep::tool
