// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "base/parallel.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double slowest_share = 0.03;  // of the ranks
constexpr double least_known = 0.95;    // of the work: with less, what pauses cost is approximate
constexpr double most_of_it = 0.8;      // of what is lost to transfers: slow links are all there is to say of them

/// What steps would take if their work were balanced, its sources evened out one after the other.
struct BalancedJob {
    double as_it_was_ms = 0;  // a step, replayed
    double loss_ms = 0;       // against one with typical durations
    double comm_saving_ms = 0;
    double within_saving_ms = 0;
    double stage_saving_ms = 0;
    std::vector<float> role_medians_ms;  // by key: over the means of ranks; 0 of what few of them do
    std::vector<float> balanced_ms;      // by key: the mean of these over stages

    [[nodiscard]] double share_of(double saving_ms) const {
        return is_uneven() ? std::min(1.0, saving_ms / loss_ms) : 0;
    }
    /// Whether there is anything to gain: of next to nothing, no share says anything.
    [[nodiscard]] bool is_uneven() const { return loss_ms > Replay::least_cost * as_it_was_ms; }
};

/// Ranks that are slow, in all or some of their steps.
struct SlowRanks {
    std::vector<bool> is_slow;  // by rank
    bool any = false;
    std::vector<bool> is_late{};         // by rank: in time that no phase covers
    std::vector<double> uncovered_ms{};  // by rank: how much that is at most, in all steps
};

/// What local work usually takes. If no rank is slow, they differ by chance, which is part of what varies within them;
/// what few do is no chance. How a slow rank varies is how slow it is.
float usual_ms(const JobReplay& steps, const SlowRanks& slow, const StepGraph& graph, std::size_t node) {
    const std::uint32_t key = graph.keys[node];
    const std::uint32_t rank = graph.ranks[node];
    if (slow.is_slow[rank]) return graph.own_ms[node];
    return slow.any || steps.model().is_of_few(key) ? steps.typical().of_rank(key, rank) : steps.typical().of_role(key);
}

class BalancedJobFinder {
  public:
    BalancedJobFinder(const JobReplay& steps, const SlowRanks& slow, Replay& replay)
        : steps_(steps), model_(steps.model()), slow_(slow), replay_(replay) {}

