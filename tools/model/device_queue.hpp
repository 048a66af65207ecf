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
    void take_step(const Sample& step, Clock clock) {
        has_step_ = true;
        if (is_known(step, clock) && step.start_ns < step_.end_ns) step_ = {launch_ns_of(step), step.start_ns};
    }
    /// Any other span. Without a span of the step, the first one on the device tells how much the device had yet to do
    /// when the host launched it. For as long before that launch it is taken as busy, too. More would be a guess: a
    /// copy of the batch, launched behind the host's spans, may be all that it had to do.
    void take_row(const Sample& row, Clock clock) {
        if (!is_known(row, clock) || row.start_ns >= first_.end_ns) return;
        first_ = {launch_ns_of(row), row.start_ns};
    }
    /// Where a span of the device in the step before ended. Without spans of steps, the last of these ends says until
    /// when the device was busy.
    void take_earlier(std::int64_t end_ns) {
        earlier_ = {0, earlier_.end_ns == none ? end_ns : std::max(earlier_.end_ns, end_ns)};
    }
    /// What is not hidden of a span of the host's clock; empty, at the begin on the device, if all of it is.
    [[nodiscard]] Interval seen_of(Interval span) const {
        const Interval queued = has_step_ ? step_ : earlier_.end_ns != none ? earlier_ : queued_before_first(span);
        if (span.begin_ns + tolerance_ns < queued.begin_ns) return span;
        return {std::max(span.begin_ns, queued.end_ns), std::max(span.end_ns, queued.end_ns)};
    }

  private:
    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    static constexpr Interval nothing{none, none};

    static bool is_known(const Sample& sample, Clock clock) {
        return clock == Clock::gpu && sample.has_start() && !std::isnan(sample.lag_ms);
    }
    static std::int64_t launch_ns_of(const Sample& sample) {
        return sample.start_ns - static_cast<std::int64_t>(sample.lag_ms * 1e6 + 0.5);
    }

    /// For a span before the launch.
    [[nodiscard]] Interval queued_before_first(Interval span) const {
        if (span.end_ns - tolerance_ns > first_.begin_ns) return nothing;
        return {first_.begin_ns - first_.length_ns(), first_.end_ns};
    }

    bool has_step_ = false;
    Interval step_ = nothing;
    Interval earlier_ = nothing;
    Interval first_ = nothing;
};

}  // namespace cep::tool
