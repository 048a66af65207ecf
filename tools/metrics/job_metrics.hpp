// SPDX-License-Identifier: Apache-2.0
//
// Job metrics: what is known of a job as metrics of Prometheus. cep-metrics(1) lists them.
#pragma once

#include <cstddef>
#include <string>

#include "model/job.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

inline constexpr std::size_t default_max_phases = 32;
inline constexpr std::size_t max_stragglers = 3;  // each is a set of labels that may never come again

/// It names the `max_phases` phases that took the most time.
[[nodiscard]] std::string job_metrics(const Job& job, const Summary& summary, const Verdict& verdict,
                                      std::size_t max_phases);

}  // namespace cep::tool
