// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/hash.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double pause_deviations = 6;      // of the same work in other steps
constexpr double least_pause_share = 0.05;  // of a step
constexpr double most_pauses = 0.15;        // of the instances of a piece: what is long more often is no pause
constexpr double most_of_one_rank = 0.5;    // of the time of all pauses: else it is that rank
constexpr std::size_t least_pauses = 4;

class PauseSearch {
  public:
    PauseSearch(std::span<const StepGraph> graphs, const JobModel& model) : graphs_(graphs), model_(model) {}

    std::optional<SpecialCause> find() {
        find_limits();
        std::map<std::uint16_t, double> by_phase;
        std::map<std::uint32_t, double> by_rank;
        std::vector<double> pauses_ms;
        for (const StepGraph& graph : graphs_)
            for (std::size_t node = 0; node < graph.size(); ++node) {
                const std::uint32_t key = graph.keys[node];
                if (!((*limits_)[key].most_ms < graph.own_ms[node])) continue;
                const auto pause_ms = static_cast<double>(graph.own_ms[node] - (*limits_)[key].usual_ms);
                by_phase[model_.keys[key].name] += pause_ms;
                by_rank[graph.ranks[node]] += pause_ms;
                pauses_ms.push_back(pause_ms);
            }
        if (pauses_ms.size() < least_pauses) return std::nullopt;
        const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
        double all_ms = 0;
        for (const double ms : pauses_ms) all_ms += ms;
        if (std::max_element(by_rank.begin(), by_rank.end(), by_value)->second > most_of_one_rank * all_ms)
            return std::nullopt;
        Finding cause{.kind = FindingKind::pauses};
        const auto phase = std::max_element(by_phase.begin(), by_phase.end(), by_value);
        cause.phase = std::string(model_.rows->names()[phase->first].name);
        cause.slow_ms = median_of(pauses_ms);
        cause.usual_ms = 0;
        for (const auto& [rank, ms] : by_rank) cause.ranks.push_back(model_.rows->ranks()[rank].rank);
        return SpecialCause{std::move(cause), {[limits = limits_](const StepGraph& graph, std::span<float> own_ms) {
                                for (std::size_t node = 0; node < own_ms.size(); ++node)
                                    if (const Limit& limit = (*limits)[graph.keys[node]]; limit.most_ms < own_ms[node])
                                        own_ms[node] = limit.usual_ms;
                            }}};
    }

  private:
    struct Limit {
        float usual_ms = 0;
        float most_ms = std::numeric_limits<float>::infinity();  // what is longer is a pause
    };

    void find_limits() {
        constexpr std::size_t most_steps = 500;
        std::vector<std::vector<double>> of_key(model_.keys.size());
        std::vector<double> steps_ms;
        const std::size_t wanted = std::min(graphs_.size(), most_steps);
        for (std::size_t i = 0; i < wanted; ++i) {
            const StepGraph& graph = graphs_[place_in_part(i, wanted, graphs_.size())];
            steps_ms.push_back(graph.observed_ms);
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (!model_.keys[graph.keys[node]].is_comm)
                    of_key[graph.keys[node]].push_back(static_cast<double>(graph.own_ms[node]));
        }
        const double least_ms = least_pause_share * median_of(steps_ms);
        for (std::size_t key = 0; key < of_key.size(); ++key) {
            if (of_key[key].size() < least_pauses) continue;
            const double usual_ms = median_of(of_key[key]);
            const double most_ms = usual_ms + std::max(pause_deviations * robust_deviation(of_key[key]), least_ms);
            if (quantile_of(of_key[key], 1 - most_pauses) > most_ms) continue;
            (*limits_)[key] = {static_cast<float>(usual_ms), static_cast<float>(most_ms)};
        }
    }

    std::span<const StepGraph> graphs_;
    const JobModel& model_;
    std::shared_ptr<std::vector<Limit>> limits_ = std::make_shared<std::vector<Limit>>(model_.keys.size());
};

}  // namespace

std::optional<SpecialCause> find_pauses(std::span<const StepGraph> graphs, const JobModel& model) {
    return PauseSearch(graphs, model).find();
}

}  // namespace cep::tool
