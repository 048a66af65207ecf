// SPDX-License-Identifier: Apache-2.0
#include "ledger/ledger.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double warm_up = 1.5;         // times a typical step
constexpr double late_warm_up = 10;     // the same behind usual ones: communication or a graph is set up there
constexpr std::size_t few_of_all = 10;  // at most one in so many steps is start-up
constexpr std::size_t least_steps = 8;  // fewer do not tell what is typical

// In this order, recorded steps may have them and the others not.
constexpr std::array own_to_recorded = {TimeKind::checkpoint, TimeKind::evaluation, TimeKind::logging, TimeKind::other,
                                        TimeKind::host,       TimeKind::uncovered,  TimeKind::data};
// The first steps' own, which compiling and warming up do not make longer.
constexpr std::array never_startup = {TimeKind::data, TimeKind::host_to_device, TimeKind::checkpoint,
                                      TimeKind::evaluation, TimeKind::logging};
constexpr std::array beside_training = {TimeKind::checkpoint, TimeKind::evaluation};
constexpr std::array for_others = {TimeKind::waiting, TimeKind::bubble, TimeKind::uncovered};
constexpr std::array no_iteration = {TimeKind::startup, TimeKind::restart, TimeKind::redone};

template <typename Pieces>
bool is_in(const Pieces& pieces, TimeKind piece) {
    return std::find(pieces.begin(), pieces.end(), piece) != pieces.end();
}

template <typename Pieces>
std::int64_t sum_of(const PieceTimes& times, const Pieces& pieces) {
    std::int64_t ns = 0;
    for (const TimeKind piece : pieces) ns += times[piece];
    return ns;
}

/// Adds `total_ns` to `pieces` in the proportions of `like`, to the nanosecond.
void spread(std::int64_t total_ns, const std::array<double, piece_count>& like, PieceTimes& pieces) {
    double all = 0;
    for (const double one : like) all += one;
    if (all <= 0) {
        pieces[TimeKind::unrecorded] += total_ns;
        return;
    }
    std::int64_t given_ns = 0;
    double passed = 0;
    for (std::size_t i = 0; i < like.size(); ++i) {
        passed += like[i];
        const auto until_ns = static_cast<std::int64_t>(std::llround(static_cast<double>(total_ns) * (passed / all)));
        pieces.ns[i] += until_ns - given_ns;
        given_ns = until_ns;
    }
}

class LedgerBuilder {
  public:
    LedgerBuilder(const std::vector<RankRole>& roles, std::optional<double> peak_flops,
                  const std::vector<RankTally>& tallies)
        : roles_(roles), peak_flops_(peak_flops), tallies_(tallies) {}

    Ledger finish(Ledger&& ledger) {
        std::erase_if(ledger.steps, [](const LedgerStep& step) { return step.recorded == 0; });
        const bool has_bubbles = has_untimed_pipeline(ledger);
        find_step_times(ledger);
        const std::vector<std::uint32_t> warm_ups = count_warm_ups(ledger);
        ledger.startup_steps = find_startup_steps(warm_ups);
        ledger.last_step = find_last_step(ledger);
        double steps = 0;
        double iteration_ms = 0;
        double all_comm_ms = 0;
        for (std::size_t i = 0; i < tallies_.size(); ++i) {
            const RankTally& tally = tallies_[i];
            RankLedger& rank = ledger.ranks[i];
            settle_startup(tally, warm_ups, rank);
            settle_marks(tally, rank);
            if (has_bubbles) rank.pieces[TimeKind::bubble] += std::exchange(rank.pieces[TimeKind::uncovered], 0);
            rank.iteration_ns = rank.elapsed_ns - sum_of(rank.pieces, no_iteration);
            ledger.elapsed_ns += rank.elapsed_ns;
            ledger.pieces.add(rank.pieces);
            ledger.recorded_ms += rank.recorded_ms;
            ledger.step_span_ms += rank.step_span_ms;
            ledger.comm_ms += tally.comm_ms;
            ledger.hidden_comm_ms += tally.hidden_comm_ms;
            ledger.matched_comm += tally.matched_comm_ms;
            ledger.waits_inside |= tally.waits_inside;
            all_comm_ms += tally.all_comm_ms;
            steps += static_cast<double>(rank.steps);
            iteration_ms += static_cast<double>(rank.iteration_ns) * 1e-6;
        }
        if (all_comm_ms > 0) ledger.matched_comm /= all_comm_ms;
        if (steps > 0) ledger.step_times.mean_ms = iteration_ms / steps;
        ledger.device_without_peak = find_device_without_peak();
        ledger.run = throughput_of(ledger, false);
        ledger.steady = throughput_of(ledger, true);
        return std::move(ledger);
    }

