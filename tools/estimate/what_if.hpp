// SPDX-License-Identifier: Apache-2.0
//
// What if: the steps of a job with other buckets, links, ranks, micro-batches and data. The replay of its steps prices
// each change; what its transfers would take is known from their own latency and bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "estimate/formulas.hpp"
#include "model/job.hpp"

namespace cep::estimate {

struct Change {
    std::string key;   // in JSON
    std::string what;  // for people
    double ranks = 0;
    double step_ms = 0;
    double speed = 1;  // work that a rank does in a time, over what it does now
};

struct WhatIf {
    std::string reason;  // why nothing can be said; else ""
    double step_ms = 0;  // observed, in the steps that were replayed
    double error = 0;    // of the replay with the durations as they were, over what was observed
    std::vector<Change> changes;
    std::vector<BucketSize> buckets;
    double bucket_bytes = 0;         // of those that the job has most of
    bool latency_is_known = false;   // of a bucket
    std::vector<std::string> notes;  // what the figures rest on
};

/// `job`: one that keeps messages. `worlds`: numbers of ranks to try; none: half, twice, 4 and 8 times as many.
[[nodiscard]] WhatIf find_what_if(const tool::Job& job, std::vector<std::uint64_t> worlds, std::size_t threads);

}  // namespace cep::estimate
