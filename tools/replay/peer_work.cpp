// SPDX-License-Identifier: Apache-2.0
#include "replay/peer_work.hpp"

#include <memory>
#include <unordered_map>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t enough_peers = 200;

class PeerWork {
  public:
    PeerWork(const JobModel& model, const std::vector<std::uint32_t>& ranks)
        : model_(model), is_suspect_(model.roles.of_rank.size()), has_suspect_(model.roles.count()) {
        for (const std::vector<std::uint32_t>& members : model.roles.members) peers_.push_back(members.size());
        for (const std::uint32_t rank : ranks) {
            is_suspect_[rank] = true;
            has_suspect_[model.roles.of_rank[rank]] = true;
            --peers_[model.roles.of_rank[rank]];
        }
    }

    void set_work(const StepGraph& graph, std::span<float> own_ms) {
        for (auto& [key, of_peers] : of_key_) of_peers.clear();
        suspects_.clear();
        for (std::uint32_t node = 0; node < graph.size(); ++node) {
            const NodeKey& key = model_.keys[graph.keys[node]];
            if (key.is_comm) continue;
            const std::uint32_t rank = graph.ranks[node];
            if (is_suspect_[rank]) {
                suspects_.push_back(node);
            } else if (has_suspect_[key.role] && rank % (peers_[key.role] / enough_peers + 1) == 0) {
                of_key_[graph.keys[node]].push_back(static_cast<double>(graph.own_ms[node]));
            }
        }
        for (const std::uint32_t node : suspects_) own_ms[node] = usual_ms(graph.keys[node], own_ms[node]);
    }

  private:
    // What nobody else does in the step is left of a stage; else it is more than the others have to do.
    [[nodiscard]] float usual_ms(std::uint32_t key, float own_ms) {
        const std::vector<double>& of_peers = of_key_[key];
        const std::size_t in_role = peers_[model_.keys[key].role];
        if (in_role > 0 && model_.is_of_few(key) && 2 * of_peers.size() * (in_role / enough_peers + 1) <= in_role)
            return 0;
        if (!of_peers.empty()) return static_cast<float>(median_of(of_peers));
        return in_role == 0 && !model_.roles.are_stages() ? 0 : own_ms;
    }

    const JobModel& model_;
    std::vector<bool> is_suspect_;                                   // by rank
    std::vector<bool> has_suspect_;                                  // by role
    std::vector<std::size_t> peers_;                                 // by role: ranks that are no suspects
    std::vector<std::uint32_t> suspects_;                            // nodes of the step
    std::unordered_map<std::uint32_t, std::vector<double>> of_key_;  // the durations on peers in one step
};

}  // namespace

Scenario with_work_of_peers(const JobModel& model, const std::vector<std::uint32_t>& ranks, std::vector<bool> prompt) {
    const auto peers = std::make_shared<PeerWork>(model, ranks);
    return {[peers](const StepGraph& graph, std::span<float> own_ms) { peers->set_work(graph, own_ms); },
            std::move(prompt)};
}

}  // namespace cep::tool
