// SPDX-License-Identifier: Apache-2.0
//
// Buckets: what the size of DistributedDataParallel's buckets would cost.
#pragma once

#include <vector>

#include "estimate/training.hpp"

namespace cep::estimate {

struct BucketSize {
    double megabytes = 0;  // 2^20 bytes, as bucket_cap_mb
    double buckets = 0;
    double transfer_ms = 0;  // of all of them
    double exposed_ms = 0;   // beyond the end of backward
};

/// Gradients become ready evenly over backward; buckets are reduced one after the other, each when it is full and the
/// one before is done. Empty if a time is not known, or with ZeRO.
[[nodiscard]] std::vector<BucketSize> try_bucket_sizes(const Training& training);

}  // namespace cep::estimate
