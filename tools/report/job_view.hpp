// SPDX-License-Identifier: Apache-2.0
//
// Job view: who is in the pictures of a job. Ranks with their hosts and roles, phases with their colours, steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/grid.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::report {

inline constexpr std::size_t max_phases = 24;     // with pictures of their own
inline constexpr std::size_t max_columns = 1000;  // of a heat map

/// The class of what is drawn in the colour of a name: a shade, by the name's hash, of the hue of its kind. So a phase
/// has the same colour on every page. `shift`: to the next shades, where another name has this one.
[[nodiscard]] std::string color_of(schema::Kind kind, std::string_view name, std::uint32_t shift = 0);

struct PhaseView {
    std::string name;
    schema::Kind kind = schema::Kind::other;

    [[nodiscard]] std::string color() const { return color_of(kind, name); }
};

/// What the verdict blames most, and where.
struct Blame {
    std::string phase;
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
};

struct JobView {
    std::vector<std::int64_t> ranks;          // ascending; "index of a rank" is into them
    std::vector<std::int64_t> missing_ranks;  // of the job, which have no rows
    std::vector<tool::RankRole> who;          // by rank
    std::vector<std::size_t> role;            // by rank: index into roles
    std::vector<std::string> roles;
    std::vector<PhaseView> phases;  // the step, if its time is known, then by time
    bool has_step = false;
    std::size_t left_out_phases = 0;  // with less time
    Bins steps;                       // columns: the steps that were kept, or bins of them where these are many
    std::size_t recorded_steps = 0;
    std::vector<std::size_t> blamed;  // indices of ranks, the most costly first, each once
    Blame first_blame;                // of the first of these
    bool blames_stage = false;
    std::vector<double> slowness_ms;  // by rank: mean own work beyond the median of its role; NaN where not known

    /// ranks.size() for a rank that it does not have.
    [[nodiscard]] std::size_t index_of(std::int64_t rank) const;
    /// phases.size() for a phase that it does not have.
    [[nodiscard]] std::size_t phase_of(std::string_view name) const;
    /// "rank 5 (node0)".
    [[nodiscard]] std::string name_rank(std::size_t index) const;
    /// The numbers of ranks that share a row: "5", "6–9".
    [[nodiscard]] std::string label_of(const std::vector<std::size_t>& row) const;
    /// Indices of ranks that are compared with each other: those of a role, or all where a stage has more work.
    [[nodiscard]] std::vector<std::vector<std::size_t>> peers() const;
};

/// With a table that may be nullptr: the steps that it is of, where it is not of all; and a phase for whole steps where
/// no rows say how long they took, but the table does. Step spans that enclose nothing are a phase beside the others.
[[nodiscard]] JobView view_job(const tool::Job& job, const tool::Summary& summary, const tool::Verdict& verdict,
                               const tool::JobTable* table);

/// "steps 100 to 120", or one of them.
[[nodiscard]] std::string name_steps(std::int64_t first, std::int64_t last);

}  // namespace cep::report
