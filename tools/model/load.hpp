// SPDX-License-Identifier: Apache-2.0
//
// Loading: from files to a job.
#pragma once

#include <cstdint>

#include "model/job.hpp"
#include "read/filter.hpp"
#include "read/read_run.hpp"

namespace cep::tool {

struct LoadOptions {
    static constexpr std::uint64_t default_max_samples = 16'000'000;  // 512 MB at most; see SampleBudget for more

    Filter filter;
    RunChoice run;
    AttemptChoice attempt;
    std::uint64_t max_samples = default_max_samples;
    ReadOptions reading;
    bool numbers_collectives = true;
    bool keeps_messages = false;  // of communication: channels and bytes
    bool only_comm = false;       // of spans
};

/// Reads one run of the inputs. Throws what read_run() throws.
[[nodiscard]] Job load(const InputSet& inputs, const LoadOptions& options);

}  // namespace cep::tool
