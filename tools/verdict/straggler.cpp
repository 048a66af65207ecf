// SPDX-License-Identifier: Apache-2.0
#include "straggler.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "deviation.hpp"
#include "own_work.hpp"
#include "parallel.hpp"
#include "slow_steps.hpp"

namespace cep::analysis {
namespace {

std::size_t count_above(const std::vector<double>& values, double threshold) {
    return static_cast<std::size_t>(
        std::count_if(values.begin(), values.end(), [threshold](double value) { return value > threshold; }));
}

std::size_t count_present(const std::vector<double>& values) {
    return static_cast<std::size_t>(
        std::count_if(values.begin(), values.end(), [](double value) { return !is_missing(value); }));
}

class Finder {
  public:
    Finder(const JobTable& table, const StepMatrix& own_ms, const StragglerRules& rules)
        : table_(table), own_ms_(own_ms), rules_(rules) {
        scale_.floor_ms = std::max(rules.absolute_floor_ms, rules.relative_floor * typical_ms(table, table.step_ms));
        scale_.tests = static_cast<double>(table.ranks.size() * std::max<std::size_t>(1, table.local.size()));
    }

    Stragglers find(const std::vector<PeerGroup>& groups, std::size_t threads) {
        search(groups, threads);
        one_for_each_rank();
        for (const Straggler& straggler : found_) slow_[straggler.rank] = straggler.slow;
        const WhatIf what_if(table_, own_ms_, groups, slow_, waits_inside_);
        Stragglers result;
        result.waits_inside = waits_inside_;
        for (Straggler& straggler : found_) {
            const bool harms = add_consequences(straggler, what_if);
            (harms ? result.costly : result.harmless).push_back(std::move(straggler));
        }
        std::stable_sort(result.costly.begin(), result.costly.end(),
                         [](const Straggler& a, const Straggler& b) { return a.cost_ms > b.cost_ms; });
        return result;
    }

  private:
    /// One phase of the ranks of one role.
    struct Search {
        const PeerGroup* group;
        const LocalPhase* phase;
        std::vector<Straggler> found;
        bool contains_waiting = false;
    };

    void search(const std::vector<PeerGroup>& groups, std::size_t threads) {
        std::vector<Search> searches;
        for (const PeerGroup& group : groups) {
            for (const std::size_t rank : group.ranks) peers_[rank] = &group;
            if (group.ranks.size() < rules_.least_peers) continue;
            for (const LocalPhase& phase : table_.local) searches.push_back({&group, &phase, {}, false});
        }
        for_all(searches.size(), threads, [&](std::size_t i) { run(searches[i]); });
        for (Search& one : searches) {
            waits_inside_ |= one.contains_waiting;
            for (Straggler& straggler : one.found) found_.push_back(std::move(straggler));
        }
    }

    void run(Search& search) const {
        const std::vector<std::size_t>& ranks = search.group->ranks;
        const Deviation deviation(*search.phase, *search.group, table_.steps.size());
        search.contains_waiting = deviation.contains_waiting();
        SearchScale scale = scale_;
        scale.threshold_ms = std::max({scale.floor_ms, rules_.noise_multiple * deviation.noise_ms(),
                                       rules_.noise_multiple * deviation.spread_ms()});
        scale.chance = chance_of(deviation, scale.threshold_ms);
        for (std::size_t peer = 0; peer < ranks.size(); ++peer)
            if (auto straggler = find_slow_steps(deviation, peer, scale, rules_)) {
                straggler->rank = ranks[peer];
                straggler->phase = search.phase->name;
                search.found.push_back(std::move(*straggler));
            }
    }

    // How often a rank of this job exceeds the threshold that is not to blame for it.
    [[nodiscard]] static double chance_of(const Deviation& deviation, double threshold_ms) {
        constexpr double least = 1e-3;
        std::vector<double> rates;
        for (std::size_t peer = 0; peer < deviation.ranks().size(); ++peer) {
            const std::size_t present = count_present(deviation.excess_ms(peer));
            if (present > 0)
                rates.push_back(static_cast<double>(count_above(deviation.excess_ms(peer), threshold_ms)) /
                                static_cast<double>(present));
        }
        const double usual = median_of(std::move(rates));
        return is_missing(usual) ? least : std::max(least, usual);
    }

