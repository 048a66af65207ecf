// SPDX-License-Identifier: Apache-2.0
#include "verdict/slow_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "ledger/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr Segment none{1, 0};
constexpr double longest_pause = 8;      // steps between two that may have one cause
constexpr double most_in_a_row = 4;      // slow steps that may have one cause on any rank
constexpr double few_by_chance = 0.2;    // neighbours within the pause, of all such steps
constexpr double rare = 0.05;            // of all steps
constexpr double most_score = 3;         // of the noise: one step far out does not make a range
constexpr double least_halfway = 2;      // of the noise, to what counts as slow
constexpr double most_mistaken = 0.4;    // of the steps, that noise takes across that line: half would say nothing
constexpr double least_growth = 0.5;     // of the excess, from the first third of the steps to the last
constexpr double growth_errors = 4;      // standard errors of that
constexpr double median_error = 1.2533;  // of normal values, over that of their mean: √(π / 2)

std::vector<std::size_t> indices_of(const std::vector<bool>& slow) {
    std::vector<std::size_t> steps;
    for (std::size_t i = 0; i < slow.size(); ++i)
        if (slow[i]) steps.push_back(i);
    return steps;
}

/// The chance that noise alone makes the median of so many steps of a rank as long.
double chance_of_median(const Deviation& deviation, double median_ms, double steps) {
    const double noise_ms = std::max(deviation.noise_ms(), 1e-9);
    const double error_ms = median_error * noise_ms * std::sqrt(deviation.inflation() / steps);
    return student_tail(median_ms / error_ms, std::max(1.0, deviation.independent_values() - 1));
}

/// The distance of at least four steps; 0 where they are not equally far apart.
std::size_t equal_distance(const std::vector<std::size_t>& steps) {
    if (steps.size() < StragglerRules::least_slow_steps) return 0;
    const std::size_t distance = steps[1] - steps[0];
    for (std::size_t i = 2; i < steps.size(); ++i)
        if (steps[i] - steps[i - 1] != distance) return 0;
    return distance;
}

class SlowStepSearch {
  public:
    SlowStepSearch(const Deviation& deviation, std::size_t peer, ExceedancesByThreshold& exceedances,
                   const SearchScale& scale)
        : deviation_(deviation),
          peer_(peer),
          exceedances_(exceedances),
          excess_ms_(deviation.excess_ms(peer)),
          scale_(scale),
          noise_ms_(std::max(deviation.noise_ms(), 1e-9)) {}

    std::optional<Straggler> find() {
        if (count_values(excess_ms_) < StragglerRules::least_steps) return std::nullopt;
        const auto is_much = [this](double ms) { return ms >= scale_.floor_ms; };
        if (std::none_of(excess_ms_.begin(), excess_ms_.end(), is_much)) return std::nullopt;
        if (!(find_range() ? refine_range() : find_single_steps())) return std::nullopt;
        Straggler straggler;
        describe(straggler);
        if (straggler.excess_ms < scale_.floor_ms) return std::nullopt;
        straggler.confidence = 1 - chance_;
        return straggler;
    }

  private:
    [[nodiscard]] Segment everything() const { return {0, excess_ms_.size() - 1}; }

    [[nodiscard]] std::span<const double> values(Segment steps) const {
        return excess_ms_.subspan(steps.first, steps.length());
    }

    /// How many of these steps are slow.
    [[nodiscard]] double count_slow(Segment steps) const {
        const std::span<const double> all_ms = values(steps);
        return static_cast<double>(
            std::count_if(all_ms.begin(), all_ms.end(), [this](double ms) { return ms > halfway_ms_; }));
    }

    /// The steps that differ most clearly from the usual ones, if those above `halfway_ms` are slow.
    [[nodiscard]] Segment best_range(double halfway_ms) const {
        const double limit_ms = std::max(halfway_ms, most_score * noise_ms_);
        std::vector<double> scores;
        scores.reserve(excess_ms_.size());
        for (const double ms : excess_ms_)
            scores.push_back(is_missing(ms) ? 0 : std::clamp(ms - halfway_ms, -limit_ms, limit_ms));
        return best_segment(scores);
    }

