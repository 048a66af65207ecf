// SPDX-License-Identifier: Apache-2.0
#include "simulate/links.hpp"

#include <bit>

namespace cep::simulation {

TransferModel Links::all_reduce(std::size_t group_size) const {
    if (group_size < 2) return {0.0, gb_per_s_};
    const auto size = static_cast<double>(group_size);
    const auto doublings = static_cast<double>(std::bit_width(group_size - 1));
    return {latency_us_ * doublings, gb_per_s_ * size / (2.0 * (size - 1.0))};
}

std::int64_t Links::duration_ns(const TransferModel& model, std::int64_t bytes, std::size_t group,
                                std::int64_t coll) const {
    double duration_ns = model.duration_ns(bytes);
    if (noise_ > 0)
        duration_ns *= exponential(noise_ * random_.normal(Stream::transfer, group, static_cast<std::uint64_t>(coll)) -
                                   0.5 * noise_ * noise_);
    return static_cast<std::int64_t>(duration_ns + 0.5);
}

}  // namespace cep::simulation