    BalancedJob find() {
        find_role_medians();
        find_levels();
        if (job_.is_uneven()) {
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
        std::map<decltype(NodeKey().position()), std::pair<double, double>> means;
        for (std::uint32_t key = 0; key < model_.keys.size(); ++key) {
            if (steps_.is_comm(key) || model_.is_of_few(key)) continue;
            std::vector<double> of_rank;
            for (const std::uint32_t rank : model_.roles.members[model_.keys[key].role])
                of_rank.push_back(static_cast<double>(steps_.typical().of_rank(key, rank)));
            if (of_rank.empty()) continue;
            job_.role_medians_ms[key] = static_cast<float>(median_of(of_rank));
            auto& [sum, count] = means[model_.keys[key].position()];
            sum += static_cast<double>(job_.role_medians_ms[key]) * static_cast<double>(of_rank.size());
            count += static_cast<double>(of_rank.size());
        }
        job_.balanced_ms = job_.role_medians_ms;
        for (std::uint32_t key = 0; key < model_.keys.size(); ++key)
            if (const auto found = means.find(model_.keys[key].position()); found != means.end())
                job_.balanced_ms[key] = static_cast<float>(found->second.first / found->second.second);
    }

    /// With other durations of communication and of local work. `prompt`: see Scenario.
    template <typename Comm, typename Local>
    [[nodiscard]] Scenario scenario(Comm comm, Local local, std::vector<bool> prompt = {}) const {
        Scenario with = with_work([this, comm, local](const StepGraph& graph, std::size_t node) {
            return steps_.is_comm(graph.keys[node]) ? comm(graph, node) : local(graph, node);
        });
        with.prompt = std::move(prompt);
        return with;
    }

    void find_levels() {
        const auto as_it_was = [](const StepGraph& graph, std::size_t node) { return graph.own_ms[node]; };
        const auto of_all = [this](const StepGraph& graph, std::size_t node) {
            return steps_.typical().of_all(graph.keys[node]);
        };
        const auto of_rank = [this](const StepGraph& graph, std::size_t node) {
            return slow_.is_slow[graph.ranks[node]] ? graph.own_ms[node]
                                                    : steps_.typical().of_rank(graph.keys[node], graph.ranks[node]);
        };
        const auto of_role = [this](const StepGraph& graph, std::size_t node) {
            return steps_.typical().of_role(graph.keys[node]);
        };
        const auto usual = [this](const StepGraph& graph, std::size_t node) {
            return usual_ms(steps_, slow_, graph, node);
        };
        const auto balanced_stages = [this](const StepGraph& graph, std::size_t node) {
            const float median_ms = job_.role_medians_ms[graph.keys[node]];
            const float own_ms = graph.own_ms[node];
            return median_ms > 0 ? own_ms * (job_.balanced_ms[graph.keys[node]] / median_ms) : own_ms;
        };
        const auto no_time = [](const StepGraph&, std::size_t) { return 0.0F; };
        std::vector<Scenario> scenarios = {scenario(as_it_was, as_it_was),
                                           scenario(of_all, as_it_was),
                                           scenario(of_all, of_rank),
                                           scenario(of_all, of_role, slow_.is_late),
                                           scenario(of_all, of_all, slow_.is_late),
                                           scenario(as_it_was, usual),
                                           scenario(as_it_was, balanced_stages),
                                           scenario(no_time, as_it_was)};
        // What a host launches behind work that varies varies with it.
        std::vector<bool> usual_hosts = slow_.is_slow;
        usual_hosts.flip();
        scenarios[2].usual_hosts = scenarios[5].usual_hosts = usual_hosts;
        scenarios[3].usual_hosts = scenarios[4].usual_hosts = std::vector<bool>(steps_.ranks(), true);
        const std::vector<double> means_ms = steps_.replayer().mean_steps_ms(scenarios);
        job_.as_it_was_ms = means_ms[0];
        job_.loss_ms = means_ms[0] - means_ms[4];
        job_.comm_saving_ms = means_ms[0] - means_ms[1];
        job_.within_saving_ms = means_ms[0] - means_ms[5];
        job_.stage_saving_ms = means_ms[0] - means_ms[6];
        replay_.ideal_ms = means_ms[4];
        replay_.slowdown = means_ms[4] > 0 ? means_ms[0] / means_ms[4] : 1;
        replay_.unseen_ms = means_ms[0] - means_ms[7];
        if (!job_.is_uneven()) return;
        const auto share = [&](std::size_t level) { return (means_ms[level] - means_ms[level + 1]) / job_.loss_ms; };
        replay_.shares = {share(0), share(1), share(2), share(3)};
    }

    void find_excess() {
        excess_ms_.assign(steps_.ranks(), 0);
        steps_.for_each_work([this](const StepGraph& graph, std::size_t node) {
            const float over_ms = graph.own_ms[node] - steps_.typical().of_all(graph.keys[node]);
            excess_ms_[graph.ranks[node]] += graph.weight * static_cast<double>(std::max(0.0F, over_ms));
        });
        for (std::size_t rank = 0; rank < excess_ms_.size(); ++rank) excess_ms_[rank] += slow_.uncovered_ms[rank];
    }

    /// What was observed, but typical work of these ranks; or typical work, but what was observed of these.
    [[nodiscard]] Scenario with_typical(std::span<const std::uint32_t> ranks, bool of_chosen) const {
        std::vector<bool> chosen(steps_.ranks());
        for (const std::uint32_t rank : ranks) chosen[rank] = true;
        Scenario with = with_work([this, chosen, of_chosen](const StepGraph& graph, std::size_t node) {
            const bool is_chosen = !steps_.is_comm(graph.keys[node]) && chosen[graph.ranks[node]];
            return is_chosen == of_chosen ? steps_.typical().of_all(graph.keys[node]) : graph.own_ms[node];
        });
        with.prompt = slow_.is_late;
        for (std::size_t rank = 0; rank < chosen.size(); ++rank)
            if (chosen[rank] != of_chosen) with.prompt[rank] = false;
        return with;
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
            const std::vector<double> alone_ms = steps_.replayer().mean_steps_ms(scenarios);
            std::vector<std::pair<double, std::uint32_t>> slowest;
            for (std::size_t i = 0; i < order.size(); ++i) slowest.emplace_back(-alone_ms[i], order[i]);
            std::sort(slowest.begin(), slowest.end());
            for (std::size_t i = 0; i < order.size(); ++i) order[i] = slowest[i].second;
        }
        order.resize(std::min(order.size(), std::max<std::size_t>(1, wanted)));
        replay_.slowest_ranks_share = share_without(steps_.replayer().mean_step_ms(with_typical(order, true)));
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
        const std::vector<double> without_ms = steps_.replayer().mean_steps_ms(scenarios);
        replay_.slowest_stage_share = share_without(*std::min_element(without_ms.begin(), without_ms.end()));
    }