    // A range of steps, each of which may look usual, that together cannot be chance.
    bool find_range() {
        double excess_ms = scale_.floor_ms;
        Segment range = none;
        for (int round = 0; round < 3; ++round) {
            range = best_range(excess_ms / 2);
            excess_ms = median_of(values(range));
            if (is_missing(excess_ms) || excess_ms < scale_.floor_ms) return false;
        }
        const auto steps = static_cast<double>(count_values(values(range)));
        if (steps < static_cast<double>(StragglerRules::least_slow_steps)) return false;
        // Any range of steps could have been the best one.
        const double positions = std::max(1.0, static_cast<double>(excess_ms_.size()) / deviation_.inflation());
        const double ranges = std::max(1.0, positions * positions / 2);
        chance_ = std::min(1.0, scale_.tests * ranges * chance_of_median(deviation_, excess_ms, steps));
        halfway_ms_ = excess_ms / 2;
        chance_ = std::min(chance_, scale_.tests * deviation_.chance_of_level(peer_));
        const double times = times_in_each_step(excess_ms);
        const bool is_lasting = times >= StragglerRules::several_times && !std::isinf(times) &&
                                count_values(excess_ms_) >= StragglerRules::lasting_steps;
        if (is_lasting || times >= StragglerRules::many_times) most_chance_ = StragglerRules::false_alarms_of_all;
        if (is_lasting) chance_ = std::min(chance_, most_chance_);
        const std::size_t windows = deviation_.usual_peers().size() * (excess_ms_.size() / range.length());
        return chance_ <= most_chance_ &&
               excess_ms >= spread_multiple(windows) * deviation_.spread_ms(range.length()) &&
               !is_usual_burst(range, ranges);
    }

    /// How many times as long it takes, where no step contradicts it; infinite if usually it takes next to nothing.
    /// Where steps are alike for as long as noise may last, a few of them do not tell a level from noise. But noise
    /// does not make a phase several times as long in each step, and never less than half of that.
    [[nodiscard]] double times_in_each_step(double excess_ms) const {
        std::vector<double> all_usual_ms;
        for (std::size_t step = 0; step < excess_ms_.size(); ++step) {
            if (excess_ms_[step] <= halfway_ms_) return 0;
            all_usual_ms.push_back(deviation_.usual_ms(step));
        }
        const double usual_ms = median_of(std::move(all_usual_ms));
        return usual_ms > scale_.floor_ms ? 1 + (excess_ms / usual_ms) : std::numeric_limits<double>::infinity();
    }

    /// Whether usual ranks have such steps as well, and as many as in this range by chance.
    [[nodiscard]] bool is_usual_burst(Segment range, double ranges) {
        const Exceedances& exceedances = exceedances_.of(halfway_ms_);
        if (exceedances.count_of_others(peer_) == 0) return false;
        const double chance = exceedances.chance_of(peer_, count_slow(range), static_cast<double>(range.length()));
        chance_ = std::max(chance_, std::min(1.0, scale_.tests * ranges * chance));
        return chance_ > most_chance_;
    }

    // The median of a range in which only some steps are slow lies between the two kinds.
    bool refine_range() {
        if (slow_share(best_range(halfway_ms_)) >= StragglerRules::nearly_all) return true;
        const double chance = chance_;
        const double halfway_ms = halfway_ms_;
        if (find_single_steps()) return true;
        chance_ = chance;
        halfway_ms_ = halfway_ms;
        return true;
    }

