// SPDX-License-Identifier: Apache-2.0
#include "verdict/straggler.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "base/parallel.hpp"
#include "ledger/table_quantiles.hpp"
#include "verdict/absent_rows.hpp"
#include "verdict/deviation.hpp"
#include "verdict/own_work.hpp"
#include "verdict/slow_steps.hpp"

namespace cep::tool {
namespace {

/// What ranks wait that are not slow themselves then: medians over ranks, by step.
class OtherWaits {
  public:
    OtherWaits(StepMatrix wait_ms, const SlowSteps& slow) : wait_ms_(std::move(wait_ms)) {
        for (std::size_t rank = 0; rank < slow.size(); ++rank)
            for (std::size_t step = 0; step < slow[rank].size(); ++step)
                if (slow[rank][step]) wait_ms_.set(rank, step, std::numeric_limits<double>::quiet_NaN());
        of_all_ms_ = quantiles_over_ranks(wait_ms_, 0.5);
    }

    [[nodiscard]] const std::vector<double>& of_all_ms() const { return of_all_ms_; }
    [[nodiscard]] const std::vector<double>& of_peers_ms(const PeerGroup& peers) {
        if (peers.ranks.size() == wait_ms_.ranks()) return of_all_ms_;
        const auto [found, is_new] = of_peers_ms_.try_emplace(&peers);
        if (is_new) found->second = quantiles_over_ranks(wait_ms_, peers.ranks, 0.5);
        return found->second;
    }

  private:
    StepMatrix wait_ms_;  // missing where a rank is slow
    std::vector<double> of_all_ms_;
    std::map<const PeerGroup*, std::vector<double>> of_peers_ms_;
};

/// One phase of the ranks of one role.
struct Search {
    const PeerGroup* role;
    const LocalPhase* phase;
    RolePhase work{};
    std::vector<Straggler> found{};
    double usual_ms = 0;
    bool contains_waiting = false;
};

std::vector<Straggler> search_steps(const Search& search, const Deviation& deviation, SearchScale scale) {
    scale.threshold_ms = std::max({scale.floor_ms, noise_multiple(deviation) * deviation.noise_ms(),
                                   spread_multiple(deviation.usual_peers().size()) * deviation.spread_ms()});
    BeyondThresholds beyond(deviation);
    std::vector<Straggler> found;
    for (std::size_t peer = 0; peer < deviation.ranks().size(); ++peer) {
        auto straggler = find_slow_steps(deviation, peer, beyond, scale);
        if (!straggler) continue;
        straggler->rank = deviation.ranks()[peer];
        straggler->phase = search.phase->name;
        if (search.phase->name == uncovered_name)
            straggler->excess_by_step_ms.assign(deviation.excess_ms(peer).begin(), deviation.excess_ms(peer).end());
        found.push_back(std::move(*straggler));
    }
    return found;
}

/// Whether the host of the rank was late in most of the steps from the first slow one to the last.
bool is_host_mostly_late(const LocalPhase& phase, const Straggler& straggler) {
    const auto of_rank =
        phase.is_host_late.begin() + static_cast<std::ptrdiff_t>(straggler.rank * phase.own_ms.steps());
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
                           [&one](const Straggler& other) { return other.rank == one.rank; });
    });
    std::move(found.begin(), found.end(), std::back_inserter(search.found));
}

void search_phase(Search& search, const SearchScale& scale) {
    const LocalPhase& phase = *search.phase;
    const Deviation deviation(phase, search.work.own_ms, *search.role, scale.floor_ms);
    search.contains_waiting = deviation.contains_waiting();
    std::vector<double> usual_ms;
    for (std::size_t step = 0; step < phase.own_ms.steps(); ++step) usual_ms.push_back(deviation.usual_ms(step));
    search.usual_ms = typical_ms(usual_ms);
    search.found = search_steps(search, deviation, scale);
    if (!phase.is_host_late.empty()) search_steps_of_device(search, scale);
    for (Straggler& one : search.found) {
        one.is_of_some = search.work.is_of_some;
        one.is_alone = search.work.ranks == 1;
    }
    search.work = {};
}

double weight_of(const Straggler& straggler) {
    return straggler.excess_ms * straggler.step_fraction;
}

