// SPDX-License-Identifier: Apache-2.0
#include "verdict/straggler.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/parallel.hpp"
#include "ledger/table_quantiles.hpp"
#include "replay/replay.hpp"
#include "verdict/deviation.hpp"
#include "verdict/own_work.hpp"
#include "verdict/slow_steps.hpp"

namespace cep::tool {
namespace {

/// One phase of the ranks of one role.
struct Search {
    const PeerGroup* role;
    const LocalPhase* phase;
    RolePhase work{};
    std::vector<Straggler> found{};
    double usual_ms = 0;
};

std::vector<Straggler> search_steps(const Search& search, const Deviation& deviation, SearchScale scale) {
    scale.threshold_ms = std::max({scale.floor_ms, noise_multiple(deviation) * deviation.noise_ms(),
                                   spread_multiple(deviation.usual_peers().size()) * deviation.spread_ms()});
    ExceedancesByThreshold exceedances(deviation);
    std::vector<Straggler> found;
    for (std::size_t peer = 0; peer < deviation.ranks().size(); ++peer) {
        auto straggler = find_slow_steps(deviation, peer, exceedances, scale);
        if (!straggler) continue;
        straggler->role = search.role;
        straggler->rank_index = deviation.ranks()[peer];
        straggler->rank_indices = {straggler->rank_index};
        straggler->phase = search.phase->name;
        straggler->phase_kind = search.phase->kind;
        found.push_back(std::move(*straggler));
    }
    return found;
}

/// Whether the host of the rank was late in most of the steps from the first slow one to the last.
bool is_host_mostly_late(const LocalPhase& phase, const Straggler& straggler) {
    const auto of_rank =
        phase.is_launch_bound.begin() + static_cast<std::ptrdiff_t>(straggler.rank_index * phase.own_ms.steps());
    const auto late = std::count(of_rank + static_cast<std::ptrdiff_t>(straggler.steps.first),
                                 of_rank + static_cast<std::ptrdiff_t>(straggler.steps.last) + 1, 1);
    return 2 * static_cast<std::size_t>(late) > straggler.steps.length();
}

// Hosts that are late now and then hide a slow device: they vary far more than devices do. So the ranks are compared
// once more in those steps in which devices set the pace. A host that is late in most of the steps may have been late
// in a part of the others.
void search_steps_of_device(Search& search, const SearchScale& scale) {
    const LocalPhase& phase = *search.phase;
    const Deviation deviation(phase, search.work.own_ms, *search.role, scale.floor_ms, ChosenSteps::of_device);
    if (2 * deviation.peers_with(StragglerRules::least_steps) <= deviation.usual_peers().size()) return;
    std::vector<Straggler> found = search_steps(search, deviation, scale);
    std::erase_if(found, [&](const Straggler& one) {
        return is_host_mostly_late(phase, one) ||
               std::any_of(search.found.begin(), search.found.end(),
                           [&one](const Straggler& other) { return other.rank_index == one.rank_index; });
    });
    std::move(found.begin(), found.end(), std::back_inserter(search.found));
}

void search_phase(Search& search, const SearchScale& scale) {
    const LocalPhase& phase = *search.phase;
    const Deviation deviation(phase, search.work.own_ms, *search.role, scale.floor_ms);
    std::vector<double> usual_ms;
    for (std::size_t step = 0; step < search.work.own_ms.steps(); ++step) usual_ms.push_back(deviation.usual_ms(step));
    search.usual_ms = typical_ms(usual_ms);
    search.found = search_steps(search, deviation, scale);
    if (!phase.is_launch_bound.empty()) search_steps_of_device(search, scale);
    for (Straggler& one : search.found) {
        one.is_of_some = search.work.is_of_some;
        one.is_alone = search.work.ranks == 1;
    }
    search.work = {};
}

double weight_of(const Finding& finding) {
    return finding.excess_ms * finding.step_fraction;
}

SearchScale scale_for(const JobTable& table, double relative_floor) {
    SearchScale scale;
    scale.floor_ms = std::max(StragglerRules::absolute_floor_ms, relative_floor * typical_ms(table.median_step_ms));
    const auto twice = std::count_if(table.local.begin(), table.local.end(),
                                     [](const LocalPhase& phase) { return !phase.is_launch_bound.empty(); });
    scale.tests = static_cast<double>(table.ranks.size() * (table.local.size() + 1 + static_cast<std::size_t>(twice)));
    return scale;
}

void name_ranks(Straggler& one, const JobTable& table) {
    for (const std::size_t index : one.rank_indices) {
        one.ranks.push_back(table.ranks[index].rank);
        one.hosts.push_back(table.ranks[index].host);
    }
    one.typical_rank = table.ranks[one.rank_index].rank;
    one.typical_host = table.ranks[one.rank_index].host;
}

class Finder {
  public:
    Finder(const JobTable& table, const AbsentRows& absent)
        : table_(table), absent_(absent), all_ms_(sum_ms(table.median_step_ms)) {}

