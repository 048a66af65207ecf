// SPDX-License-Identifier: Apache-2.0
#include "model/job_spans.hpp"

namespace cep::tool {

JobSpans::JobSpans(const Job& job) : steps(kept_steps(job)), step_phase(find_step_phase(all_series(job.ranks))) {
    const std::vector<bool> is_partial = find_partial_steps(job.ranks, steps);
    for (std::uint32_t step = 0; step < steps.size(); ++step)
        if (is_partial.empty() || !is_partial[step]) common.push_back(step);
    of_rank.reserve(job.ranks.size());
    for (const auto& [rank, all_series] : job.ranks)
        of_rank.emplace_back(all_series, steps, of_rank.empty() ? nullptr : &of_rank.back(), Attempts::last);
}

}  // namespace cep::tool