SearchScale scale_for(const JobTable& table, double relative_floor) {
    SearchScale scale;
    scale.floor_ms = std::max(StragglerRules::absolute_floor_ms, relative_floor * typical_ms(table.median_step_ms));
    const auto twice = std::count_if(table.local.begin(), table.local.end(),
                                     [](const LocalPhase& phase) { return !phase.is_host_late.empty(); });
    scale.tests = static_cast<double>(table.ranks.size() * (table.local.size() + 1 + static_cast<std::size_t>(twice)));
    return scale;
}

class Finder {
  public:
    Finder(const JobTable& table, StepMatrix& own_ms)
        : table_(table), absent_(table), own_ms_(own_ms), all_ms_(sum_ms(table.median_step_ms)) {}

    Stragglers find(const std::vector<PeerGroup>& roles, std::size_t threads) {
        search(roles, threads);
        for (const PeerGroup& role : roles) drop_exchanged(role);
        one_for_each_rank();
        one_for_each_split();
        if (!table_.has_comm) drop_what_waits();
        result_.slow.resize(table_.ranks.size());
        if (table_.has_comm) {
            keep_costly(roles);
        } else {
            for (Straggler& straggler : found_) add_without_waits(straggler);
            std::erase_if(result_.groups, [this](SlowGroup& group) { return !costs_without_waits(group.typical); });
        }
        const auto costs_more = [](const Straggler& a, const Straggler& b) { return table_cost(a) > table_cost(b); };
        std::stable_sort(result_.costly.begin(), result_.costly.end(), costs_more);
        std::stable_sort(result_.groups.begin(), result_.groups.end(),
                         [&](const auto& a, const auto& b) { return costs_more(a.typical, b.typical); });
        return std::move(result_);
    }

  private:
    static double table_cost(const Straggler& straggler) {
        return is_missing(straggler.cost_ms) ? weight_of(straggler) : straggler.cost_ms;
    }

    void search(const std::vector<PeerGroup>& roles, std::size_t threads) {
        const SearchScale scale = scale_for(table_, StragglerRules::relative_floor);
        LocalPhase uncovered{std::string(uncovered_name), schema::Kind::other, {}, {}, 1};
        if (table_.has_comm) uncovered.duration_ms = uncovered.own_ms = table_.uncovered_ms;
        std::vector<Search> searches;
        for (const PeerGroup& role : roles) {
            for (const std::size_t rank : role.ranks) peers_[rank] = &role;
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
            result_.waits_inside |= one.contains_waiting;
            const std::size_t ranks = one.role->ranks.size();
            if (2 * one.found.size() > ranks || ranks == 2) {
                add_group(one);
            } else {
                for (Straggler& straggler : one.found) found_.push_back(std::move(straggler));
            }
        }
    }

    void add_group(Search& search) {
        if (search.found.empty() || search.found.size() == search.role->ranks.size()) return;
        SlowGroup group;
        group.role = search.role;
        group.fast_ms = search.usual_ms;
        std::sort(search.found.begin(), search.found.end(),
                  [](const Straggler& a, const Straggler& b) { return weight_of(a) < weight_of(b); });
        group.typical = search.found[search.found.size() / 2];
        group.slow = std::move(search.found);
        for (const std::size_t rank : search.role->ranks)
            if (std::none_of(group.slow.begin(), group.slow.end(),
                             [rank](const auto& one) { return one.rank == rank; }))
                group.fast.push_back(rank);
        result_.groups.push_back(std::move(group));
    }