    std::vector<Finding> find(const std::vector<PeerGroup>& roles, std::size_t threads) {
        is_pipeline_ = roles.size() > 1;
        search(roles, threads);
        for (const PeerGroup& role : roles) drop_exchanged(role);
        one_for_the_same_ranks();
        if (!table_.has_comm) drop_what_waits();
        for (Straggler& one : found_) finish(one);
        drop_who_may_wait();
        return std::move(result_);
    }

  private:
    void search(const std::vector<PeerGroup>& roles, std::size_t threads) {
        const SearchScale scale = scale_for(table_, StragglerRules::relative_floor);
        LocalPhase uncovered{std::string(uncovered_name), schema::Kind::other, {}, 1};
        if (table_.has_comm) uncovered.own_ms = table_.uncovered_ms;
        std::vector<Search> searches;
        for (const PeerGroup& role : roles) {
            if (role.ranks.size() < 2) continue;
            for (const LocalPhase& phase : table_.local) searches.push_back({&role, &phase});
            if (uncovered.own_ms.ranks() > 0) searches.push_back({&role, &uncovered});
        }
        for_all(searches.size(), threads, [&](std::size_t i) {
            Search& one = searches[i];
            one.work = one.phase == &uncovered
                           ? RolePhase{rows_of_role(uncovered.own_ms, *one.role)}
                           : absent_.find(static_cast<std::size_t>(one.phase - table_.local.data()), *one.role);
            search_phase(one, scale);
        });
        for (Search& one : searches) {
            const std::size_t ranks = one.role->ranks.size();
            if (2 * one.found.size() > ranks || ranks == 2) split(one);
            std::move(one.found.begin(), one.found.end(), std::back_inserter(found_));
        }
    }

    // Where more than half are slow, or one of two, nobody knows which half is usual: they are one group.
    static void split(Search& search) {
        std::vector<Straggler>& found = search.found;
        if (found.size() == search.role->ranks.size()) found.clear();
        if (found.empty()) return;
        std::vector<std::size_t> indices;
        for (const Straggler& one : found) indices.push_back(one.rank_index);
        std::sort(indices.begin(), indices.end());
        std::sort(found.begin(), found.end(),
                  [](const Straggler& a, const Straggler& b) { return weight_of(a) < weight_of(b); });
        Straggler typical = std::move(found[found.size() / 2]);
        typical.kind = FindingKind::group;
        typical.rank_indices = std::move(indices);
        typical.usual_ms = search.usual_ms;
        found.clear();
        found.push_back(std::move(typical));
    }

