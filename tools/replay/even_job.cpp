// SPDX-License-Identifier: Apache-2.0
#include "replay/even_job.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double slowest_share = 0.03;  // of the ranks

class EvenJobFinder {
  public:
    EvenJobFinder(const ReplayedSteps& steps, const SlowRanks& slow, Replay& replay)
        : steps_(steps), model_(steps.model), slow_(slow), replay_(replay) {}

    EvenJob find() {
        find_role_medians();
        find_levels();
        if (job_.loss_ms > 0) {
            find_excess();
            find_slowest();
            find_slowest_stage();
        }
        return std::move(job_);
    }

  private:
    // A slow rank among them does not make a role slow, nor does what few of them do.
    void find_role_medians() {
        job_.role_medians_ms.assign(model_.keys.size(), 0);
        std::map<decltype(NodeKey().place()), std::pair<double, double>> means;
        for (std::uint32_t key = 0; key < model_.keys.size(); ++key) {
            if (steps_.is_comm(key) || model_.is_of_few(key)) continue;
            std::vector<double> of_rank;
            for (const std::uint32_t rank : model_.roles.members[model_.keys[key].role])
                of_rank.push_back(static_cast<double>(steps_.typical.of_rank(key, rank)));
            if (of_rank.empty()) continue;
            job_.role_medians_ms[key] = static_cast<float>(median_of(of_rank));
            auto& [sum, count] = means[model_.keys[key].place()];
            sum += static_cast<double>(job_.role_medians_ms[key]) * static_cast<double>(of_rank.size());
            count += static_cast<double>(of_rank.size());
        }
        job_.even_ms = job_.role_medians_ms;
        for (std::uint32_t key = 0; key < model_.keys.size(); ++key)
            if (const auto found = means.find(model_.keys[key].place()); found != means.end())
                job_.even_ms[key] = static_cast<float>(found->second.first / found->second.second);
    }

    /// With other durations of communication and of local work.
    template <typename Comm, typename Local>
    [[nodiscard]] Scenario scenario(Comm comm, Local local) const {
        return with_work([this, comm, local](const StepGraph& graph, std::size_t node) {
            return steps_.is_comm(graph.keys[node]) ? comm(graph, node) : local(graph, node);
        });
    }

    void find_levels() {
        const auto as_it_was = [](const StepGraph& graph, std::size_t node) { return graph.own_ms[node]; };
        const auto of_all = [this](const StepGraph& graph, std::size_t node) {
            return steps_.typical.of_all(graph.keys[node]);
        };
        const auto of_rank = [this](const StepGraph& graph, std::size_t node) {
            return slow_.is_slow[graph.ranks[node]] ? graph.own_ms[node]
                                                    : steps_.typical.of_rank(graph.keys[node], graph.ranks[node]);
        };
        const auto of_role = [this](const StepGraph& graph, std::size_t node) {
            return steps_.typical.of_role(graph.keys[node]);
        };
        const auto usual = [this](const StepGraph& graph, std::size_t node) {
            return usual_ms(steps_, slow_, graph, node);
        };
        const auto even_stages = [this](const StepGraph& graph, std::size_t node) {
            const float median_ms = job_.role_medians_ms[graph.keys[node]];
            const float own_ms = graph.own_ms[node];
            return median_ms > 0 ? own_ms * (job_.even_ms[graph.keys[node]] / median_ms) : own_ms;
        };
        const auto no_time = [](const StepGraph&, std::size_t) { return 0.0F; };
        const std::vector<Scenario> scenarios = {scenario(as_it_was, as_it_was),   scenario(of_all, as_it_was),
                                                 scenario(of_all, of_rank),        scenario(of_all, of_role),
                                                 scenario(of_all, of_all),         scenario(as_it_was, usual),
                                                 scenario(as_it_was, even_stages), scenario(no_time, as_it_was)};
        const std::vector<double> means_ms = steps_.replayer.mean_steps_ms(scenarios);
        job_.as_it_was_ms = means_ms[0];
        job_.loss_ms = means_ms[0] - means_ms[4];
        job_.comm_saving_ms = means_ms[0] - means_ms[1];
        job_.within_saving_ms = means_ms[0] - means_ms[5];
        job_.stage_saving_ms = means_ms[0] - means_ms[6];
        replay_.ideal_ms = means_ms[4];
        replay_.slowdown = means_ms[4] > 0 ? means_ms[0] / means_ms[4] : 1;
        replay_.unseen_ms = means_ms[0] - means_ms[7];
        if (!(job_.loss_ms > 0)) return;
        const auto share = [&](std::size_t level) { return (means_ms[level] - means_ms[level + 1]) / job_.loss_ms; };
        replay_.shares = {share(0), share(1), share(2), share(3)};
    }

