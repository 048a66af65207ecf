// SPDX-License-Identifier: Apache-2.0
//
// Loss: what the profiler says it did not record, summed over ranks and attempts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "read/run_info.hpp"

namespace cep::tool {

struct Loss : StatsCounts {
    /// Adds the last stats row of one attempt.
    void add(const StatsRow& stats);
    [[nodiscard]] std::uint64_t dropped() const;
    /// Spans, by the names of causes in a stats row.
    [[nodiscard]] std::vector<std::pair<std::string_view, std::uint64_t>> dropped_by_cause() const;
    [[nodiscard]] bool any() const { return dropped() + dropped_meta + capture_skipped + cuda_errors + abandoned > 0; }
    /// "12 dropped (ring 12), 3 abandoned"; "none".
    [[nodiscard]] std::string describe() const;
};

}  // namespace cep::tool