    // What a rank does in place of another phase, which others do, is no more work than theirs.
    void drop_exchanged(const PeerGroup& role) {
        const auto is_of_role = [&](const Straggler& one) { return one.is_of_some && one.role == &role; };
        if (std::none_of(found_.begin(), found_.end(), is_of_role)) return;
        const StepMatrix work_ms = work_of_some(role);
        constexpr double low_quantile = 0.25;
        const std::vector<double> usual_ms = quantiles_over_ranks(work_ms, low_quantile);
        const auto is_exchanged = [&](const Straggler& one) {
            const auto peer =
                std::lower_bound(role.ranks.begin(), role.ranks.end(), one.rank_index) - role.ranks.begin();
            std::vector<double> excess_ms;
            for (std::size_t step = 0; step < usual_ms.size(); ++step)
                if (one.slow[step])
                    excess_ms.push_back(work_ms.at(static_cast<std::size_t>(peer), step) - usual_ms[step]);
            return median_of(std::move(excess_ms)) < one.excess_ms / 2;
        };
        std::erase_if(found_, [&](const Straggler& one) { return is_of_role(one) && is_exchanged(one); });
    }

    /// By peer and step: milliseconds in phases that some ranks of the role do not do.
    [[nodiscard]] StepMatrix work_of_some(const PeerGroup& role) const {
        StepMatrix work_ms(role.ranks.size(), table_.steps.size());
        for (std::size_t phase = 0; phase < table_.local.size(); ++phase) {
            const RolePhase of_role = absent_.find(phase, role);
            if (!of_role.is_of_some) continue;
            for (std::size_t cell = 0; cell < role.ranks.size() * table_.steps.size(); ++cell)
                if (const double ms = of_role.own_ms.at(0, cell); !is_missing(ms)) work_ms.add_to_cell(cell, ms);
        }
        return work_ms;
    }

    // A slow GPU is slow in all that it computes: the phase that costs most stands for all.
    void one_for_the_same_ranks() {
        std::map<std::vector<std::size_t>, std::vector<Straggler>> by_ranks;
        for (Straggler& one : found_) by_ranks[one.rank_indices].push_back(std::move(one));
        found_.clear();
        for (auto& [indices, phases] : by_ranks) {
            std::stable_sort(phases.begin(), phases.end(),
                             [](const Straggler& a, const Straggler& b) { return weight_of(a) > weight_of(b); });
            Straggler& worst = found_.emplace_back(std::move(phases.front()));
            for (std::size_t i = 1; i < phases.size(); ++i) {
                worst.also.push_back(phases[i].phase);
                worst.all_excess_ms += phases[i].all_excess_ms * phases[i].step_fraction / worst.step_fraction;
            }
        }
    }

    [[nodiscard]] std::size_t order_of(const std::string& phase) const {
        const auto found = std::find_if(table_.local.begin(), table_.local.end(),
                                        [&](const LocalPhase& local) { return local.name == phase; });
        return static_cast<std::size_t>(found - table_.local.begin());
    }

    // Where collectives are not timed, ranks wait for a slow one in a later phase, which is longer on them; and a rank
    // that has less to do in one phase waits in a later one.
    void drop_what_waits() {
        const auto waits_for = [this](const Straggler& one, const Straggler& other) {
            const bool any_group = one.kind == FindingKind::group || other.kind == FindingKind::group;
            if (!any_group || one.role != other.role || order_of(other.phase) >= order_of(one.phase)) return false;
            return std::none_of(one.rank_indices.begin(), one.rank_indices.end(), [&](std::size_t index) {
                return std::binary_search(other.rank_indices.begin(), other.rank_indices.end(), index);
            });
        };
        const std::vector<Straggler> all = found_;
        std::erase_if(found_, [&](const Straggler& one) {
            return std::any_of(all.begin(), all.end(), [&](const Straggler& other) { return waits_for(one, other); });
        });
    }

    /// The other ranks of the role.
    static std::vector<std::size_t> others_than(const Straggler& one) {
        std::vector<std::size_t> others;
        std::set_difference(one.role->ranks.begin(), one.role->ranks.end(), one.rank_indices.begin(),
                            one.rank_indices.end(), std::back_inserter(others));
        return others;
    }

    [[nodiscard]] std::vector<std::string> hosts_of(const std::vector<std::size_t>& indices) const {
        std::set<std::string> hosts;
        for (const std::size_t index : indices) hosts.insert(table_.ranks[index].host);
        return {hosts.begin(), hosts.end()};
    }