  private:
    // Stages that do not time what they send each other wait for it in no phase.
    [[nodiscard]] bool has_untimed_pipeline(const Ledger& ledger) const {
        const auto is_of_pair = [](const PhaseLedger& phase) { return phase.piece == TimeKind::bubble; };
        const auto is_other_stage = [this](const RankRole& rank) { return rank.pp != roles_.front().pp; };
        return std::any_of(roles_.begin(), roles_.end(), is_other_stage) &&
               std::none_of(ledger.phases.begin(), ledger.phases.end(), is_of_pair);
    }

    void find_step_times(Ledger& ledger) const {
        std::vector<double> own_ms;
        double all_ms = 0;
        double recorded_ms = 0;
        double recorded = 0;
        double steps = 0;
        for (const LedgerStep& step : ledger.steps) {
            own_ms.push_back(step.own_ms());
            all_ms += step.length_ms();
            steps += static_cast<double>(step.steps);
            recorded_ms += step.rows_ms();
            recorded += step.recorded;
        }
        if (own_ms.empty()) return;
        const std::vector<double> quantiles = quantiles_of(own_ms, {0.5, 0.9, 0.99, 1});
        StepTimes& times = ledger.step_times;
        times.typical_ms = quantiles[0];
        times.p90_ms = quantiles[1];
        times.p99_ms = quantiles[2];
        times.max_ms = quantiles[3];
        double mean_ms = 0;
        for (const double ms : own_ms) mean_ms += ms / static_cast<double>(own_ms.size());
        double squares = 0;
        for (const double ms : own_ms) squares += (ms - mean_ms) * (ms - mean_ms);
        if (own_ms.size() > 1) times.sd_ms = std::sqrt(squares / static_cast<double>(own_ms.size() - 1));
        double of_others_ms = 0;  // the recorded steps of which the length is known
        double known = 0;
        for (const LedgerStep& step : ledger.steps) {
            of_others_ms += step.recorded > 0 ? step.rows_ms() / step.recorded * step.ranks : 0;
            known += step.ranks;
        }
        if (steps > known && known > 0)
            ledger.sampling = SamplingFact{recorded_ms / recorded, (all_ms - of_others_ms) / (steps - known)};
    }

    // By start of the job: how many of the first iterations are far longer than a typical one.
    [[nodiscard]] std::vector<std::uint32_t> count_warm_ups(const Ledger& ledger) const {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<double, double>> lengths_ms;  // sum, count
        std::int64_t most = 0;
        std::uint32_t starts = 0;
        for (const RankLedger& rank : ledger.ranks) most = std::max(most, rank.recorded);
        for (const RankTally& tally : tallies_) {
            for (const Iteration& first : tally.first) {
                auto& [sum_ms, count] = lengths_ms[{first.start, first.since_start}];
                const std::int64_t ns = first.steps == 1 && first.is_followed ? first.length_ns : first.rows_ns;
                sum_ms += static_cast<double>(ns) * 1e-6;
                ++count;
                starts = std::max(starts, first.start + 1);
            }
        }
        std::vector<std::uint32_t> warm_ups(starts);
        if (static_cast<std::size_t>(most) < least_steps) return warm_ups;
        const std::size_t allowed = std::max<std::size_t>(1, static_cast<std::size_t>(most) / few_of_all);
        for (std::uint32_t start = 0; start < starts; ++start)
            for (std::uint32_t i = 0; i < std::min<std::size_t>(first_iterations, allowed); ++i) {
                const auto found = lengths_ms.find({start, i});
                if (found == lengths_ms.end()) break;
                const double times = found->second.first / found->second.second / ledger.step_times.typical_ms;
                if (times > (i == warm_ups[start] ? warm_up : late_warm_up)) warm_ups[start] = i + 1;
            }
        return warm_ups;
    }

    [[nodiscard]] std::vector<std::int64_t> find_startup_steps(const std::vector<std::uint32_t>& warm_ups) const {
        std::set<std::int64_t> steps;
        for (const RankTally& tally : tallies_)
            for (const Iteration& first : tally.first)
                if (first.since_start < warm_ups[first.start]) steps.insert(first.step);
        return {steps.begin(), steps.end()};
    }