    [[nodiscard]] double share_without(double step_ms) const { return (job_.as_it_was_ms - step_ms) / job_.loss_ms; }

    const JobReplay& steps_;
    const JobModel& model_;
    const SlowRanks& slow_;
    Replay& replay_;
    BalancedJob job_;
    std::vector<double> excess_ms_;  // by rank: what it can cost at most
};

class CauseFinder {
  public:
    CauseFinder(const JobReplay& steps, Replay& replay, std::vector<Finding>& findings)
        : steps_(steps), model_(steps.model()), replay_(replay), findings_(findings) {}

    void find() {
        std::copy_if(findings_.begin(), findings_.end(), std::back_inserter(slow_), is_of_slow_ranks);
        std::erase_if(findings_, is_of_slow_ranks);
        replay_.stages_are_inferred = model_.roles.are_inferred;
        replay_.stages = model_.roles.count();
        replay_.pipeline_length = model_.roles.pipeline_length;
        slow_ranks_ = find_slow_ranks();
        job_ = BalancedJobFinder(steps_, slow_ranks_, replay_).find();
        const double link_saving_ms = add_special(find_slow_links(steps_));
        if (link_saving_ms < most_of_it * job_.comm_saving_ms) add_communication();
        for (const auto search : special_searches) add_special(search(steps_));
        is_routed_ = find_routed_keys(model_);
        if (!(add_special(find_routed_work(steps_, is_routed_)) > 0)) is_routed_.assign(model_.keys.size(), false);
        add_what_varies();
        const bool has_stage = add_stage();
        if (replay_.is_usable()) {
            const auto all = price_slow_ranks(steps_, has_stage, is_routed_, slow_, replay_);
            if (all) add(*all, replay_.saving * job_.as_it_was_ms, replay_.shares.ranks);
        }
        findings_.insert(findings_.begin(), slow_.begin(), slow_.end());
    }

  private:
    // Half of the ranks are slow in some steps where micro-batches are uneven: how they vary tells that.
    [[nodiscard]] SlowRanks find_slow_ranks() const {
        SlowRanks slow{steps_.ranks_of(slow_), !slow_.empty(),
                       steps_.ranks_of(slow_, [](const Finding& one) { return one.is_slow_uncovered(); }),
                       std::vector<double>(steps_.ranks())};
        for (const Finding& one : slow_) {
            if (!one.is_slow_uncovered()) continue;
            const double steps = one.step_fraction * static_cast<double>(steps_.graphs().size());
            const std::vector<bool> is_of = steps_.ranks_of({&one, 1});
            for (std::size_t rank = 0; rank < is_of.size(); ++rank)
                if (is_of[rank]) slow.uncovered_ms[rank] += one.all_excess_ms * steps;
        }
        if (2 * static_cast<std::size_t>(std::count(slow.is_slow.begin(), slow.is_slow.end(), true)) >= steps_.ranks())
            slow.is_slow.assign(steps_.ranks(), false);
        return slow;
    }

    [[nodiscard]] bool is_worth(double saving_ms) const { return saving_ms > Replay::least_cost * job_.as_it_was_ms; }