    // More steps beyond what is usual than a usual rank has.
    bool find_single_steps() {
        std::vector<double> slow_ms;
        for (const double ms : excess_ms_)
            if (ms > scale_.threshold_ms) slow_ms.push_back(ms);
        if (slow_ms.size() < StragglerRules::least_slow_steps) return false;
        const Exceedances& all = exceedances_.of(scale_.threshold_ms);
        if (all.bursts_of(peer_) < static_cast<double>(StragglerRules::least_slow_steps)) return false;
        chance_ = std::min(1.0, scale_.tests * all.chance_of(peer_) * chance_of_distance(all));
        halfway_ms_ = std::max(median_of(std::move(slow_ms)) / 2, least_halfway * noise_ms_);
        return chance_ <= StragglerRules::false_alarms;
    }

    /// Where no other rank has such steps: the chance that steps at random are as regularly spaced as its own.
    [[nodiscard]] double chance_of_distance(const Exceedances& all) const {
        std::vector<std::size_t> slow_steps;
        for (std::size_t step = 0; step < excess_ms_.size(); ++step) {
            if (excess_ms_[step] > scale_.threshold_ms) slow_steps.push_back(step);
        }
        if (all.count_of_others(peer_) > 0 || equal_distance(slow_steps) == 0) return 1;
        const auto steps = static_cast<double>(excess_ms_.size());
        const auto slow = static_cast<double>(slow_steps.size());
        const double log_choices = std::lgamma(steps + 1) - std::lgamma(slow + 1) - std::lgamma(steps - slow + 1);
        return std::min(1.0, steps * steps / (2 * (slow - 1)) * std::exp(-log_choices));
    }

    /// The share of slow steps, less those that noise takes across the line, plus those that it takes back.
    [[nodiscard]] double slow_share(Segment steps) const {
        const auto all = static_cast<double>(count_values(values(steps)));
        if (all == 0) return 0;
        const double mistaken = std::min(most_mistaken, normal_tail(halfway_ms_ / noise_ms_));
        return std::clamp((count_slow(steps) / all - mistaken) / (1 - 2 * mistaken), 0.0, 1.0);
    }

    [[nodiscard]] double slow_share_outside(Segment steps) const {
        const auto all = static_cast<double>(excess_ms_.size());
        const auto inside = static_cast<double>(steps.length());
        if (inside >= all) return 0;
        const double before = steps.first > 0 ? slow_share({0, steps.first - 1}) * static_cast<double>(steps.first) : 0;
        const double behind = all - static_cast<double>(steps.last) - 1;
        const double after = behind > 0 ? slow_share({steps.last + 1, excess_ms_.size() - 1}) * behind : 0;
        return (before + after) / (all - inside);
    }

    void describe(Straggler& straggler) {
        const Segment range = best_range(halfway_ms_);
        straggler.step_fraction = slow_share(everything());
        straggler.steps = range;
        const bool dense =
            slow_share(range) >= StragglerRules::nearly_all && range.length() >= StragglerRules::least_slow_steps;
        if (straggler.step_fraction >= StragglerRules::nearly_all) {
            straggler.pattern = Pattern::persistent;
            straggler.steps = slow_extent();
        } else if (dense && slow_share_outside(range) <= StragglerRules::hardly_any) {
            straggler.pattern = Pattern::window;
        } else {
            straggler.pattern = Pattern::intermittent;
            straggler.steps = slow_extent();
        }
        mark_slow(straggler);
        if (straggler.pattern == Pattern::intermittent)
            straggler.every_recorded = static_cast<std::int64_t>(equal_distance(indices_of(straggler.slow)));
        measure(straggler);
        if (straggler.pattern != Pattern::intermittent) find_growth(straggler);
    }

    [[nodiscard]] Segment slow_extent() const {
        const auto is_slow = [this](double ms) { return ms > halfway_ms_; };
        const auto first = std::find_if(excess_ms_.begin(), excess_ms_.end(), is_slow);
        const auto last = std::find_if(excess_ms_.rbegin(), excess_ms_.rend(), is_slow);
        if (first == excess_ms_.end()) return everything();
        return {static_cast<std::size_t>(first - excess_ms_.begin()),
                static_cast<std::size_t>(excess_ms_.rend() - last) - 1};
    }

