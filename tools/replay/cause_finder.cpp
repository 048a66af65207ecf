// SPDX-License-Identifier: Apache-2.0
#include "replay/cause_finder.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "replay/even_job.hpp"
#include "replay/slow_rank_prices.hpp"
#include "replay/special_causes.hpp"

namespace cep::tool {
namespace {

constexpr double least_known = 0.95;  // of the work: with less, what pauses cost is approximate
constexpr double most_of_it = 0.8;    // of what is lost to transfers: slow links are all there is to say of them

class CauseFinder {
  public:
    CauseFinder(const ReplayedSteps& steps, Replay& replay, std::vector<Finding>& findings)
        : steps_(steps), model_(steps.model), replay_(replay), findings_(findings) {}

    void find() {
        std::copy_if(findings_.begin(), findings_.end(), std::back_inserter(slow_), is_of_slow_ranks);
        std::erase_if(findings_, is_of_slow_ranks);
        replay_.stages_are_inferred = model_.roles.are_inferred;
        replay_.stages = model_.roles.count();
        replay_.pipeline_length = model_.roles.pipeline_length;
        slow_ranks_ = find_slow_ranks();
        job_ = find_even_job(steps_, slow_ranks_, replay_);
        const double link_saving_ms = add_special(find_slow_links(steps_));
        if (link_saving_ms < most_of_it * job_.comm_saving_ms) add_communication();
        for (const auto search : special_searches) add_special(search(steps_));
        const std::vector<bool> is_routed = find_routed_keys(model_);
        const bool spreads_evenly = add_special(find_routed_work(steps_, is_routed)) > 0;
        add_what_varies();
        const bool has_stage = add_stage();
        if (replay_.is_usable()) {
            const auto all = price_slow_ranks(steps_, job_, has_stage, spreads_evenly ? is_routed : std::vector<bool>(),
                                              slow_, replay_);
            if (all) add(*all, replay_.saving * job_.as_it_was_ms, replay_.shares.ranks);
        }
        findings_.insert(findings_.begin(), slow_.begin(), slow_.end());
    }

  private:
    // Half of the ranks are slow in some steps where micro-batches are uneven: how they vary tells that.
    [[nodiscard]] SlowRanks find_slow_ranks() const {
        SlowRanks slow{std::vector<bool>(steps_.ranks()), !slow_.empty()};
        for (const Finding& one : slow_)
            for (const std::uint32_t place : steps_.places_of(one)) slow.is_slow[place] = true;
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
        const double saving_ms = job_.as_it_was_ms - steps_.replayer.mean_step_ms(special->without);
        // What the job would gain if it were even says nothing of what all ranks wait for together.
        const double share = special->finding.kind == FindingKind::special ? 0 : job_.share_of(saving_ms);
        return add(special->finding, saving_ms, share) != nullptr ? saving_ms : 0;
    }

    void add_communication() {
        Finding* const cause =
            add({.kind = FindingKind::communication}, job_.comm_saving_ms, replay_.shares.communication);
        if (cause == nullptr) return;
        PhaseSums excess_ms = steps_.no_sums();
        for (const StepGraph& graph : steps_.graphs)
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (const std::uint32_t key = graph.keys[node]; steps_.is_comm(key))
                    excess_ms[model_.keys[key].name] +=
                        graph.weight *
                        static_cast<double>(std::max(0.0F, graph.own_ms[node] - steps_.typical.of_all(key)));
        cause->phase = steps_.largest_phase(excess_ms);
        cause->text = {"transfers" + cause->in_phase() + " take longer now and then", "at their usual times",
                       "slow transfers"};
    }

    // Work that depends on the data makes forward and backward of a micro-batch longer; jitter does not.
    void add_what_varies() {
        constexpr double least_correlation = 0.5;  // r²
        if (!is_worth(job_.within_saving_ms)) return;
        const std::optional<SpecialCause> pauses = find_pauses(steps_);
        const bool are_of_one = pauses && pauses->finding.kind == FindingKind::ranks;
        if (are_of_one && slow_.empty() && add_special(pauses) > 0) return;
        const bool is_data = data_correlation(steps_, slow_ranks_.is_slow) >= least_correlation;
        if (!is_data && !are_of_one && add_special(pauses) > 0) return bound_pauses(findings_.back());
        const double share = replay_.shares.within_ranks + (slow_.empty() ? replay_.shares.ranks : 0);
        Finding* const cause =
            add({.kind = is_data ? FindingKind::micro_batches : FindingKind::jitter}, job_.within_saving_ms, share);
        if (cause == nullptr) return;
        cause->phase = steps_.largest_phase(steps_.sum_by_phase([&](const StepGraph& graph, std::size_t node) {
            const float own_ms = graph.own_ms[node];
            return is_data ? own_ms : std::max(0.0F, own_ms - usual_ms(steps_, slow_ranks_, graph, node));
        }));
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
                                                                      job_.even_ms[graph.keys[node]]);
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

    const ReplayedSteps& steps_;
    const JobModel& model_;
    Replay& replay_;
    std::vector<Finding>& findings_;
    std::vector<Finding> slow_;  // stragglers and groups
    SlowRanks slow_ranks_;
    EvenJob job_;
};

}  // namespace

void find_causes(const ReplayedSteps& steps, Replay& replay, std::vector<Finding>& findings) {
    CauseFinder(steps, replay, findings).find();
}

}  // namespace cep::tool