    // A slow GPU is slow in all that it computes: the phase that costs most stands for all.
    void one_for_each_rank() {
        std::map<std::size_t, std::vector<Straggler>> by_rank;
        for (Straggler& straggler : found_) by_rank[straggler.rank].push_back(std::move(straggler));
        found_.clear();
        for (auto& [rank, phases] : by_rank) {
            std::stable_sort(phases.begin(), phases.end(), [](const Straggler& a, const Straggler& b) {
                return a.excess_ms * a.step_fraction > b.excess_ms * b.step_fraction;
            });
            for (std::size_t i = 1; i < phases.size(); ++i)
                if (phases[i].excess_ms >= scale_.floor_ms) phases.front().also.push_back(phases[i].phase);
            found_.push_back(std::move(phases.front()));
        }
    }

    /// Whether the others wait for it, and the job loses by it.
    bool add_consequences(Straggler& straggler, const WhatIf& what_if) const {
        std::vector<double> waits_ms;
        double margin_ms = 0;
        std::size_t margins = 0;
        double slow_ms = 0;
        for (std::size_t step = 0; step < table_.steps.size(); ++step) {
            if (!straggler.slow[step]) continue;
            straggler.cost_ms += what_if.saved_by_ms(straggler.rank, step);
            const double step_ms = median_of(table_.step_ms.of_step(step));
            if (!is_missing(step_ms)) slow_ms += step_ms;
            if (const double ms = wait_of_others_ms(step, nullptr); !is_missing(ms)) waits_ms.push_back(ms);
            const double margin =
                wait_of_others_ms(step, peers_[straggler.rank]) - table_.wait_ms.at(straggler.rank, step);
            if (is_missing(margin)) continue;
            margin_ms += margin;
            ++margins;
        }
        const bool costs = straggler.cost_ms > rules_.least_cost * slow_ms;
        if (!waits_ms.empty()) straggler.waiters_median_wait_ms = median_of(std::move(waits_ms));
        const double least_ms = rules_.least_margin * straggler.excess_ms;
        return costs && (margins == 0 || margin_ms > least_ms * static_cast<double>(margins));
    }

    [[nodiscard]] bool is_slow(std::size_t rank, std::size_t step) const {
        return !slow_[rank].empty() && slow_[rank][step];
    }

    /// Of ranks that are not slow themselves then: those of one role, or of all.
    [[nodiscard]] double wait_of_others_ms(std::size_t step, const PeerGroup* peers) const {
        std::vector<double> waits_ms;
        for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank)
            if (!is_slow(rank, step) && (peers == nullptr || peers_[rank] == peers))
                waits_ms.push_back(table_.wait_ms.at(rank, step));
        return median_of(std::move(waits_ms));
    }

    const JobTable& table_;
    const StepMatrix& own_ms_;
    const StragglerRules& rules_;
    SearchScale scale_;
    std::vector<Straggler> found_;
    std::vector<const PeerGroup*> peers_ = std::vector<const PeerGroup*>(table_.ranks.size());
    SlowSteps slow_ = SlowSteps(table_.ranks.size());
    bool waits_inside_ = false;
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

double typical_ms(const JobTable& table, const StepMatrix& ms) {
    std::vector<double> steps_ms;
    for (std::size_t step = 0; step < table.steps.size(); ++step) steps_ms.push_back(median_of(ms.of_step(step)));
    const double typical = median_of(std::move(steps_ms));
    return is_missing(typical) ? 0 : typical;
}

Stragglers find_stragglers(const JobTable& table, const std::vector<PeerGroup>& groups, const StepMatrix& own_ms,
                           std::size_t threads, const StragglerRules& rules) {
    if (table.steps.empty() || table.ranks.empty()) return {};
    return Finder(table, own_ms, rules).find(groups, threads);
}

}  // namespace cep::analysis