    /// Of its rows, without what is beside training anyway.
    [[nodiscard]] static double last_ns(const RankTally& tally) {
        return static_cast<double>(tally.last.rows_ns - sum_of(tally.last.pieces, beside_training));
    }

    // Most ranks do something in it for twice as long as any other step takes but the first ones: a pause of one rank
    // keeps the others waiting, and those of all come more than once.
    [[nodiscard]] std::optional<std::int64_t> find_last_step(const Ledger& ledger) const {
        constexpr double clear_end = 2;
        std::int64_t last = 0;
        std::size_t recorded = 0;
        for (const RankLedger& rank : ledger.ranks)
            recorded = std::max(recorded, static_cast<std::size_t>(rank.recorded));
        for (const RankTally& tally : tallies_) last = std::max(last, tally.last.step);
        std::vector<double> worked_ns;
        for (const RankTally& tally : tallies_)
            if (tally.last.step == last)
                worked_ns.push_back(last_ns(tally) - static_cast<double>(sum_of(tally.last.pieces, for_others)));
        double longest_ms = ledger.step_times.typical_ms;
        for (const LedgerStep& step : ledger.steps)
            if (step.step != last &&
                !std::binary_search(ledger.startup_steps.begin(), ledger.startup_steps.end(), step.step))
                longest_ms = std::max(longest_ms, step.own_ms());
        const double times = median_of(std::move(worked_ns)) * 1e-6 / longest_ms;
        return recorded >= least_steps && times > clear_end ? std::optional(last) : std::nullopt;
    }

    // What the first iterations have beyond the mean of the later ones.
    static void settle_startup(const RankTally& tally, const std::vector<std::uint32_t>& warm_ups, RankLedger& rank) {
        const auto is_warm_up = [&](const Iteration& first) { return first.since_start < warm_ups[first.start]; };
        PieceTimes usual = rank.pieces;
        std::int64_t others = rank.steps;
        for (const Iteration& first : tally.first) {
            if (!is_warm_up(first)) continue;
            for (std::size_t i = 0; i < piece_count; ++i) usual.ns[i] -= first.pieces.ns[i];
            --others;
        }
        if (others <= 0) return;
        for (const Iteration& first : tally.first) {
            if (!is_warm_up(first)) continue;
            for (std::size_t i = 0; i < static_cast<std::size_t>(TimeKind::startup); ++i) {
                if (is_in(never_startup, TimeKind(i))) continue;
                const std::int64_t more_ns = std::max<std::int64_t>(0, first.pieces.ns[i] - usual.ns[i] / others);
                rank.pieces.ns[i] -= more_ns;
                rank.pieces[TimeKind::startup] += more_ns;
            }
        }
    }

    // In a step with a mark, time in no phase beyond the usual is what the mark names.
    static void settle_marks(const RankTally& tally, RankLedger& rank) {
        constexpr std::array in_no_phase = {TimeKind::uncovered, TimeKind::between};
        const std::int64_t others = rank.recorded - static_cast<std::int64_t>(tally.marked.size());
        if (others <= 0) return;
        PieceTimes usual = rank.pieces;
        for (const RankTally::Marked& marked : tally.marked)
            for (const TimeKind piece : in_no_phase) usual[piece] -= marked.pieces[piece];
        for (const RankTally::Marked& marked : tally.marked)
            for (const TimeKind piece : in_no_phase) {
                const std::int64_t more_ns = std::max<std::int64_t>(0, marked.pieces[piece] - usual[piece] / others);
                const std::int64_t moved_ns = std::min(more_ns, rank.pieces[piece]);
                rank.pieces[piece] -= moved_ns;
                rank.pieces[marked.piece] += moved_ns;
            }
    }

    [[nodiscard]] std::string find_device_without_peak() const {
        for (const RankRole& role : roles_)
            if ((role.flops_per_step || role.hardware_flops_per_step) && !peak_of(role, peak_flops_))
                return role.device_name.empty() ? "a device without a name" : role.device_name;
        return "";
    }

    /// Of the times of a rank. What a few ranks do for all counts as training: the others wait for it.
    [[nodiscard]] static double beside_training_of_most(const Ledger& ledger) {
        std::vector<double> of_ranks_ns;
        for (const RankLedger& rank : ledger.ranks)
            of_ranks_ns.push_back(static_cast<double>(sum_of(rank.pieces, beside_training)));
        return of_ranks_ns.empty() ? 0 : median_of(std::move(of_ranks_ns));
    }

