// SPDX-License-Identifier: Apache-2.0
//
// Work: how long each rank's own work takes in each phase of a step, without waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulate/job.hpp"
#include "simulate/layout.hpp"
#include "simulate/random.hpp"

namespace cep::simulation {

/// What a fault did to the own work of its ranks.
struct FaultEffect {
    std::int64_t steps = 0;  // in which it worked
    std::vector<std::int64_t> recorded_steps;
    double base_ms = 0;    // the work it touched, as it would have been
    double excess_ms = 0;  // what it added
    std::int64_t rank_steps = 0;
};

/// The strength of a fault of a complete job in a step: from 0, none, to 1.
[[nodiscard]] double intensity(const Fault& fault, std::size_t index, const Random& random, std::int64_t step);

/// Begin steps in order: noise may depend on the step before.
class Work {
  public:
    /// `active_faults`: which of the job's faults take part.
    Work(const Job& job, const Layout& layout, std::vector<bool> active_faults);

    void begin_step(std::int64_t step);
    [[nodiscard]] std::int64_t own_ns(std::size_t rank, Phase phase) const {
        return static_cast<std::int64_t>(own_ns_[rank * phase_count + static_cast<std::size_t>(phase)] + 0.5);
    }
    [[nodiscard]] const std::vector<FaultEffect>& effects() const { return effects_; }

  private:
    void set_base_work();
    void draw_common_noise(std::uint64_t step);
    void draw_own_noise(std::uint64_t step);
    void add_spikes(std::uint64_t step);
    void slow_all(std::int64_t step);
    void apply_fault(std::size_t index, std::int64_t step);

    const Job& job_;
    const Layout layout_;
    const Random random_;
    std::vector<bool> active_faults_;
    std::vector<double> base_ns_;         // by rank and phase
    std::vector<double> own_ns_;          // of this step
    std::vector<double> own_deviations_;  // of the step before, in sigmas; empty: not correlated
    std::vector<double> common_logs_;     // by host and phase
    std::vector<FaultEffect> effects_;
    bool first_ = true;
};

}  // namespace cep::simulation
