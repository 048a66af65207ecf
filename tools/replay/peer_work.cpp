// SPDX-License-Identifier: Apache-2.0
#include "replay/peer_work.hpp"

#include <algorithm>
#include <cmath>
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

std::vector<std::vector<std::uint32_t>> PeerWork::suspect_sets(const std::vector<std::uint32_t>& order) const {
    constexpr std::size_t most_sets = 16;
    const std::vector<std::vector<std::uint32_t>>& members = model_.roles.members;
    constexpr std::size_t fewest_ranks = 3;  // of two, nobody knows which is slow
    if (order.size() < fewest_ranks) return {};
    const std::size_t most = std::max<std::size_t>(1, order.size() / 4);
    std::vector<std::size_t> taken(members.size());
    std::vector<std::uint32_t> set;
    std::vector<std::vector<std::uint32_t>> sets;
    std::size_t wanted = 1;
    for (const std::uint32_t rank : order) {
        const std::uint32_t role = model_.roles.of_rank[rank];
        const bool is_alone = members[role].size() == 1 && members.size() > 2;
        if (!is_alone && 2 * (taken[role] + 1) > members[role].size()) continue;
        ++taken[role];
        set.push_back(rank);
        if (set.size() == wanted) {
            sets.push_back(set);
            wanted += wanted < 4 ? 1 : wanted / 4 + 1;
        }
        if (set.size() == most || sets.size() == most_sets) break;
    }
    add_slowest_host(order, sets);
    return sets;
}

// All ranks of the host whose ranks come first on average.
void PeerWork::add_slowest_host(const std::vector<std::uint32_t>& order,
                                std::vector<std::vector<std::uint32_t>>& sets) const {
    const std::vector<PlacedRank>& ranks = model_.rows->ranks();
    std::vector<double> places(model_.rows->hosts().size());
    std::vector<std::vector<std::uint32_t>> of_host(places.size());
    for (std::size_t place = 0; place < order.size(); ++place) {
        const PlacedRank& rank = ranks[order[place]];
        if (!rank.host_is_known) return;
        of_host[rank.host].push_back(order[place]);
        places[rank.host] += static_cast<double>(place);
    }
    for (std::size_t host = 0; host < places.size(); ++host) places[host] /= static_cast<double>(of_host[host].size());
    const std::vector<std::uint32_t>& slowest =
        of_host[static_cast<std::size_t>(std::min_element(places.begin(), places.end()) - places.begin())];
    if (slowest.size() < 2 || 2 * slowest.size() > order.size()) return;
    std::vector<std::size_t> taken(model_.roles.count());
    for (const std::uint32_t rank : slowest)
        if (const std::uint32_t role = model_.roles.of_rank[rank];
            2 * ++taken[role] > model_.roles.members[role].size())
            return;
    const auto larger = std::find_if(sets.begin(), sets.end(), [&slowest](const std::vector<std::uint32_t>& set) {
        return set.size() >= slowest.size();
    });
    sets.insert(larger, slowest);
}

Scenario PeerWork::without(const std::vector<std::uint32_t>& ranks) const {
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
    return [this, is_suspect = std::move(is_suspect), has_suspect = std::move(has_suspect), peers = std::move(peers),
            needs_all, values](const StepGraph& graph, std::span<float> own_ms) {
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
            if (!of->empty()) own_ms[node] = static_cast<float>(median_of(*of));
        }
    };
}

}  // namespace cep::tool
