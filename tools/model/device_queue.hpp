// SPDX-License-Identifier: Apache-2.0
//
// Device queue: what a host does before its device comes to the step is hidden by what the device does until then.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "model/depths.hpp"
#include "model/phase_series.hpp"
#include "stats/interval_set.hpp"

namespace cep::tool {

inline constexpr double idle_lag_ms = 0.05;  // a launch takes a tenth of it: the device had waited

/// A host runs ahead of its device. From the launch of a step's begin until the device comes to it, the device does
/// what it was given before. There are rows of that only if the steps before are recorded.
class DeviceQueue {
  public:
    /// A span of the whole step; the first one counts.
    void take(const Sample& step, Clock clock) {
        if (clock != Clock::gpu || !step.has_start() || std::isnan(step.lag_ms) || step.start_ns >= queued_.end_ns)
            return;
        queued_ = {step.start_ns - static_cast<std::int64_t>(step.lag_ms * 1e6 + 0.5), step.start_ns};
    }
    /// What is not hidden of a span of the host's clock; empty, at the begin on the device, if all of it is.
    [[nodiscard]] Interval seen_of(Interval span) const {
        if (span.begin_ns + tolerance_ns < queued_.begin_ns) return span;
        return {std::max(span.begin_ns, queued_.end_ns), std::max(span.end_ns, queued_.end_ns)};
    }

  private:
    Interval queued_{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()};
};

}  // namespace cep::tool