    /// nullptr if it costs too little.
    Finding* add(const Finding& what, double saving_ms, double loss_share) {
        if (!is_worth(saving_ms)) return nullptr;
        Finding& finding = findings_.emplace_back(what);
        finding.cost_share = saving_ms / job_.as_it_was_ms;
        finding.loss_share = loss_share;
        return &finding;
    }

    /// What it saves; 0 if it is not added.
    double add_special(const std::optional<SpecialCause>& special) {
        if (!special) return 0;
        const double saving_ms = job_.as_it_was_ms - steps_.replayer().mean_step_ms(special->without);
        // What the job would gain if it were balanced says nothing of what all ranks wait for together.
        const double share = special->finding.kind == FindingKind::special ? 0 : job_.share_of(saving_ms);
        return add(special->finding, saving_ms, share) != nullptr ? saving_ms : 0;
    }

    void add_communication() {
        Finding* const cause =
            add({.kind = FindingKind::communication}, job_.comm_saving_ms, replay_.shares.communication);
        if (cause == nullptr) return;
        const auto excess_ms = [this](const StepGraph& graph, std::size_t node) {
            return std::max(0.0F, graph.own_ms[node] - steps_.typical().of_all(graph.keys[node]));
        };
        cause->phase = steps_.largest_phase(steps_.sum_by_phase(excess_ms, true));
        cause->text = {"transfers" + cause->in_phase() + " take longer now and then", "at their usual times",
                       "slow transfers"};
    }

    /// What varies because work is routed unevenly is told by that.
    [[nodiscard]] float usual_unrouted_ms(const StepGraph& graph, std::size_t node) const {
        const bool is_kept = steps_.is_comm(graph.keys[node]) || is_routed_[graph.keys[node]];
        return is_kept ? graph.own_ms[node] : usual_ms(steps_, slow_ranks_, graph, node);
    }

    [[nodiscard]] PhaseSums sum_jitter() const {
        return steps_.sum_by_phase([this](const StepGraph& graph, std::size_t node) {
            return std::max(0.0F, graph.own_ms[node] - usual_unrouted_ms(graph, node));
        });
    }

    /// Of all that varies but routed work, and its share of what would be gained.
    [[nodiscard]] std::pair<double, double> within_saving() const {
        const double share = replay_.shares.within_ranks + (slow_.empty() ? replay_.shares.ranks : 0);
        if (std::find(is_routed_.begin(), is_routed_.end(), true) == is_routed_.end())
            return {job_.within_saving_ms, share};
        const double usual_ms = steps_.replayer().mean_step_ms(
            with_work([this](const StepGraph& graph, std::size_t node) { return usual_unrouted_ms(graph, node); }));
        const double saving_ms = job_.as_it_was_ms - usual_ms;
        return {saving_ms, std::min(share, job_.share_of(saving_ms))};
    }

    // Work that depends on the data makes forward and backward of a micro-batch longer; jitter does not.
    void add_what_varies() {
        constexpr double least_correlation = 0.5;  // r²
        const auto [saving_ms, share] = within_saving();
        if (!is_worth(saving_ms)) return;
        std::optional<SpecialCause> pauses;
        double correlation = 0;
        PhaseSums jitter_ms;
        for_all(3, steps_.replayer().threads(), [&](std::size_t i) {
            if (i == 0) pauses = find_pauses(steps_);
            if (i == 1) jitter_ms = sum_jitter();
            if (i == 2) correlation = data_correlation(steps_, slow_ranks_.is_slow);
        });
        const bool are_of_one = pauses && pauses->finding.kind == FindingKind::ranks;
        if (are_of_one && slow_.empty() && add_special(pauses) > 0) return;
        const bool is_data = correlation >= least_correlation;
        if (!is_data && !are_of_one && add_special(pauses) > 0) return bound_pauses(findings_.back());
        Finding* const cause =
            add({.kind = is_data ? FindingKind::micro_batches : FindingKind::jitter}, saving_ms, share);
        if (cause == nullptr) return;
        const auto own_ms = [](const StepGraph& graph, std::size_t node) { return graph.own_ms[node]; };
        cause->phase = steps_.largest_phase(is_data ? steps_.sum_by_phase(own_ms) : jitter_ms);
        if (is_data)
            cause->text = {"micro-batches are uneven: the same ones are long in forward and backward", "evenly filled",
                           "uneven micro-batches",
                           "fill micro-batches evenly: sort or pack sequences by length, and balance their sum over "
                           "ranks"};
        else
            cause->text = {"the same work" + cause->in_phase() + " takes longer now and then", "without that",
                           "jitter"};
    }

