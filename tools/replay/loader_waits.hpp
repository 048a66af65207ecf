// SPDX-License-Identifier: Apache-2.0
//
// Loader waits: a phase of kind data that is long in every n-th step on all ranks, as its buffer of batches is empty
// then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "replay/replayer.hpp"

namespace cep::tool {

struct LoaderWaits {
    std::uint16_t name = 0;  // of the phase
    std::int64_t every = 0;  // recorded steps
    std::int64_t every_steps = 0;
    double usual_ms = 0;
    double long_ms = 0;
    Scenario without;  // with a usual duration in these steps
};

/// Of several phases, the one that waits longest.
[[nodiscard]] std::optional<LoaderWaits> find_loader_waits(std::span<const StepGraph> graphs, const JobModel& model);

}  // namespace cep::tool