    [[nodiscard]] Throughput throughput_of(const Ledger& ledger, bool is_steady) const {
        Throughput all;
        const double most_beside_ns = beside_training_of_most(ledger);
        std::vector<double> tokens;
        double flops = 0;
        double hardware_flops = 0;
        double peak_ns = 0;  // peak times the time of ranks whose FLOPs are known
        double hardware_peak_ns = 0;
        for (std::size_t i = 0; i < ledger.ranks.size(); ++i) {
            const RankLedger& rank = ledger.ranks[i];
            const RankRole& role = roles_[i];
            auto ns = static_cast<double>(rank.elapsed_ns);
            if (is_steady)
                ns -= static_cast<double>(sum_of(rank.pieces, no_iteration)) +
                      std::min(static_cast<double>(sum_of(rank.pieces, beside_training)), most_beside_ns);
            auto steps = static_cast<double>(rank.steps);
            if (is_steady && ledger.last_step == tallies_[i].last.step) {
                ns -= last_ns(tallies_[i]);
                --steps;
            }
            all.elapsed_ms += ns * 1e-6 / static_cast<double>(ledger.ranks.size());
            all.steps += steps / static_cast<double>(ledger.ranks.size());
            if (role.tokens_per_step) tokens.push_back(*role.tokens_per_step);
            const std::optional<double> peak = peak_of(role, peak_flops_);
            if (!peak) continue;
            if (role.flops_per_step) {
                flops += *role.flops_per_step * steps;
                peak_ns += *peak * ns;
            }
            if (role.hardware_flops_per_step) {
                hardware_flops += *role.hardware_flops_per_step * steps;
                hardware_peak_ns += *peak * ns;
            }
        }
        if (all.steps > 0) all.step_ms = all.elapsed_ms / all.steps;
        if (!tokens.empty() && all.step_ms > 0) all.tokens_per_s = median_of(tokens) / (all.step_ms * 1e-3);
        if (peak_ns > 0) all.mfu = flops / (peak_ns * 1e-9);
        if (hardware_peak_ns > 0) all.hfu = hardware_flops / (hardware_peak_ns * 1e-9);
        return all;
    }

    const std::vector<RankRole>& roles_;
    const std::optional<double> peak_flops_;
    const std::vector<RankTally>& tallies_;
};

}  // namespace

void spread_unrecorded(const RankOutside& outside, RankLedger& rank) {
    if (outside.unrecorded_ns == 0) return;
    if (rank.recorded == 0 || outside.unrecorded_steps == 0) {
        rank.pieces[TimeKind::unrecorded] += outside.unrecorded_ns;
        return;
    }
    // Sums of one recorded step.
    std::array<double, piece_count> usual{};
    double rows_ns = 0;
    for (std::size_t i = 0; i < span_pieces + 2; ++i) {
        usual[i] = static_cast<double>(rank.pieces.ns[i]) / static_cast<double>(rank.recorded);
        rows_ns += usual[i];
    }
    const auto steps = static_cast<double>(outside.unrecorded_steps);
    const double other_ns = static_cast<double>(outside.unrecorded_ns) / steps;
    double excess_ns = rows_ns - other_ns;
    for (const TimeKind piece : own_to_recorded) {
        double& ns = usual[static_cast<std::size_t>(piece)];
        const double taken_ns = std::clamp(excess_ns, 0.0, ns);
        ns -= taken_ns;
        excess_ns -= taken_ns;
    }
    const auto like_recorded_ns =
        std::min(outside.unrecorded_ns, static_cast<std::int64_t>(std::llround(rows_ns * steps)));
    spread(like_recorded_ns, usual, rank.pieces);
    rank.pieces[TimeKind::unrecorded] += outside.unrecorded_ns - like_recorded_ns;
}

const PhaseLedger* Ledger::find(std::string_view phase) const {
    const auto found = std::lower_bound(phases.begin(), phases.end(), phase,
                                        [](const PhaseLedger& one, std::string_view name) { return one.name < name; });
    return found == phases.end() || found->name != phase ? nullptr : &*found;
}

const RankLedger* Ledger::find_rank(std::int64_t rank) const {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank,
                                        [](const RankLedger& one, std::int64_t number) { return one.rank < number; });
    return found == ranks.end() || found->rank != rank ? nullptr : &*found;
}

Ledger complete_ledger(Ledger&& ledger, const std::vector<RankRole>& roles, std::optional<double> peak_flops,
                       const std::vector<RankTally>& tallies) {
    return LedgerBuilder(roles, peak_flops, tallies).finish(std::move(ledger));
}

}  // namespace cep::tool
