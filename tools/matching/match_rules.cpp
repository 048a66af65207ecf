// SPDX-License-Identifier: Apache-2.0
#include "matching/match_rules.hpp"

#include <algorithm>

namespace cep::tool {

CollectiveId MatchRules::id_of(std::uint32_t collective, std::uint16_t name, std::uint16_t stream, std::uint32_t seq,
                               std::uint32_t rank) const {
    CollectiveId id = collective_id(collective, name, seq);
    if (!partners_.empty())
        if (const auto found = partners_.find(half(name, seq, rank)); found != partners_.end())
            return mix_bits(
                id ^ mix_bits(std::uint64_t{std::min(rank, found->second)} << 32 | std::max(rank, found->second)));
    if (coordinates_.empty()) return id;
    const auto known = coordinates_.find(std::uint32_t{name} << 16 | stream);
    const std::uint8_t coordinates = known == coordinates_.end() ? 0 : known->second;
    const RankPlace& place = places_[rank];
    for (std::size_t i = 0; i < place.size() && coordinates != 0; ++i)
        if ((coordinates >> i & 1) != 0) id = mix_bits(id * 31 + static_cast<std::uint64_t>(place[i].value_or(-1) + 1));
    return id;
}

}  // namespace cep::tool
