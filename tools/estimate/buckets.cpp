// SPDX-License-Identifier: Apache-2.0
#include "estimate/buckets.hpp"

#include <algorithm>
#include <cmath>

#include "estimate/formulas.hpp"

namespace cep::estimate {
namespace {

constexpr double tried_megabytes[] = {1, 2, 5, 10, 25, 50, 100, 200};

/// The last of the transfers ends when those that wait for a bucket, the first or one of the last two, are done:
/// between them both grow evenly.
BucketSize try_size(const Training& training, double megabytes, double gradients) {
    const double n = training.layout.dp();
    const double capacity = std::min(megabytes * 1048576, gradients);
    const double buckets = std::ceil(gradients / capacity);
    const auto transfer_ms = [&](double bytes) {
        return Traffic{2 * (n - 1) / n * bytes, 2 * (n - 1)}.ms(training.machine);
    };
    const double full_ms = transfer_ms(capacity);
    const double last_ms = transfer_ms(gradients - (buckets - 1) * capacity);
    const double all_ms = (buckets - 1) * full_ms + last_ms;
    const double fill_ms = training.machine.backward_ms * capacity / gradients;
    const double before_last_ms = buckets > 1 ? (buckets - 1) * fill_ms + full_ms + last_ms : 0;
    const double end_ms = std::max({fill_ms + all_ms, before_last_ms, training.machine.backward_ms + last_ms});
    return {megabytes, buckets, all_ms, end_ms - training.machine.backward_ms};
}

}  // namespace

std::vector<BucketSize> try_bucket_sizes(const Training& training) {
    const double gradients =
        count_parameters(training.model).all() / training.layout.tp / training.layout.pp * training.bytes.gradient;
    std::vector<BucketSize> sizes;
    if (training.machine.backward_ms <= 0 || training.machine.link_gb_per_s <= 0 || training.layout.dp() <= 1 ||
        training.layout.zero > 0 || !(gradients > 0))
        return sizes;
    for (const double megabytes : tried_megabytes) sizes.push_back(try_size(training, megabytes, gradients));
    return sizes;
}

}  // namespace cep::estimate
