// SPDX-License-Identifier: Apache-2.0
//
// Links: how long transfers take once all ranks have entered them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "simulate/job.hpp"
#include "simulate/random.hpp"

namespace cep::simulation {

/// time = latency + bytes / bandwidth.
struct TransferModel {
    double latency_us = 0;
    double gb_per_s = 0;

    [[nodiscard]] double duration_ns(std::int64_t bytes) const {
        return 1e3 * latency_us + static_cast<double>(bytes) / gb_per_s;
    }
};

class Links {
  public:
    explicit Links(const Job& job)
        : latency_us_(job.latency_us),
          gb_per_s_(job.bandwidth_gb_per_s),
          noise_(job.transfer_noise),
          random_(job.seed) {}

    /// A tree's latency and a ring's volume: each rank sends 2 (n − 1) / n of the bytes.
    [[nodiscard]] TransferModel all_reduce(std::size_t group_size) const {
        if (group_size < 2) return {0.0, gb_per_s_};
        const auto size = static_cast<double>(group_size);
        const auto doublings = static_cast<double>(std::bit_width(group_size - 1));
        return {latency_us_ * doublings, gb_per_s_ * size / (2.0 * (size - 1.0))};
    }
    [[nodiscard]] TransferModel send() const { return {latency_us_, gb_per_s_}; }
    /// The duration of one transfer, with its noise.
    [[nodiscard]] std::int64_t duration_ns(const TransferModel& model, std::int64_t bytes, std::size_t group,
                                           std::int64_t coll) const {
        const double normal = random_.normal(Stream::transfer, group, static_cast<std::uint64_t>(coll));
        const double noise = noise_ > 0 ? exponential(noise_ * normal - 0.5 * noise_ * noise_) : 1.0;
        return static_cast<std::int64_t>(model.duration_ns(bytes) * noise + 0.5);
    }

  private:
    double latency_us_;
    double gb_per_s_;
    double noise_;
    Random random_;
};

}  // namespace cep::simulation