    /// The share of local work of which rows say how long it took.
    [[nodiscard]] double known_work() const {
        double known_ms = 0;
        double all_ms = 0;
        steps_.for_each_work([&](const StepGraph& graph, std::size_t node) {
            const double ms = graph.weight * static_cast<double>(graph.own_ms[node]);
            all_ms += ms;
            if (graph.weights[node] == Weight::observed) known_ms += ms;
        });
        return all_ms > 0 ? known_ms / all_ms : 1;
    }

    // Work whose rows were lost pauses as often as the rest, whether the others' waiting shows that or not.
    void bound_pauses(Finding& pauses) const {
        const double known = known_work();
        pauses.is_approximate = replay_.hidden > Replay::most_error || known < least_known;
        if (pauses.is_approximate)
            pauses.cost_share = std::max(*pauses.cost_share + replay_.hidden, *pauses.cost_share / known);
    }

    bool add_stage() {
        const Roles& roles = model_.roles;
        if (!roles.are_stages() || !is_worth(job_.stage_saving_ms)) return false;
        std::vector<double> excess_ms(roles.count());  // of a rank
        std::vector<PhaseSums> by_phase(roles.count(), steps_.no_sums());
        steps_.for_each_work([&](const StepGraph& graph, std::size_t node) {
            const NodeKey& key = model_.keys[graph.keys[node]];
            const double over_ms = graph.weight * static_cast<double>(job_.role_medians_ms[graph.keys[node]] -
                                                                      job_.balanced_ms[graph.keys[node]]);
            excess_ms[key.role] += over_ms / static_cast<double>(roles.members[key.role].size());
            by_phase[key.role][key.name] += over_ms;
        });
        const auto role =
            static_cast<std::size_t>(std::max_element(excess_ms.begin(), excess_ms.end()) - excess_ms.begin());
        const auto seen = std::find_if(findings_.begin(), findings_.end(),
                                       [](const Finding& one) { return one.kind == FindingKind::stage; });
        Finding cause{.kind = FindingKind::stage};
        if (seen != findings_.end()) {
            if (seen->stage == roles.stages[role]) cause = std::move(*seen);
            findings_.erase(seen);
        }
        cause.stage = roles.stages[role];
        cause.phase = steps_.largest_phase(by_phase[role]);
        for (const std::uint32_t rank : roles.members[role]) cause.ranks.push_back(model_.rows->ranks()[rank].rank);
        const std::string label = fmt::format("pipeline stage {}", roles.stages[role]);
        const std::string where = cause.phase.empty() ? "" : ", most of it" + cause.in_phase();
        const bool is_alone = cause.ranks.size() == 1;  // rows cannot tell which
        cause.text = {is_alone ? fmt::format("{} takes longer than the others{}: it has more work, or its rank {} is "
                                             "slow",
                                             label, where, cause.ranks.front())
                               : label + " has more work than the others" + where,
                      "evenly divided", label};
        add(cause, job_.stage_saving_ms, replay_.shares.stages);
        return true;
    }

    const JobReplay& steps_;
    const JobModel& model_;
    Replay& replay_;
    std::vector<Finding>& findings_;
    std::vector<Finding> slow_;  // stragglers and groups
    SlowRanks slow_ranks_;
    std::vector<bool> is_routed_;  // by key: work that costs something because it is spread unevenly
    BalancedJob job_;
};

}  // namespace

void find_causes(const JobReplay& steps, Replay& replay, std::vector<Finding>& findings) {
    CauseFinder(steps, replay, findings).find();
}

}  // namespace cep::tool