    void find_excess() {
        excess_ms_.assign(steps_.ranks(), 0);
        steps_.for_each_work([this](const StepGraph& graph, std::size_t node) {
            const float over_ms = graph.own_ms[node] - steps_.typical.of_all(graph.keys[node]);
            excess_ms_[graph.ranks[node]] += graph.weight * static_cast<double>(std::max(0.0F, over_ms));
        });
    }

    /// What was observed, but typical work of these ranks; or typical work, but what was observed of these.
    [[nodiscard]] Scenario with_typical(std::span<const std::uint32_t> ranks, bool of_chosen) const {
        return with_work([this, chosen = steps_.chosen(ranks), of_chosen](const StepGraph& graph, std::size_t node) {
            const bool is_chosen = !steps_.is_comm(graph.keys[node]) && chosen[graph.ranks[node]];
            return is_chosen == of_chosen ? steps_.typical.of_all(graph.keys[node]) : graph.own_ms[node];
        });
    }
    [[nodiscard]] static std::vector<std::uint32_t> most_first(const std::vector<double>& excess_ms) {
        std::vector<std::uint32_t> order(excess_ms.size());
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return excess_ms[a] > excess_ms[b]; });
        return order;
    }

    // M_W. The excess bounds what a rank can cost, so that only the first have to be replayed one by one.
    void find_slowest() {
        constexpr std::size_t most_replayed = 8;
        std::vector<std::uint32_t> order = most_first(excess_ms_);
        const auto wanted =
            static_cast<std::size_t>(std::ceil(slowest_share * static_cast<double>(order.size()) - 1e-9));
        if (wanted < most_replayed) {
            order.resize(std::min(order.size(), most_replayed));
            std::vector<Scenario> scenarios;
            for (const std::uint32_t& rank : order) scenarios.push_back(with_typical(std::span(&rank, 1), false));
            const std::vector<double> alone_ms = steps_.replayer.mean_steps_ms(scenarios);
            std::vector<std::pair<double, std::uint32_t>> slowest;
            for (std::size_t i = 0; i < order.size(); ++i) slowest.emplace_back(-alone_ms[i], order[i]);
            std::sort(slowest.begin(), slowest.end());
            for (std::size_t i = 0; i < order.size(); ++i) order[i] = slowest[i].second;
        }
        order.resize(std::min(order.size(), std::max<std::size_t>(1, wanted)));
        replay_.slowest_ranks_share = share_without(steps_.replayer.mean_step_ms(with_typical(order, true)));
    }

    // M_S.
    void find_slowest_stage() {
        constexpr std::size_t most_stages = 16;
        const Roles& roles = model_.roles;
        if (roles.count() < 2) return;
        std::vector<double> of_role_ms(roles.count());
        for (std::uint32_t rank = 0; rank < steps_.ranks(); ++rank) of_role_ms[roles.of_rank[rank]] += excess_ms_[rank];
        std::vector<std::uint32_t> order = most_first(of_role_ms);
        order.resize(std::min(order.size(), most_stages));
        std::vector<Scenario> scenarios;
        for (const std::uint32_t role : order) scenarios.push_back(with_typical(roles.members[role], true));
        const std::vector<double> without_ms = steps_.replayer.mean_steps_ms(scenarios);
        replay_.slowest_stage_share = share_without(*std::min_element(without_ms.begin(), without_ms.end()));
    }

    [[nodiscard]] double share_without(double step_ms) const { return (job_.as_it_was_ms - step_ms) / job_.loss_ms; }

    const ReplayedSteps& steps_;
    const JobModel& model_;
    const SlowRanks& slow_;
    Replay& replay_;
    EvenJob job_;
    std::vector<double> excess_ms_;  // by rank: what it can cost at most
};

}  // namespace

EvenJob find_even_job(const ReplayedSteps& steps, const SlowRanks& slow, Replay& replay) {
    return EvenJobFinder(steps, slow, replay).find();
}

}  // namespace cep::tool