    void name_group(Straggler& one, const std::vector<std::size_t>& others) const {
        for (const std::size_t index : others) one.fast_ranks.push_back(table_.ranks[index].rank);
        one.stage = one.role->pp;
        one.tp = one.role->tp;
        const std::vector<std::string> slow = hosts_of(one.rank_indices);
        const std::vector<std::string> fast = hosts_of(others);
        one.hosts.clear();
        std::set_difference(slow.begin(), slow.end(), fast.begin(), fast.end(), std::back_inserter(one.hosts));
        std::set_difference(fast.begin(), fast.end(), slow.begin(), slow.end(), std::back_inserter(one.fast_hosts));
    }

    void finish(Straggler& one) {
        const std::vector<std::size_t> others = others_than(one);
        name_ranks(one, table_);
        one.first_step = table_.steps[one.steps.first];
        one.last_step = table_.steps[one.steps.last];
        find_every_steps(one);
        if (table_.has_comm) {
            bound_cost(one, others);
        } else {
            one.is_costly = weight_of(one) > Replay::least_cost * typical_ms(table_.median_step_ms);
        }
        if (one.phase == uncovered_name && !one.keeps_waiting) return;  // it may be waiting itself
        if (is_difference(one)) one.kind = FindingKind::difference;
        if (one.kind != FindingKind::straggler) name_group(one, others);
        result_.push_back(std::move(one));
    }

    /// A rank whose collectives match nobody's may wait inside of its phases, for one that is slower by as much. What
    /// that one costs is not known then.
    void drop_who_may_wait() {
        const auto is_waited_for = [this](double excess_ms) {
            return std::any_of(result_.begin(), result_.end(), [&](const Finding& other) {
                return other.keeps_waiting && other.waiters_median_wait_ms && other.excess_ms >= excess_ms;
            });
        };
        const std::size_t dropped = std::erase_if(result_, [&](const Finding& one) {
            return one.keeps_waiting && !one.is_waiting_known && is_waited_for(one.excess_ms);
        });
        if (dropped == 0) return;
        for (Finding& one : result_) {
            one.is_waiting_known = false;
            one.cost_share.reset();
        }
    }

    // What others do not do may be what they do without a row. In a pipeline, its neighbours wait, too: the replay says
    // how long.
    [[nodiscard]] bool is_difference(const Straggler& one) const {
        if (one.is_of_some && one.may_keep_waiting) return true;
        return one.kind == FindingKind::group && !one.keeps_waiting && !is_pipeline_;
    }

    /// Between the numbers of its slow steps, if that is always the same.
    void find_every_steps(Straggler& one) const {
        if (one.every_recorded < 2) return;
        const std::size_t second = one.steps.first + static_cast<std::size_t>(one.every_recorded);
        const std::int64_t every = table_.steps[second] - one.first_step;
        const auto slow = std::count(one.slow.begin(), one.slow.end(), true);
        if (one.last_step - one.first_step == every * (slow - 1)) one.every_steps = every;
    }

    /// What a rank waits in a slow step, or behind it: the others wait there for what a rank does after its last
    /// collective.
    template <typename Waits>
    [[nodiscard]] std::vector<double> waits_of(const std::vector<bool>& slow, Waits wait_ms) const {
        std::vector<double> waits_ms;
        for (std::size_t step = 0; step < slow.size(); ++step) {
            if (!slow[step]) continue;
            const bool ends = is_next_recorded(table_.steps, step) && !slow[step + 1];
            const double ms = ends ? std::fmax(wait_ms(step), wait_ms(step + 1)) : wait_ms(step);
            if (!is_missing(ms)) waits_ms.push_back(ms);
        }
        return waits_ms;
    }

    /// By how much the others, of whom `others_ms` is the median, wait longer than these, by slow step. Empty if that
    /// is not known of both.
    [[nodiscard]] std::vector<double> longer_waits_ms(const Straggler& one, const std::vector<double>& others_ms,
                                                      const StepMatrix& waits) const {
        const std::vector<double> own_ms = quantiles_over_ranks(waits, one.rank_indices, 0.5);
        return waits_of(one.slow, [&](std::size_t step) { return others_ms[step] - own_ms[step]; });
    }

