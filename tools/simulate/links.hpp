// SPDX-License-Identifier: Apache-2.0
//
// Links: how long transfers take once all ranks have entered them.
#pragma once

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
          random_(static_cast<std::uint64_t>(job.seed)) {}

    /// A tree's latency and a ring's volume: each rank sends 2 (n − 1) / n of the bytes.
    [[nodiscard]] TransferModel all_reduce(std::size_t group_size) const;
    [[nodiscard]] TransferModel send() const { return {latency_us_, gb_per_s_}; }
    /// The duration of one transfer, with its noise.
    [[nodiscard]] std::int64_t duration_ns(const TransferModel& model, std::int64_t bytes, std::size_t group,
                                           std::int64_t coll) const;

  private:
    double latency_us_;
    double gb_per_s_;
    double noise_;
    Random random_;
};

}  // namespace cep::simulation
