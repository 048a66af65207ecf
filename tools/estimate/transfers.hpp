// SPDX-License-Identifier: Apache-2.0
//
// Transfers: how much longer the collectives of a job would take with other links and numbers of ranks.
#pragma once

#include <functional>
#include <string_view>

#include "comm/comm_report.hpp"

namespace cep::estimate {

class Transfers {
  public:
    Transfers(const tool::Job& job, std::uint64_t ranks);

    using Growth = std::function<comm::TransferFit::Factors(const comm::CommModel&)>;
    /// The time of the collectives of a name over what it was. 1 where nothing is known of them.
    [[nodiscard]] double times_as_long(std::string_view name, const Growth& growth) const;
    /// With another number of ranks in the job: data-parallel groups grow or shrink with it, others stay.
    [[nodiscard]] comm::TransferFit::Factors growth_with_ranks(const comm::CommModel& model, std::uint64_t ranks) const;
    [[nodiscard]] bool is_data_parallel(const comm::CommModel& model) const;
    [[nodiscard]] bool is_data_parallel(std::string_view name) const;
    /// The collectives of a name, if they are of one group of all ranks.
    [[nodiscard]] const comm::CommModel* find_of_all(std::string_view name) const;
    /// Those of which latency and bandwidth are not known apart; nullptr for none.
    [[nodiscard]] const comm::CommModel* find_unfitted() const;

  private:
    [[nodiscard]] static bool has_name(const comm::CommModel& model, std::string_view name);

    std::uint64_t ranks_;
    comm::CommReport report_;
};

[[nodiscard]] bool has_latency(const comm::CommModel& model);
/// Without a fit: as the bytes.
[[nodiscard]] double time_of(const comm::CommModel& model, double bytes, const comm::TransferFit::Factors& factors);

}  // namespace cep::estimate
