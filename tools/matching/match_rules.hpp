// SPDX-License-Identifier: Apache-2.0
//
// Match rules: what tells collectives apart that the rows alone do not.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "matching/collectives.hpp"

namespace cep::tool {

/// Where a rank is in the parallel layout: pp, dp, tp, ep, cp.
using RankPlace = std::array<std::optional<std::int64_t>, 5>;

/// One name may stand for the groups of many communicators: then these are told apart by the places of their ranks in
/// the layout. Phases and ranks are numbers here.
class MatchRules {
  public:
    /// `places`: of all ranks.
    explicit MatchRules(std::vector<RankPlace> places) : places_(std::move(places)) {}

    [[nodiscard]] CollectiveId id_of(std::uint32_t collective, std::uint16_t name, std::uint16_t stream,
                                     std::uint32_t seq, std::uint32_t rank) const {
        CollectiveId id = collective_id(collective, name, seq, rank);
        if (const auto found = partners_.find(half(name, seq, rank)); found != partners_.end())
            return mix_bits(
                id ^ mix_bits(std::uint64_t{std::min(rank, found->second)} << 32 | std::max(rank, found->second)));
        const auto known = coordinates_.find(std::uint32_t{name} << 16 | stream);
        if (known == coordinates_.end()) return id;
        const RankPlace& place = places_[rank];
        for (std::size_t i = 0; i < place.size(); ++i)
            if ((known->second >> i & 1) != 0)
                id = mix_bits(id * 31 + static_cast<std::uint64_t>(place[i].value_or(-1) + 1));
        return id;
    }
    /// By bits: the coordinates by which the groups of a phase on a stream are told apart.
    void tell_apart(std::uint16_t name, std::uint16_t stream, std::uint8_t coordinates) {
        coordinates_[std::uint32_t{name} << 16 | stream] |= coordinates;
    }
    /// Rows of a phase are halves of transfers, whose other halves are on these ranks.
    void pair_up(std::uint16_t name, std::uint32_t seq, std::uint32_t rank, std::uint32_t partner) {
        partners_[half(name, seq, rank)] = partner;
    }

  private:
    [[nodiscard]] static std::uint64_t half(std::uint16_t name, std::uint32_t seq, std::uint32_t rank) {
        return (std::uint64_t{rank} << 32 | std::uint64_t{name} << 18) + seq;
    }

    std::vector<RankPlace> places_;
    std::unordered_map<std::uint32_t, std::uint8_t> coordinates_;  // by name and stream
    std::unordered_map<std::uint64_t, std::uint32_t> partners_;
};

}  // namespace cep::tool
