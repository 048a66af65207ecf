// SPDX-License-Identifier: Apache-2.0
#include "verdict/peers.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace cep::tool {
namespace {

constexpr std::size_t least_peers = 3;

}  // namespace

std::vector<PeerGroup> find_peers(const JobTable& table, bool each_is_stage) {
    if (each_is_stage) {
        std::vector<PeerGroup> singles;
        for (std::size_t rank = 0; rank < table.ranks.size(); ++rank)
            singles.push_back({static_cast<std::int64_t>(rank), std::nullopt, {rank}});
        return singles;
    }
    using Stage = std::optional<std::int64_t>;
    std::map<Stage, std::map<Stage, PeerGroup>> stages;
    for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
        const RankRole& facts = table.ranks[rank];
        PeerGroup& group = stages[facts.pp][facts.tp];
        group.pp = facts.pp;
        group.tp = facts.tp;
        group.ranks.push_back(rank);
    }
    std::vector<PeerGroup> groups;
    for (auto& [stage, positions] : stages) {
        const bool enough = std::all_of(positions.begin(), positions.end(),
                                        [](const auto& item) { return item.second.ranks.size() >= least_peers; });
        PeerGroup whole_stage{stage, std::nullopt, {}};
        for (auto& [position, group] : positions) {
            if (enough) {
                groups.push_back(std::move(group));
            } else {
                whole_stage.ranks.insert(whole_stage.ranks.end(), group.ranks.begin(), group.ranks.end());
            }
        }
        if (!enough) groups.push_back(std::move(whole_stage));
    }
    for (PeerGroup& group : groups) std::sort(group.ranks.begin(), group.ranks.end());
    return groups;
}

std::set<Operation> operations_of(const RankSeries& ranks) {
    std::set<Operation> operations;
    for (const SeriesOfRank& of : all_series(ranks))
        for (const PhaseSeries& phase : of.series->phases)
            if (phase.kind == schema::Kind::comm) operations.insert(operation_of_name(phase.name));
    return operations;
}

}  // namespace cep::tool
