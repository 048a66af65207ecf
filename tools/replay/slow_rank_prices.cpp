// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t enough_peers = 200;
constexpr double mostly_routed = 0.8;  // of what ranks exceed their peers by

class PeerWork {
  public:
    PeerWork(const JobModel& model, std::vector<bool> is_suspect)
        : model_(model),
          is_suspect_(std::move(is_suspect)),
          has_suspect_(model.roles.count()),
          peers_(has_suspect_.size()) {
        for (std::size_t rank = 0; rank < is_suspect_.size(); ++rank)
            if (is_suspect_[rank])
                has_suspect_[model.roles.of_rank[rank]] = true;
            else
                ++peers_[model.roles.of_rank[rank]];
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

class SlowRankPrices {
  public:
    SlowRankPrices(const JobReplay& steps, std::vector<Finding>& slow, Replay& replay)
        : steps_(steps), model_(steps.model()), slow_(slow), replay_(replay) {}

    void drop_loaded(bool has_stage, const std::vector<bool>& is_routed) {
        const std::vector<bool> is_slow = steps_.ranks_of(slow_);
        std::vector<bool> is_of_slow_stage(is_slow.size(), true);
        for (std::size_t rank = 0; rank < is_slow.size(); ++rank)
            for (const std::uint32_t other : model_.roles.members[model_.roles.of_rank[rank]])
                if (!is_slow[other]) is_of_slow_stage[rank] = false;
        const std::size_t dropped = std::erase_if(slow_, [&](const Finding& one) {
            const std::vector<bool> is_chosen = steps_.ranks_of({&one, 1});
            return is_routed_work(is_chosen, is_routed) ||
                   (has_stage &&
                    std::equal(is_chosen.begin(), is_chosen.end(), is_of_slow_stage.begin(), std::less_equal<>()));
        });
        replay_.any_loaded = dropped > 0;
    }

    std::optional<Finding> price() {
        constexpr std::size_t most_suspects = 64;
        if (slow_.empty()) return std::nullopt;
        std::vector<Scenario> scenarios = {as_it_was, without_all_but(nullptr)};
        for (std::size_t i = 0; i < std::min(most_suspects, slow_.size()); ++i)
            scenarios.push_back(without_all_but(&slow_[i]));
        const std::vector<std::vector<double>> steps_ms = steps_.replayer().steps_ms(scenarios);
        const auto mean_ms = [&](std::size_t i) { return steps_.replayer().mean_ms(steps_ms[i]); };
        const double all_ms = mean_ms(0);
        if (!(all_ms > 0)) return std::nullopt;
        const bool sees_all = sees_waiting(1 - mean_ms(1) / all_ms);
        for (std::size_t i = 2; i < steps_ms.size(); ++i) {
            Finding& one = slow_[i - 2];
            one.is_approximate = is_waited_for(one) && (!sees_all || !one.is_waiting_known);
            if (!one.is_waiting_known) continue;
            if (one.is_approximate) {
                // Lost rows look like less work.
                if (replay_.has_nearly_all_rows()) one.cost_share = shown_by_waiters(one);
                continue;
            }
            one.cost_share = (mean_ms(i) - mean_ms(1)) / all_ms;
            one.is_costly = *one.cost_share >= Replay::least_cost;
        }
        for (std::size_t i = 0; i < steps_.graphs().size(); ++i) {
            const StepGraph& graph = steps_.graphs()[i];
            const bool is_known = graph.weight > 0 || graph.ends.size() == steps_.ranks();
            replay_.costs_ms.emplace_back(model_.rows->steps()[graph.step],
                                          is_known ? steps_ms[0][i] - steps_ms[1][i] : NAN);
        }
        // What the replay does not need to take as long as was observed is waiting.
        std::erase_if(slow_, [](const Finding& one) { return one.phase == uncovered_name && !one.is_costly; });
        return price_all(all_ms);
    }

  private:
    [[nodiscard]] static bool is_waited_for(const Finding& one) {
        return one.keeps_waiting && one.is_costly && one.phase != uncovered_name;
    }

    // What hides work of the slow rank from its phases may hide that of the others, too.
    [[nodiscard]] static double shown_by_waiters(const Finding& one) {
        return one.cost_share.value_or(one.waited_share);
    }

    // The replay knows what is in the way of what. But where ranks wait inside of their work and no row shows it, it
    // takes that for work, and says too little of what all slow ranks cost.
    [[nodiscard]] bool sees_waiting(double share_of_all) const {
        constexpr double least_agreement = 0.5;
        if (replay_.stages > 1 && !replay_.stages_are_inferred) return true;
        if (replay_.has_stops && !replay_.keeps_all_delays) return true;
        double most = 0;
        for (const Finding& one : slow_)
            if (is_waited_for(one)) most = std::max(most, shown_by_waiters(one));
        return share_of_all >= least_agreement * most;
    }

    [[nodiscard]] bool is_routed_work(const std::vector<bool>& is_chosen, const std::vector<bool>& is_routed) const {
        double all_ms = 0;
        double routed_ms = 0;
        steps_.for_each_work([&](const StepGraph& graph, std::size_t node) {
            if (!is_chosen[graph.ranks[node]]) return;
            const std::uint32_t key = graph.keys[node];
            const double over_ms =
                graph.weight * static_cast<double>(graph.own_ms[node] - steps_.typical().of_role(key));
            all_ms += over_ms;
            if (is_routed[key]) routed_ms += over_ms;
        });
        return routed_ms > 0 && routed_ms > mostly_routed * all_ms;
    }

    template <typename Use>
    [[nodiscard]] Scenario without_those(Use use) const {
        const auto peers = std::make_shared<PeerWork>(model_, steps_.ranks_of(slow_, use));
        return {[peers](const StepGraph& graph, std::span<float> own_ms) { peers->set_work(graph, own_ms); },
                steps_.ranks_of(slow_, [&](const Finding& one) { return use(one) && one.is_slow_uncovered(); }),
                steps_.ranks_of(slow_, [&](const Finding& one) { return use(one) && one.late_host.has_value(); })};
    }
    [[nodiscard]] Scenario without_all_but(const Finding* kept) const {
        return without_those([kept](const Finding& one) { return &one != kept; });
    }

    std::optional<Finding> price_all(double all_ms) {
        Finding all{.kind = FindingKind::ranks};
        for (const Finding& one : slow_)
            if (one.is_costly) all.ranks.insert(all.ranks.end(), one.ranks.begin(), one.ranks.end());
        if (all.ranks.empty()) return std::nullopt;
        std::sort(all.ranks.begin(), all.ranks.end());
        const Scenario without = without_those([](const Finding& one) { return one.is_costly; });
        replay_.saving = 1 - steps_.replayer().mean_step_ms(without) / all_ms;
        const std::vector<bool> is_slow = steps_.ranks_of({&all, 1});
        replay_.peers_may_be_rested = may_be_rested(is_slow, without);
        if (std::any_of(slow_.begin(), slow_.end(), [](const Finding& one) { return one.is_approximate; }))
            return std::nullopt;
        describe(all, is_slow);
        return all;
    }

    [[nodiscard]] PhaseSums work_of(const std::vector<bool>& ranks, const Scenario& scenario) const {
        PhaseSums sums_ms = steps_.no_sums();
        for (const StepGraph& graph : steps_.graphs()) {
            std::vector<float> own_ms = graph.own_ms;
            scenario.set_work(graph, own_ms);
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (ranks[graph.ranks[node]] && !steps_.is_comm(graph.keys[node]))
                    sums_ms[model_.keys[graph.keys[node]].name] += graph.weight * static_cast<double>(own_ms[node]);
        }
        return sums_ms;
    }

    // GPUs at their power limit run faster after they have waited. Their power goes with the square of their clock, or
    // more, so the clock gains at most half of the share of time that they wait. If that explains some of what the slow
    // ranks exceed their peers by, the peers will lose it when they wait no more.
    [[nodiscard]] bool may_be_rested(const std::vector<bool>& is_slow, const Scenario& without) const {
        const PhaseSums own_ms = work_of(is_slow, as_it_was);
        const PhaseSums usual_ms = work_of(is_slow, without);
        double rested_ms = 0;
        for (std::size_t phase = 0; phase < own_ms.size(); ++phase)
            if (own_ms[phase] <= (1 + replay_.saving / 2) * usual_ms[phase])
                rested_ms += own_ms[phase] - usual_ms[phase];
        const auto slow = static_cast<std::size_t>(std::count(is_slow.begin(), is_slow.end(), true));
        const double all_ms = replay_.observed_ms * static_cast<double>(steps_.graphs().size() * slow);
        return rested_ms > Replay::most_error * all_ms;
    }

    void describe(Finding& cause, const std::vector<bool>& is_slow) const {
        const auto costs_less = [](const Finding& a, const Finding& b) {
            return std::pair(a.is_costly, a.cost_share.value_or(0)) < std::pair(b.is_costly, b.cost_share.value_or(0));
        };
        cause.phase = std::max_element(slow_.begin(), slow_.end(), costs_less)->phase;
        const auto first = static_cast<std::size_t>(std::find(is_slow.begin(), is_slow.end(), true) - is_slow.begin());
        const bool is_one = std::count(is_slow.begin(), is_slow.end(), true) == 1;
        if (is_one) cause.hosts = {model_.rows->hosts()[model_.rows->ranks()[first].host]};
        if (is_one && model_.roles.count() > 1) cause.stage = model_.roles.stages[model_.roles.of_rank[first]];
        cause.text.label = name_of(cause.ranks, cause.hosts);
        cause.text.what = cause.text.label + (is_one ? " is slow" : " are slow") + cause.in_phase();
        cause.text.without = is_one ? "without it" : "without them";
    }

    const JobReplay& steps_;
    const JobModel& model_;
    std::vector<Finding>& slow_;
    Replay& replay_;
};

}  // namespace

std::optional<Finding> price_slow_ranks(const JobReplay& steps, bool has_stage, const std::vector<bool>& is_routed,
                                        std::vector<Finding>& slow, Replay& replay) {
    SlowRankPrices prices(steps, slow, replay);
    prices.drop_loaded(has_stage, is_routed);
    return prices.price();
}

}  // namespace cep::tool