    // The job loses at most what these exceed the others by, and what each of the others need not wait.
    void bound_cost(Straggler& one, const std::vector<std::size_t>& others) const {
        const std::vector<double> others_ms = quantiles_over_ranks(table_.wait_ms, others, 0.5);
        const std::vector<double> waits_ms = waits_of(one.slow, [&](std::size_t step) { return others_ms[step]; });
        const std::vector<double> avoidable_ms = quantiles_over_ranks(table_.avoidable_ms, others, 0.5);
        const std::vector<double> longer_ms = longer_waits_ms(one, others_ms, table_.wait_ms);
        const bool is_known = !longer_ms.empty();
        constexpr double least_quantile = 0.25;  // the least may be of lost rows
        const double most_ms =
            std::min(one.all_excess_ms, least_wait_ms(one.slow, others, table_.avoidable_ms, least_quantile));
        one.is_waiting_known = is_known || (waits_ms.empty() && !knows_waits(one.rank_indices));
        judge(one, longer_ms, most_ms);
        const std::vector<double> uncovered_ms = quantiles_over_ranks(table_.uncovered_ms, others, 0.5);
        one.may_keep_waiting =
            !one.keeps_waiting && mean_of(longer_waits_ms(one, uncovered_ms, table_.uncovered_ms)) > one.excess_ms / 2;
        if (!is_known) return;
        constexpr double much_longer = 1.25;
        one.waited_share = share_of(one.slow, mean_of(longer_waits_ms(one, avoidable_ms, table_.avoidable_ms)));
        one.is_up_to_hosts = share_of(one.slow, mean_of(longer_ms)) > much_longer * one.waited_share;
        const std::vector<bool> may_be_slow = steps_that_may_be_slow(one);
        one.least_wait_share = share_of(may_be_slow, least_wait_ms(may_be_slow, others, table_.wait_ms, 0));
        one.waiters_median_wait_ms = median_of(waits_ms);
    }

    [[nodiscard]] bool knows_waits(const std::vector<std::size_t>& ranks) const {
        return count_values(quantiles_over_ranks(table_.wait_ms, ranks, 0.5)) > 0;
    }

    /// Where some steps were not compared, as its host was late in them, the others may wait for it in these, too.
    [[nodiscard]] static std::vector<bool> steps_that_may_be_slow(const Straggler& one) {
        std::vector<bool> slow = one.slow;
        if (one.pattern != Pattern::intermittent)
            std::fill(slow.begin() + static_cast<std::ptrdiff_t>(one.steps.first),
                      slow.begin() + static_cast<std::ptrdiff_t>(one.steps.last) + 1, true);
        return slow;
    }

    /// What each of the others waits at least in a slow step, mean: `quantile` over them. Another rank that comes as
    /// late in a step waits for nobody there, and the others for it, too.
    [[nodiscard]] double least_wait_ms(const std::vector<bool>& slow, const std::vector<std::size_t>& others,
                                       const StepMatrix& waits, double quantile) const {
        const std::vector<double> of_steps = quantiles_over_ranks(waits, others, quantile);
        const auto in_step = waits_of(slow, [&](std::size_t step) { return of_steps[step]; });
        double least_ms = in_step.empty() ? std::numeric_limits<double>::infinity() : mean_of(in_step);
        for (const std::size_t rank : others)
            if (const auto of_rank = waits_of(slow, [&](std::size_t step) { return waits.at(rank, step); });
                !of_rank.empty())
                least_ms = std::min(least_ms, mean_of(of_rank));
        return least_ms;
    }

    /// Of the time of all steps: so long in each slow one.
    [[nodiscard]] double share_of(const std::vector<bool>& slow, double ms) const {
        return ms * static_cast<double>(std::count(slow.begin(), slow.end(), true)) / all_ms_;
    }