    // Noise takes some steps of a range across the line; the range as a whole is slow.
    void mark_slow(Straggler& straggler) const {
        straggler.slow.assign(excess_ms_.size(), false);
        for (std::size_t step = straggler.steps.first; step <= straggler.steps.last; ++step)
            straggler.slow[step] = !is_missing(excess_ms_[step]) &&
                                   (straggler.pattern != Pattern::intermittent || excess_ms_[step] > halfway_ms_);
    }

    void measure(Straggler& straggler) const {
        std::vector<double> slow_ms;
        std::vector<double> ratios;
        for (std::size_t step = 0; step < excess_ms_.size(); ++step) {
            if (!straggler.slow[step]) continue;
            slow_ms.push_back(excess_ms_[step]);
            if (deviation_.usual_ms(step) > 0) ratios.push_back(1 + excess_ms_[step] / deviation_.usual_ms(step));
        }
        straggler.all_excess_ms = slow_ms.empty() ? 0 : mean_of(slow_ms);
        straggler.excess_ms = slow_ms.empty() ? 0 : median_of(std::move(slow_ms));
        constexpr double over_nothing = std::numeric_limits<double>::infinity();
        straggler.slowdown = ratios.empty() ? over_nothing : median_of(std::move(ratios));
    }

    // Thirds: the last one is slower than the first by more than half of the median, and beyond chance.
    void find_growth(Straggler& straggler) const {
        const Segment steps = straggler.steps;
        const std::size_t third = steps.length() / 3;
        if (third < StragglerRules::least_slow_steps) return;
        const double first_ms = median_of(values({steps.first, steps.first + third - 1}));
        const double middle_ms = median_of(values({steps.first + third, steps.last - third}));
        const double last_ms = median_of(values({steps.last - third + 1, steps.last}));
        const double error_ms =
            median_error * noise_ms_ * std::sqrt(2 * deviation_.inflation() / static_cast<double>(third));
        straggler.grows = last_ms - first_ms > std::max(least_growth * straggler.excess_ms, growth_errors * error_ms) &&
                          first_ms < middle_ms && middle_ms < last_ms;
        if (!straggler.grows) return;
        // Where a line through the first and the last third begins: halfway up, steps began to count as slow.
        const double slope = (last_ms - first_ms) / static_cast<double>(steps.length() - third);
        const double lead = (first_ms / slope) - static_cast<double>(third) / 2;
        if (lead > 0) straggler.steps.first -= std::min(steps.first, static_cast<std::size_t>(lead));
    }

    const Deviation& deviation_;
    const std::size_t peer_;
    ExceedancesByThreshold& exceedances_;
    const std::span<const double> excess_ms_;
    const SearchScale& scale_;
    const double noise_ms_;
    double halfway_ms_ = 0;
    double chance_ = 1;
    double most_chance_ = StragglerRules::false_alarms;
};

}  // namespace

double noise_multiple(const Deviation& deviation) {
    return student_quantile(normal_tail(StragglerRules::noise_multiple),
                            std::max(2.0, deviation.independent_values() - 1));
}

double spread_multiple(std::size_t medians) {
    constexpr double least_freedom = 5;  // of fewer, it would be hundreds: then the noise alone must tell
    const double freedom = std::max(least_freedom, static_cast<double>(medians) - 1);
    return std::max(StragglerRules::noise_multiple, student_quantile(StragglerRules::spread_chance, freedom));
}

