// SPDX-License-Identifier: Apache-2.0
//
// Role template: what ranks of one role do in a step, in which order on each stream, and what waits for what. Found in
// the rows of some steps of some ranks; no name of an operation says anything.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "replay/pieces.hpp"

namespace cep::tool {

/// Communication that is launched inside of a span.
struct UsualLaunch {
    double share = NAN;      // of the span's own work; NaN if it is always held up
    double transfer_ms = 0;  // without waiting
};
/// By key of the communication.
using UsualLaunches = std::unordered_map<std::uint64_t, UsualLaunch>;
struct BlockedEnd {
    UsualLaunches launches;
    double behind_ms = 0;  // how much later than the communication it ends
};
/// Spans of local work that end with communication that was launched inside of them, by key.
using BlockedEnds = std::unordered_map<std::uint64_t, BlockedEnd>;

/// The last communication for which a span stops before it goes on.
struct LastStop {
    std::uint64_t key = 0;
    double behind_ms = 0;   // what is left to do behind it
    std::size_t count = 0;  // of communication on its stream until then, with itself
    double share = 0;       // of the span, for which it stops on average
};
/// Spans of local work that stop for communication on another stream inside of them, by key.
using InnerStops = std::unordered_map<std::uint64_t, LastStop>;

/// Some steps of a role's ranks.
using RoleSample = std::vector<RankPieces>;

[[nodiscard]] InnerStops find_inner_stops(const RoleSample& sample, double tolerance_ms);
/// Says of communication in such spans how long these had stopped before, and of spans in all.
void mark_stops(RankPieces& pieces, const InnerStops& stops, double tolerance_ms);
/// Which spans of a role end so in at least half of the steps. Once stops are marked.
[[nodiscard]] BlockedEnds find_blocked_ends(const RoleSample& sample, double tolerance_ms);
/// Ends their own work with their last launch, and adds a join, without work, where they ended. Of those that stop, the
/// join has what they do behind the last communication that they stop for.
void split_blocked_ends(RankPieces& pieces, const BlockedEnds& blocked, const InnerStops& stops, double tolerance_ms);

/// One piece of a role's step.
struct TemplateSlot {
    std::uint64_t key = 0;
    std::uint32_t stream = 0;    // index into RoleTemplate::streams
    std::uint32_t position = 0;  // on its stream
    std::uint32_t segment = 0;   // number among the segments of its span
    bool is_comm = false;
    bool is_nested = false;                // communication inside of a span of its stream
    double offset_ms = 0;                  // typical start in the step
    double typical_ms = 0;                 // own work
    std::vector<std::uint32_t> waits_for;  // slots of other streams
    std::vector<std::uint32_t> begun_by;   // those of them whose end usually begins it
    std::vector<std::uint32_t> awaited_by;
    bool follows = false;                  // usually begins as the slot before it on its stream ends
    std::uint32_t launched_in = no_index;  // slot of local work that is in progress when it begins,
    double launch_share = 1;               // after this share of its own work
};

inline constexpr double least_stopped_share = 0.01;

struct RoleTemplate {
    InnerStops stops;
    BlockedEnds blocked;
    std::vector<TemplateSlot> slots;     // stream by stream, in order
    std::vector<std::uint32_t> streams;  // first slot of each stream
    std::unordered_map<std::uint64_t, std::uint32_t> slot_of;
    std::vector<std::uint32_t> by_offset;  // slots in the order of their typical starts
    std::set<std::uint16_t> now_and_then;  // names of local work that most ranks do, but not in most steps

    /// Whether spans stop for so long that they would seem to work if they were not taken apart.
    [[nodiscard]] bool has_stops() const {
        return std::any_of(stops.begin(), stops.end(),
                           [](const auto& of) { return of.second.share > least_stopped_share; });
    }
    [[nodiscard]] std::uint32_t end_of_stream(std::uint32_t stream) const {
        return stream + 1 < streams.size() ? streams[stream + 1] : static_cast<std::uint32_t>(slots.size());
    }
};

/// By role.
[[nodiscard]] std::vector<RoleTemplate> find_templates(std::vector<RoleSample>& samples, double tolerance_ms);

}  // namespace cep::tool