    void judge(Straggler& one, const std::vector<double>& longer_ms, double most_ms) const {
        constexpr double most_explained = 1.5;  // times its excess: it has work in phases that hide it
        const bool is_uncovered = one.phase == uncovered_name;
        const double margin = is_uncovered ? StragglerRules::uncovered_margin : StragglerRules::least_margin;
        one.keeps_waiting =
            longer_ms.empty() ? !is_uncovered && !one.is_of_some : median_of(longer_ms) > margin * one.excess_ms;
        one.cost_share = share_of(one.slow, most_ms);
        if (!one.is_waiting_known || mean_of(longer_ms) > most_explained * one.all_excess_ms) one.cost_share.reset();
        one.is_costly = one.keeps_waiting && one.cost_share.value_or(1) > Replay::least_cost;
    }

    const JobTable& table_;
    const AbsentRows& absent_;
    const double all_ms_;  // of all steps
    bool is_pipeline_ = false;
    std::vector<Straggler> found_;
    std::vector<Finding> result_;
};

const LocalPhase no_phase;

/// By how much less than the rank that waits longest each rank waits in a step, by peer.
StepMatrix lateness_of(const JobTable& table, const PeerGroup& role) {
    StepMatrix late_ms = rows_of_role(table.wait_ms, role);
    for (std::size_t step = 0; step < table.steps.size(); ++step) {
        double most_ms = 0;
        for (std::size_t peer = 0; peer < late_ms.ranks(); ++peer) most_ms = std::max(most_ms, late_ms.at(peer, step));
        for (std::size_t peer = 0; peer < late_ms.ranks(); ++peer)
            late_ms.set(peer, step, most_ms - late_ms.at(peer, step));
    }
    return late_ms;
}

}  // namespace

std::vector<Finding> find_stragglers(const JobTable& table, const AbsentRows& absent,
                                     const std::vector<PeerGroup>& groups, std::size_t threads) {
    if (table.steps.empty() || table.ranks.empty()) return {};
    return Finder(table, absent).find(groups, threads);
}

std::vector<Finding> find_late(const JobTable& table, const std::vector<PeerGroup>& groups) {
    std::vector<Finding> late;
    const SearchScale scale = scale_for(table, StragglerRules::late);
    for (const PeerGroup& role : groups) {
        if (role.ranks.size() < 2) continue;
        Search search{&role, &no_phase, {lateness_of(table, role)}};
        search_phase(search, scale);
        for (Straggler& one : search.found) {
            one.kind = FindingKind::late;
            name_ranks(one, table);
            late.push_back(std::move(one));
        }
    }
    std::stable_sort(late.begin(), late.end(),
                     [](const Finding& a, const Finding& b) { return weight_of(a) > weight_of(b); });
    return late;
}

std::optional<Finding> find_most_likely_late(const JobTable& table, const std::vector<PeerGroup>& groups) {
    std::optional<Finding> late;
    const SearchScale scale = scale_for(table, StragglerRules::late);
    double least = StragglerRules::may_be_chance / static_cast<double>(table.ranks.size());
    for (const PeerGroup& role : groups) {
        if (role.ranks.size() < 2) continue;
        const Deviation deviation(no_phase, lateness_of(table, role), role, scale.floor_ms);
        for (std::size_t peer = 0; peer < role.ranks.size(); ++peer) {
            const double excess_ms = median_of(deviation.excess_ms(peer));
            const double chance = chance_of_all_steps(deviation, peer);
            if (!(excess_ms >= scale.floor_ms && chance <= least)) continue;
            least = chance;
            late = Finding{.kind = FindingKind::late, .ranks = {table.ranks[role.ranks[peer]].rank}};
            late->excess_ms = excess_ms;
        }
    }
    return late;
}

std::vector<std::int64_t> late_together(const std::vector<Finding>& late) {
    constexpr double about = 0.5;  // of the first, at least
    std::vector<std::int64_t> ranks;
    for (const Finding& one : late)
        if (weight_of(one) >= about * weight_of(late.front())) ranks.push_back(one.ranks.front());
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

}  // namespace cep::tool
