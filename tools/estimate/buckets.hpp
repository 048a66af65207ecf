// SPDX-License-Identifier: Apache-2.0
//
// Buckets: what the size of DistributedDataParallel's buckets would cost.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace cep::estimate {

struct BucketSize {
    double megabytes = 0;  // 2^20 bytes, as bucket_cap_mb
    double buckets = 0;
    double transfer_ms = 0;           // of all of them
    double exposed_ms = 0;            // beyond the end of backward
    std::optional<double> step_ms{};  // of a job whose steps were replayed with it
};

/// What is reduced in a step.
struct Gradients {
    double bytes = 0;
    double backward_ms = 0;
    std::function<double(double bytes)> transfer_ms;
};

/// Gradients become ready evenly over backward; buckets are reduced one after the other, each when it is full and the
/// one before is done.
[[nodiscard]] BucketSize try_bucket_size(const Gradients& gradients, double megabytes);
/// From 1 to 200 MiB.
[[nodiscard]] std::vector<BucketSize> try_bucket_sizes(const Gradients& gradients);

}  // namespace cep::estimate
