// SPDX-License-Identifier: Apache-2.0
#include "replay/peer_work.hpp"

#include <map>
#include <memory>
#include <unordered_map>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t enough_peers = 200;

}  // namespace

/// The durations on peers in one step.
struct PeerWork::Values {
    std::unordered_map<std::uint32_t, std::vector<double>> of_key;
    std::unordered_map<std::uint32_t, std::vector<double>> of_place;
};

PeerWork::PeerWork(const JobModel& model) : model_(model) {
    std::map<decltype(NodeKey().place()), std::uint32_t> places;
    for (const NodeKey& key : model.keys)
        place_of_.push_back(places.try_emplace(key.place(), static_cast<std::uint32_t>(places.size())).first->second);
}

Scenario PeerWork::without(const std::vector<std::uint32_t>& ranks, std::vector<bool> prompt) const {
    std::vector<bool> is_suspect(model_.roles.of_rank.size());
    std::vector<bool> has_suspect(model_.roles.count());
    std::vector<std::size_t> peers;
    for (const std::vector<std::uint32_t>& members : model_.roles.members) peers.push_back(members.size());
    for (const std::uint32_t rank : ranks) {
        is_suspect[rank] = true;
        has_suspect[model_.roles.of_rank[rank]] = true;
        --peers[model_.roles.of_rank[rank]];
    }
    bool needs_all = false;
    for (std::size_t role = 0; role < peers.size(); ++role) needs_all |= has_suspect[role] && peers[role] == 0;
    const auto values = std::make_shared<Values>();
    const auto set_work = [this, is_suspect = std::move(is_suspect), has_suspect = std::move(has_suspect),
                           peers = std::move(peers), needs_all,
                           values](const StepGraph& graph, std::span<float> own_ms) {
        for (auto& [key, of] : values->of_key) of.clear();
        for (auto& [place, of] : values->of_place) of.clear();
        std::vector<std::uint32_t> suspects;
        for (std::uint32_t node = 0; node < graph.size(); ++node) {
            const std::uint32_t key = graph.keys[node];
            if (model_.keys[key].is_comm) continue;
            const std::uint32_t rank = graph.ranks[node];
            if (is_suspect[rank]) {
                suspects.push_back(node);
                continue;
            }
            const auto ms = static_cast<double>(graph.own_ms[node]);
            const std::uint32_t role = model_.keys[key].role;
            if (has_suspect[role] && rank % (peers[role] / enough_peers + 1) == 0) values->of_key[key].push_back(ms);
            if (needs_all && values->of_place[place_of_[key]].size() < enough_peers)
                values->of_place[place_of_[key]].push_back(ms);
        }
        for (const std::uint32_t node : suspects) {
            const std::uint32_t key = graph.keys[node];
            const std::vector<double>* of = &values->of_key[key];
            const std::size_t in_role = peers[model_.keys[key].role];
            if (in_role > 0 && model_.is_of_few(key) && 2 * of->size() * (in_role / enough_peers + 1) <= in_role) {
                own_ms[node] = 0;
                continue;
            }
            if (of->empty()) of = &values->of_place[place_of_[key]];
            // What nobody else does in the step is left of a stage; else it is more than the others have to do.
            if (!of->empty())
                own_ms[node] = static_cast<float>(median_of(*of));
            else if (in_role == 0 && !model_.roles.are_stages())
                own_ms[node] = 0;
        }
    };
    return {set_work, std::move(prompt)};
}

}  // namespace cep::tool