    // What a rank does in place of another phase, which others do, is no more work than theirs.
    void drop_exchanged(const PeerGroup& role) {
        const auto is_of_role = [&](const Straggler& one) { return one.is_of_some && peers_[one.rank] == &role; };
        const auto is_group = [&](const SlowGroup& group) { return group.role == &role && group.typical.is_of_some; };
        std::vector<SlowGroup>& groups = result_.groups;
        if (std::none_of(found_.begin(), found_.end(), is_of_role) &&
            std::none_of(groups.begin(), groups.end(), is_group))
            return;
        const StepMatrix work_ms = work_of_some(role);
        constexpr double low_quantile = 0.25;
        const std::vector<double> usual_ms = quantiles_over_ranks(work_ms, low_quantile);
        const auto is_exchanged = [&](const Straggler& one) {
            const auto peer = std::lower_bound(role.ranks.begin(), role.ranks.end(), one.rank) - role.ranks.begin();
            std::vector<double> excess_ms;
            for (std::size_t step = 0; step < usual_ms.size(); ++step)
                if (one.slow[step])
                    excess_ms.push_back(work_ms.at(static_cast<std::size_t>(peer), step) - usual_ms[step]);
            return median_of(std::move(excess_ms)) < one.excess_ms / 2;
        };
        std::erase_if(found_, [&](const Straggler& one) { return is_of_role(one) && is_exchanged(one); });
        std::erase_if(groups, [&](const SlowGroup& group) { return is_group(group) && is_exchanged(group.typical); });
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
    void one_for_each_rank() {
        std::map<std::size_t, std::vector<Straggler>> by_rank;
        for (Straggler& straggler : found_) by_rank[straggler.rank].push_back(std::move(straggler));
        found_.clear();
        for (auto& [rank, phases] : by_rank) {
            std::stable_sort(phases.begin(), phases.end(),
                             [](const Straggler& a, const Straggler& b) { return weight_of(a) > weight_of(b); });
            for (std::size_t i = 1; i < phases.size(); ++i) phases.front().also.push_back(phases[i].phase);
            found_.push_back(std::move(phases.front()));
        }
    }

    // The same ranks, slow in several phases, are one group.
    void one_for_each_split() {
        std::vector<SlowGroup>& groups = result_.groups;
        std::stable_sort(groups.begin(), groups.end(), [](const SlowGroup& a, const SlowGroup& b) {
            return weight_of(a.typical) > weight_of(b.typical);
        });
        std::vector<SlowGroup> kept;
        for (SlowGroup& group : groups) {
            const auto same = std::find_if(kept.begin(), kept.end(), [&](const SlowGroup& one) {
                return one.role == group.role && one.fast == group.fast;
            });
            if (same == kept.end()) {
                kept.push_back(std::move(group));
            } else {
                same->typical.also.push_back(group.typical.phase);
            }
        }
        groups = std::move(kept);
    }

    [[nodiscard]] std::size_t order_of(const std::string& phase) const {
        const auto found = std::find_if(table_.local.begin(), table_.local.end(),
                                        [&](const LocalPhase& local) { return local.name == phase; });
        return static_cast<std::size_t>(found - table_.local.begin());
    }

    // Where collectives are not timed, ranks wait for a slow one in a later phase, which is longer on them; and a rank
    // that has less to do in one phase waits in a later one.
    void drop_what_waits() {
        std::vector<std::size_t> slow;
        for (const Straggler& straggler : found_) slow.push_back(straggler.rank);
        std::erase_if(result_.groups, [&](const SlowGroup& group) {
            return std::any_of(found_.begin(), found_.end(), [&](const Straggler& one) {
                return order_of(one.phase) < order_of(group.typical.phase) && group.fast.size() <= slow.size() &&
                       std::includes(slow.begin(), slow.end(), group.fast.begin(), group.fast.end());
            });
        });
        std::erase_if(found_, [&](const Straggler& one) {
            return std::any_of(result_.groups.begin(), result_.groups.end(), [&](const SlowGroup& group) {
                return order_of(group.typical.phase) < order_of(one.phase) &&
                       std::binary_search(group.fast.begin(), group.fast.end(), one.rank);
            });
        });
    }

    [[nodiscard]] bool costs_without_waits(Straggler& straggler) const {
        straggler.cost_ms = std::numeric_limits<double>::quiet_NaN();
        return weight_of(straggler) > StragglerRules::least_cost * typical_ms(table_.median_step_ms);
    }

    void add_without_waits(Straggler& straggler) {
        (costs_without_waits(straggler) ? result_.costly : result_.harmless).push_back(std::move(straggler));
    }

    void add_uncovered_work(const Straggler& straggler) {
        for (std::size_t step = 0; step < straggler.excess_by_step_ms.size(); ++step) {
            const double ms = own_ms_.at(straggler.rank, step) + std::max(0.0, straggler.excess_by_step_ms[step]);
            if (straggler.slow[step] && !is_missing(ms)) own_ms_.set(straggler.rank, step, ms);
        }
    }

    void keep_costly(const std::vector<PeerGroup>& roles) {
        SlowSteps slow = slow_of(found_);
        OtherWaits waits(table_.wait_ms, slow);
        for (Straggler& straggler : found_) {
            find_margin(straggler, waits, {straggler.rank});
            if (straggler.keeps_waiting) add_uncovered_work(straggler);
        }
        std::erase_if(found_, [](const Straggler& one) { return one.phase == uncovered_name && !one.keeps_waiting; });
        std::erase_if(result_.groups, [this](SlowGroup& group) { return !do_others_wait_for(group); });
        slow = slow_of(found_);
        for (const SlowGroup& group : result_.groups)
            for (const Straggler& one : group.slow) {
                slow[one.rank] = one.slow;
                add_uncovered_work(one);
            }
        const WhatIf what_if(table_, own_ms_, roles, slow, result_.waits_inside);
        for (Straggler& straggler : found_) {
            add_cost(straggler, {&straggler, 1}, slow, what_if);
            const bool costs = straggler.keeps_waiting && is_costly(straggler);
            if (costs) result_.slow[straggler.rank] = straggler.slow;
            (costs ? result_.costly : result_.harmless).push_back(std::move(straggler));
        }
        for (SlowGroup& group : result_.groups) add_cost(group.typical, group.slow, slow, what_if);
        std::erase_if(result_.groups, [this](const SlowGroup& group) { return !is_costly(group.typical); });
        for (const SlowGroup& group : result_.groups)
            for (const Straggler& one : group.slow) result_.slow[one.rank] = one.slow;
    }

    [[nodiscard]] SlowSteps slow_of(const std::vector<Straggler>& stragglers) const {
        SlowSteps slow(table_.ranks.size());
        for (const Straggler& straggler : stragglers) slow[straggler.rank] = straggler.slow;
        return slow;
    }

    bool do_others_wait_for(SlowGroup& group) const {
        OtherWaits waits(table_.wait_ms, slow_of(group.slow));
        std::vector<std::size_t> ranks;
        for (const Straggler& one : group.slow) ranks.push_back(one.rank);
        find_margin(group.typical, waits, ranks);
        return group.typical.keeps_waiting;
    }

    [[nodiscard]] bool is_costly(const Straggler& straggler) const {
        return straggler.cost_ms - straggler.chance_cost_ms > StragglerRules::least_cost * all_ms_;
    }

    /// What the ranks of a role that are not slow work in all, by step.
    const std::vector<double>& usual_work_ms(const PeerGroup& role, const SlowSteps& slow) {
        const auto [found, is_new] = usual_work_ms_.try_emplace(&role);
        if (!is_new) return found->second;
        std::vector<std::size_t> others;
        for (const std::size_t rank : role.ranks)
            if (slow[rank].empty()) others.push_back(rank);
        return found->second = quantiles_over_ranks(own_ms_, others, 0.5);
    }

    /// By how much the rank works longer in all than those, in its slow steps.
    [[nodiscard]] double own_excess_ms(const Straggler& straggler, const SlowSteps& slow) {
        const std::vector<double>& usual_ms = usual_work_ms(*peers_[straggler.rank], slow);
        std::vector<double> excess_ms;
        for (std::size_t step = 0; step < usual_ms.size(); ++step)
            if (straggler.slow[step]) excess_ms.push_back(own_ms_.at(straggler.rank, step) - usual_ms[step]);
        const double median = median_of(std::move(excess_ms));
        return is_missing(median) ? straggler.excess_ms : std::max(0.0, median);
    }

    /// Of several slow ranks, those of `typical` are what all of them cost.
    void add_cost(Straggler& typical, std::span<const Straggler> slow_ranks, const SlowSteps& slow,
                  const WhatIf& what_if) {
        std::vector<double> less_ms;
        for (const Straggler& one : slow_ranks) less_ms.push_back(own_excess_ms(one, slow));
        typical.cost_ms = typical.chance_cost_ms = 0;
        for (std::size_t step = 0; step < table_.steps.size(); ++step) {
            double saved_ms = 0;
            double saved_by_chance_ms = 0;
            for (std::size_t i = 0; i < slow_ranks.size(); ++i) {
                const Straggler& one = slow_ranks[i];
                if (!one.slow[step]) continue;
                saved_ms = std::max(saved_ms, what_if.saved_by_ms(one.rank, step));
                saved_by_chance_ms = std::max(saved_by_chance_ms, what_if.saved_by_ms(one.rank, step, less_ms[i]));
            }
            typical.cost_ms += saved_ms;
            typical.chance_cost_ms += saved_by_chance_ms;
        }
    }

    /// Whether the others wait for it: longer than it waits itself, or the slow ones together do.
    void find_margin(Straggler& straggler, OtherWaits& waits, const std::vector<std::size_t>& slow) const {
        const std::vector<double>& all_ms = waits.of_all_ms();
        const std::vector<double>& peers_ms = waits.of_peers_ms(*peers_[straggler.rank]);
        const std::vector<double> own_ms = quantiles_over_ranks(table_.wait_ms, slow, 0.5);
        std::vector<double> waits_ms;
        double margin_ms = 0;
        std::size_t margins = 0;
        for (std::size_t step = 0; step < table_.steps.size(); ++step) {
            if (!straggler.slow[step]) continue;
            double wait_ms = all_ms[step];
            double margin = peers_ms[step] - own_ms[step];
            if (is_next_recorded(table_.steps, step) && !straggler.slow[step + 1]) {
                wait_ms = std::fmax(wait_ms, all_ms[step + 1]);
                margin = std::fmax(margin, peers_ms[step + 1] - own_ms[step + 1]);
            }
            if (!is_missing(wait_ms)) waits_ms.push_back(wait_ms);
            if (is_missing(margin)) continue;
            margin_ms += margin;
            ++margins;
        }
        if (!waits_ms.empty()) straggler.waiters_median_wait_ms = median_of(std::move(waits_ms));
        const bool is_uncovered = straggler.phase == uncovered_name;
        const bool needs_waiters = is_uncovered || straggler.is_of_some;
        const double share = is_uncovered ? StragglerRules::uncovered_margin : StragglerRules::least_margin;
        straggler.keeps_waiting =
            margins == 0 ? !needs_waiters : margin_ms > share * straggler.excess_ms * static_cast<double>(margins);
    }

    const JobTable& table_;
    const AbsentRows absent_;
    StepMatrix& own_ms_;
    const double all_ms_;  // of all steps
    std::vector<Straggler> found_;
    std::map<const PeerGroup*, std::vector<double>> usual_work_ms_;
    std::vector<const PeerGroup*> peers_ = std::vector<const PeerGroup*>(table_.ranks.size());
    Stragglers result_;
};

}  // namespace

