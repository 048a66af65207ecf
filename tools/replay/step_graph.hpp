// SPDX-License-Identifier: Apache-2.0
//
// Step graph: what each piece of a step waited for, over all ranks.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "base/disjoint_sets.hpp"
#include "model/comm_rows.hpp"
#include "replay/lost_pieces.hpp"
#include "replay/roles.hpp"

namespace cep::tool {

/// What the nodes of all steps are instances of: each slot of each role, and each phase of each role for pieces that
/// are in no template.
struct NodeKey {
    std::uint32_t role = 0;
    std::uint16_t name = 0;
    bool is_comm = false;
    std::uint32_t segment = 0;
    std::uint32_t seq = 0;

    /// The same in all roles.
    [[nodiscard]] auto position() const { return std::tuple(is_comm, name, segment, seq); }
};

/// Which slots of different ranks are one collective, from the steps in which they were recorded.
class CollectiveSlots {
  public:
    CollectiveSlots() = default;
    /// `joined`: slots of all ranks, rank by rank. `is_seen`: by slot of all ranks, whether it was in any collective.
    CollectiveSlots(std::size_t slots, DisjointSets joined, const std::vector<bool>& is_seen);
    /// no_index where no step says.
    [[nodiscard]] std::uint32_t collective(std::uint32_t rank, std::uint32_t slot) const {
        return numbers_.empty() ? no_index : numbers_[rank * slots_ + slot];
    }
    /// How many ranks are in it.
    [[nodiscard]] std::uint32_t size_of(std::uint32_t collective) const { return sizes_[collective]; }

  private:
    std::size_t slots_ = 0;
    std::vector<std::uint32_t> numbers_;
    std::vector<std::uint32_t> sizes_;
};

/// What is known of a job before its steps are put into graphs.
struct JobModel {
    explicit JobModel(const JobRows& of) : rows(&of) {}

    [[nodiscard]] std::uint32_t key_of_slot(std::uint32_t role, std::uint32_t slot) const {
        return first_keys[role] + slot;
    }
    [[nodiscard]] std::uint32_t key_of_name(std::uint32_t role, std::uint16_t name) const {
        return first_keys[role] + static_cast<std::uint32_t>(templates[role].slots.size()) + name;
    }
    /// The key of the nodes at the ends of steps.
    [[nodiscard]] std::uint32_t key_of_end(std::uint32_t role) const { return first_keys[role + 1] - 1; }
    /// The number of the collective that has the key on the rank, see CollectiveSlots; no_index for none.
    [[nodiscard]] std::uint32_t collective_of(std::uint32_t key, std::uint32_t rank) const {
        if (!keys[key].is_comm) return no_index;
        const std::uint32_t role = keys[key].role;
        const std::uint32_t slot = key - first_keys[role];
        return slot < templates[role].slots.size() ? collectives.collective(rank, slot) : no_index;
    }
    void number_keys();
    /// Whether it is local work that few ranks of the role do: the others do nothing in its place.
    [[nodiscard]] bool is_of_few(std::uint32_t key) const { return is_of_few_[key]; }

    const JobRows* rows;
    double tolerance_ms = 0;
    ClockFacts clocks;
    bool leave_together = false;  // ranks leave collectives at the same time, if rows do not say when
    Roles roles;
    std::vector<RoleTemplate> templates;
    std::vector<std::uint32_t> first_keys;  // by role, and behind the last
    std::vector<NodeKey> keys;
    CollectiveSlots collectives;

  private:
    std::vector<bool> is_of_few_;  // by key
};

/// Finds it in a sample of the job's steps.
[[nodiscard]] JobModel build_model(const JobRows& rows, std::size_t threads);

/// What a node waits for.
struct GraphEdge {
    std::uint32_t from;  // a rank: the end of its step before; or the number of ranks plus a node
    float behind;        // ms behind its end; if negative, before it by this share of its own work
    float delay_ms;      // that was observed beyond that
    std::uint32_t key;   // of the piece that waits
    float usual_ms =
        NAN;  // of when the host launches it: `behind` on the median rank in the step; NaN: it waits for work
};

enum class Weight : std::uint8_t { observed, typical, at_most_typical };

/// Nodes in an order in which each comes behind all that it waits for.
struct StepGraph {
    std::uint32_t step = 0;
    double weight = 1;     // see PricedStep
    bool is_long = false;  // see PricedStep
    std::vector<float> own_ms;
    std::vector<std::uint32_t> keys;
    std::vector<std::uint32_t> ranks;  // of a collective the first
    std::vector<Weight> weights;
    std::vector<std::uint32_t> edge_ends;
    std::vector<GraphEdge> edges;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;  // rank, node behind its last pieces
    std::vector<std::pair<double, double>> times_ms;  // by entry of `ends`: first begin, NaN if lost; last end
    bool keeps_delays = false;                        // much of it waits for what no row shows
    double observed_ms = 0;                           // of the step on the median rank, with the gap before it
    std::uint32_t recorded_pieces = 0;
    std::uint32_t lost_pieces = 0;
    std::uint32_t matched_comm = 0;  // recorded members of collectives for which that of another rank was recorded
    std::uint32_t comm_pieces = 0;   // recorded members of collectives

    [[nodiscard]] std::size_t size() const { return own_ms.size(); }
};

/// Sorts the rows of the step, and sets its clocks right.
[[nodiscard]] StepGraph build_step_graph(StepRows& step, const JobModel& model);

/// When each rank ends the step, in a graph of nothing else.
[[nodiscard]] StepGraph read_step_ends(StepRows& step, const JobModel& model);

/// The pieces of a rank in a step, with its clock set right by shift_clocks() before.
[[nodiscard]] RankPieces pieces_of(StepRows& step, const RankRows& rank, double tolerance_ms);

}  // namespace cep::tool
