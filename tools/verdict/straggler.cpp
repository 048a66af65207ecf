// SPDX-License-Identifier: Apache-2.0
#include "verdict/straggler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "base/parallel.hpp"
#include "verdict/deviation.hpp"
#include "verdict/own_work.hpp"
#include "verdict/slow_steps.hpp"
#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

std::size_t count_above(std::span<const double> values, double threshold) {
    return static_cast<std::size_t>(
        std::count_if(values.begin(), values.end(), [threshold](double value) { return value > threshold; }));
}

std::size_t count_present(std::span<const double> values) {
    return static_cast<std::size_t>(
        std::count_if(values.begin(), values.end(), [](double value) { return !is_missing(value); }));
}

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

class Finder {
  public:
    Finder(const JobTable& table, const StepMatrix& own_ms, const StragglerRules& rules)
        : table_(table), own_ms_(own_ms), rules_(rules) {
        scale_.floor_ms = std::max(rules.absolute_floor_ms, rules.relative_floor * typical_ms(table.median_step_ms));
        scale_.tests = static_cast<double>(table.ranks.size() * std::max<std::size_t>(1, table.local.size()));
    }

    Stragglers find(const std::vector<PeerGroup>& groups, std::size_t threads) {
        search(groups, threads);
        one_for_each_rank();
        Stragglers result;
        result.waits_inside = waits_inside_;
        if (found_.empty()) return result;
        for (const Straggler& straggler : found_) slow_[straggler.rank] = straggler.slow;
        const WhatIf what_if(table_, own_ms_, groups, slow_, waits_inside_);
        OtherWaits waits(table_.wait_ms, slow_);
        for (Straggler& straggler : found_) {
            const bool harms = add_consequences(straggler, what_if, waits);
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
        const Deviation deviation(*search.phase, *search.group);
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
            for (std::size_t i = 1; i < phases.size(); ++i) phases.front().also.push_back(phases[i].phase);
            found_.push_back(std::move(phases.front()));
        }
    }

    /// Whether the others wait for it, and the job loses by it.
    bool add_consequences(Straggler& straggler, const WhatIf& what_if, OtherWaits& waits) const {
        const std::vector<double>& all_ms = waits.of_all_ms();
        const std::vector<double>& peers_ms = waits.of_peers_ms(*peers_[straggler.rank]);
        std::vector<double> waits_ms;
        double margin_ms = 0;
        std::size_t margins = 0;
        double slow_ms = 0;
        for (std::size_t step = 0; step < table_.steps.size(); ++step) {
            if (!straggler.slow[step]) continue;
            straggler.cost_ms += what_if.saved_by_ms(straggler.rank, step);
            if (const double ms = table_.median_step_ms[step]; !is_missing(ms)) slow_ms += ms;
            if (!is_missing(all_ms[step])) waits_ms.push_back(all_ms[step]);
            const double margin = peers_ms[step] - table_.wait_ms.at(straggler.rank, step);
            if (is_missing(margin)) continue;
            margin_ms += margin;
            ++margins;
        }
        const bool costs = straggler.cost_ms > rules_.least_cost * slow_ms;
        if (!waits_ms.empty()) straggler.waiters_median_wait_ms = median_of(std::move(waits_ms));
        const double least_ms = rules_.least_margin * straggler.excess_ms;
        return costs && (margins == 0 || margin_ms > least_ms * static_cast<double>(margins));
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

Stragglers find_stragglers(const JobTable& table, const std::vector<PeerGroup>& groups, const StepMatrix& own_ms,
                           std::size_t threads, const StragglerRules& rules) {
    if (table.steps.empty() || table.ranks.empty()) return {};
    return Finder(table, own_ms, rules).find(groups, threads);
}

}  // namespace cep::tool
