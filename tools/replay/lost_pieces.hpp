// SPDX-License-Identifier: Apache-2.0
//
// Lost pieces: what a rank should have in a step by its role's template, and has no row for.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/role_template.hpp"

namespace cep::tool {

/// By slot of the template: the index of its piece; no_index for none.
using PiecesBySlot = std::vector<std::uint32_t>;

/// Sets the slots of pieces. Returns how many slots have none.
std::size_t assign_slots(RankPieces& pieces, const RoleTemplate& role, PiecesBySlot& by_slot);
/// Adds a piece for each slot that has none, where what it waits for says.
void put_back_lost(RankPieces& pieces, const RoleTemplate& role, PiecesBySlot& by_slot, double tolerance_ms);

}  // namespace cep::tool