Exceedances::Exceedances(const Deviation& deviation, double threshold_ms) {
    const std::size_t peers = deviation.ranks().size();
    is_usual_.resize(peers);
    for (const std::size_t peer : deviation.usual_peers()) is_usual_[peer] = true;
    for (std::size_t peer = 0; peer < peers; ++peer) {
        counts_.push_back(0);
        steps_.push_back(0);
        for (const double ms : deviation.excess_ms(peer)) {
            steps_.back() += !is_missing(ms);
            counts_.back() += ms > threshold_ms;
        }
        if (!is_usual_[peer]) continue;
        usual_count_ += counts_[peer];
        usual_steps_ += steps_[peer];
    }
    // Rare steps that are near each other have one cause; of frequent ones, some are neighbours by chance.
    const double rate = usual_count_ / std::max(1.0, usual_steps_);
    const auto pause = static_cast<std::size_t>(std::clamp(few_by_chance / std::max(rate, 1e-9), 2.0, longest_pause));
    for (std::size_t peer = 0; peer < peers; ++peer) {
        const bool has_any = counts_[peer] > 0;
        const std::span<const double> excess_ms = deviation.excess_ms(peer);
        bursts_.push_back(has_any ? burst_size(excess_ms, threshold_ms, pause) : 1);
        rows_.push_back(has_any && rate < rare ? std::min(burst_size(excess_ms, threshold_ms, 2), most_in_a_row) : 1);
        // What noise often reaches comes together as noise does.
        if (rate >= rare) bursts_.back() = std::max(bursts_.back(), deviation.inflation());
        if (!is_usual_[peer]) continue;
        usual_bursts_.push_back(bursts_.back());
        usual_rows_.push_back(rows_.back());
    }
    std::sort(usual_bursts_.begin(), usual_bursts_.end());
    std::sort(usual_rows_.begin(), usual_rows_.end());
}

// A tenth of the other ranks, and one, may have bursts that are faults. What is as long in a row on any other rank has
// one cause here too.
double Exceedances::burst_for(std::size_t peer) const {
    const auto of_others = [&](const std::vector<double>& usual, double own, double share) {
        const std::size_t others = usual.size() - (is_usual_[peer] ? 1 : 0);
        if (others == 0) return 1.0;
        auto at = static_cast<std::size_t>(share * static_cast<double>(others - 1));
        if (is_usual_[peer] && usual[at] >= own) ++at;
        return usual[at];
    };
    const double in_a_row = std::min(rows_[peer], of_others(usual_rows_, rows_[peer], 1));
    return std::max({1.0, in_a_row, usual_bursts_.size() < 4 ? 1 : of_others(usual_bursts_, bursts_[peer], 0.9)});
}

const Exceedances& ExceedancesByThreshold::of(double threshold_ms) {
    const long key = std::lround(16 * std::log2(std::max(threshold_ms, 1e-9)));
    return exceedances_.try_emplace(key, deviation_, std::exp2(static_cast<double>(key) / 16)).first->second;
}

double Exceedances::chance_of(std::size_t peer) const {
    return chance_of(peer, counts_[peer], steps_[peer]);
}

// It has its share of all such steps, however many there are.
double Exceedances::chance_of(std::size_t peer, double own_count, double own_steps) const {
    const double burst = burst_for(peer);
    const double others = usual_steps_ - (is_usual_[peer] ? steps_[peer] : 0);
    const double share = own_steps / (own_steps + std::max(1.0, others));
    const auto own = static_cast<std::size_t>(std::llround(own_count / burst));
    const auto all = own + static_cast<std::size_t>(std::llround(count_of_others(peer) / burst));
    return static_cast<double>(own) <= share * static_cast<double>(all) ? 1 : binomial_tail(own, all, share);
}

double chance_of_all_steps(const Deviation& deviation, std::size_t peer) {
    const std::span<const double> excess_ms = deviation.excess_ms(peer);
    return chance_of_median(deviation, median_of(excess_ms), static_cast<double>(count_values(excess_ms)));
}

std::optional<Straggler> find_slow_steps(const Deviation& deviation, std::size_t peer,
                                         ExceedancesByThreshold& exceedances, const SearchScale& scale) {
    return SlowStepSearch(deviation, peer, exceedances, scale).find();
}

}  // namespace cep::tool
