// SPDX-License-Identifier: Apache-2.0
//
// Filters: the steps, ranks and phases that a command was asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_ranges.hpp"

namespace cep::tool {

struct Row;

class Filter {
  public:
    /// "A:B", "A:", ":B" or "A", both ends inclusive, or several of these, as "0:9,100,200:". Throws UsageError.
    void set_steps(std::string_view text);
    /// "0,3-7". Throws UsageError.
    void set_ranks(std::string_view text);
    /// "forward,backward". Throws UsageError.
    void set_phases(std::string_view text);

    [[nodiscard]] bool has_steps() const { return !steps_.empty(); }
    [[nodiscard]] bool has_ranks() const { return !ranks_.empty(); }
    [[nodiscard]] bool has_phases() const { return !phases_.empty(); }
    [[nodiscard]] bool accepts_rank(std::int64_t rank) const { return ranks_.empty() || ranks_.contains(rank); }
    /// Run and stats rows are kept whatever the steps and phases: they are about the whole run. With phases, counters
    /// and marks are left out, as they belong to none.
    [[nodiscard]] bool accepts(const Row& row) const { return accepts_all() || accepts_among_others(row); }

    /// The same steps of all ranks and phases.
    [[nodiscard]] Filter of_steps() const {
        Filter filter;
        filter.steps_ = steps_;
        return filter;
    }

    [[nodiscard]] bool accepts_all() const { return ranks_.empty() && phases_.empty() && !has_steps(); }

  private:
    [[nodiscard]] bool accepts_among_others(const Row& row) const;

    NumberRanges steps_;               // empty: all
    NumberRanges ranks_;               // likewise
    std::vector<std::string> phases_;  // in order; empty: all
};

/// Which attempts of a restarted run count.
struct AttemptChoice {
    enum class Mode : std::uint8_t { last, all, one };
    Mode mode = Mode::last;
    std::int64_t attempt = 0;  // Mode::one

    /// "last", "all" or a number. Throws UsageError.
    [[nodiscard]] static AttemptChoice parse(std::string_view text);
    friend bool operator==(const AttemptChoice&, const AttemptChoice&) = default;
};

}  // namespace cep::tool
