// SPDX-License-Identifier: Apache-2.0
#include "estimate/buckets.hpp"

#include <algorithm>
#include <cmath>

namespace cep::estimate {
namespace {

constexpr double tried_megabytes[] = {1, 2, 5, 10, 25, 50, 100, 200};

}  // namespace

/// The last of the transfers ends when those that wait for a bucket, the first or one of the last two, are done:
/// between them both grow evenly.
BucketSize try_bucket_size(const Gradients& gradients, double megabytes) {
    const double backward_ms = gradients.backward_ms;
    const double capacity = std::min(megabytes * 1048576, gradients.bytes);
    const double buckets = std::ceil(gradients.bytes / capacity);
    const double full_ms = gradients.transfer_ms(capacity);
    const double last_ms = gradients.transfer_ms(gradients.bytes - (buckets - 1) * capacity);
    const double all_ms = (buckets - 1) * full_ms + last_ms;
    const double fill_ms = backward_ms * capacity / gradients.bytes;
    const double before_last_ms = buckets > 1 ? (buckets - 1) * fill_ms + full_ms + last_ms : 0;
    const double end_ms = std::max({fill_ms + all_ms, before_last_ms, backward_ms + last_ms});
    return {megabytes, buckets, all_ms, end_ms - backward_ms};
}

std::vector<BucketSize> try_bucket_sizes(const Gradients& gradients) {
    std::vector<BucketSize> sizes;
    for (const double megabytes : tried_megabytes) sizes.push_back(try_bucket_size(gradients, megabytes));
    return sizes;
}

}  // namespace cep::estimate