std::string_view pattern_name(Pattern pattern) {
    switch (pattern) {
        case Pattern::persistent:
            return "persistent";
        case Pattern::window:
            return "window";
        default:
            return "intermittent";
    }
}

Stragglers find_stragglers(const JobTable& table, const std::vector<PeerGroup>& groups, StepMatrix& own_ms,
                           std::size_t threads) {
    if (table.steps.empty() || table.ranks.empty()) return {};
    return Finder(table, own_ms).find(groups, threads);
}

std::vector<Straggler> find_late(const JobTable& table, const std::vector<PeerGroup>& groups) {
    std::vector<Straggler> late;
    const SearchScale scale = scale_for(table, StragglerRules::late);
    for (const PeerGroup& role : groups) {
        if (role.ranks.size() < 2) continue;
        LocalPhase lateness{"", schema::Kind::comm, {table.ranks.size(), table.steps.size()}, {}, 1};
        for (std::size_t step = 0; step < table.steps.size(); ++step) {
            double most_ms = 0;
            for (const std::size_t rank : role.ranks) most_ms = std::max(most_ms, table.wait_ms.at(rank, step));
            for (const std::size_t rank : role.ranks)
                lateness.own_ms.set(rank, step, most_ms - table.wait_ms.at(rank, step));
        }
        lateness.duration_ms = lateness.own_ms;
        Search search{&role, &lateness, {rows_of_role(lateness.own_ms, role)}};
        search_phase(search, scale);
        for (Straggler& one : search.found) late.push_back(std::move(one));
    }
    std::stable_sort(late.begin(), late.end(),
                     [](const Straggler& a, const Straggler& b) { return weight_of(a) > weight_of(b); });
    return late;
}

std::vector<std::int64_t> late_together(const JobTable& table, const std::vector<Straggler>& late) {
    constexpr double about = 0.5;  // of the first, at least
    std::vector<std::int64_t> ranks;
    for (const Straggler& one : late)
        if (weight_of(one) >= about * weight_of(late.front())) ranks.push_back(table.ranks[one.rank].rank);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

}  // namespace cep::tool
