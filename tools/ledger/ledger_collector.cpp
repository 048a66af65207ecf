// SPDX-License-Identifier: Apache-2.0
#include "ledger/ledger_collector.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace cep::tool {
namespace {

// Each has some 40 bytes.
constexpr std::size_t max_ledger_steps = std::size_t{1} << 20;

constexpr std::array not_hidden_comm = {TimeKind::transfer, TimeKind::waiting, TimeKind::bubble};

double not_hidden_ms(const PieceTimes& pieces) {
    double ms = 0;
    for (const TimeKind piece : not_hidden_comm) ms += static_cast<double>(pieces[piece]) * 1e-6;
    return ms;
}

void add_exposures(std::span<const Exposure> exposures, std::vector<std::int64_t>& visible_ns) {
    for (const Exposure& exposure : exposures) visible_ns[exposure.phase] += exposure.ns;
}

}  // namespace

std::vector<std::uint32_t> indices_in(const std::vector<std::int64_t>& all, const std::vector<std::int64_t>& some) {
    std::vector<std::uint32_t> indices(all.size(), nowhere);
    for (std::size_t i = 0, at = 0; i < all.size() && at < some.size(); ++i)
        if (all[i] == some[at]) indices[i] = static_cast<std::uint32_t>(at++);
    return indices;
}

LedgerCollector::LedgerCollector(const Job& job, const std::vector<std::int64_t>& steps)
    : job_(job), steps_(steps), step_unit_(find_step_unit()) {
    std::vector<std::int64_t> kept = steps;
    leave_some(kept, max_ledger_steps, [](std::int64_t step) { return step; });
    kept_indices_ = indices_in(steps, kept);
    for (const std::int64_t step : kept) sums_.push_back({step});
    for (const auto& [name, mark] : job.marks)
        if (const TimeKind piece = named_piece_of(name); piece != TimeKind::other)
            marks_.emplace_back(piece, &mark.steps);
}

// A trainer may count in other units than the profiler, which says of how many steps it records one.
std::int64_t LedgerCollector::find_step_unit() const {
    if (!job_.choice.keeps_all() || !job_.steps.stride) return 1;
    for (const auto& [rank, all_series] : job_.ranks)
        for (const RunSeries& series : all_series)
            if (series.stride || series.run.record_every_n_steps != job_.steps.stride) return 1;
    std::unordered_map<std::int64_t, std::size_t> counts;
    for (std::size_t i = 1; i < steps_.size(); ++i) ++counts[steps_[i] - steps_[i - 1]];
    const auto most = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second < b.second : a.first > b.first;
    });
    const bool is_unit = most != counts.end() && most->first % *job_.steps.stride == 0;
    return is_unit ? most->first / *job_.steps.stride : 1;
}

std::uint32_t LedgerCollector::index_of(const RankPhase& phase, TimeKind piece) {
    const auto [known, is_new] = phase_places_.try_emplace(phase.name, static_cast<std::uint32_t>(phases_.size()));
    if (is_new) phases_.push_back({std::string(phase.name), phase.kind, piece, 0});
    return known->second;
}

void LedgerCollector::add_rank(const std::vector<RunSeries>& all_series, const std::vector<std::uint32_t>& indices) {
    const bool is_whole = !job_.filter.has_steps() && !job_.filter.has_phases();
    const std::int64_t stride = all_series.back().run.record_every_n_steps.value_or(1);
    states_.push_back(
        {RankTimeline(all_series, step_unit_, stride, is_whole), &indices, std::vector<std::int64_t>(indices.size())});
    tallies_.emplace_back();
    ranks_.emplace_back();
}

void LedgerCollector::add_step(std::size_t rank, std::uint32_t step, const RankStep& of_rank, PieceCutter& cutter) {
    RankTally& tally = tallies_[rank];
    tally.comm_ms += of_rank.comm_ms;
    ranks_[rank].step_span_ms += of_rank.step_span_ms;
    if (of_rank.extent.empty()) return add_untimed(rank, step, of_rank);
    RankTimeline& timeline = states_[rank].timeline;
    if (timeline.empty()) drop_untimed(rank);
    const StepSegments segments{steps_[step], step, of_rank.extent, of_rank.more_waiting_ns, of_rank.segments};
    timeline.take(segments, cutter, [&](const Iteration& iteration) { add_iteration(rank, iteration); });
}

/// A step without starts.
void LedgerCollector::add_untimed(std::size_t rank, std::uint32_t step, const RankStep& of_rank) {
    RankState& state = states_[rank];
    if (!state.timeline.empty()) return;  // its time is that of the rows with starts
    RankTally& tally = tallies_[rank];
    ranks_[rank].pieces.add(of_rank.pieces);
    ++ranks_[rank].steps;
    tally.hidden_comm_ms -= not_hidden_ms(of_rank.pieces);
    add_exposures(of_rank.exposures, state.visible_ns);
    const std::int64_t ns = of_rank.pieces.sum_ns();
    add_to_sum(step, {.ranks = 1, .recorded = 1, .length_ns = ns, .steps = 1, .rows_ns = ns});
}

/// From the first step with starts on, those without do not count.
void LedgerCollector::drop_untimed(std::size_t rank) {
    ranks_[rank].pieces = {};
    ranks_[rank].steps = 0;
}

void LedgerCollector::add_iteration(std::size_t rank, const Iteration& iteration) {
    RankTally& tally = tallies_[rank];
    RankLedger& ledger = ranks_[rank];
    ledger.pieces.add(iteration.pieces);
    ledger.recorded_ms += static_cast<double>(iteration.pieces.sum_ns()) * 1e-6;
    ledger.steps += iteration.steps;
    if (ledger.recorded == 0) tally.first_step = iteration.step;
    tally.last_step = iteration.step;
    ++ledger.recorded;
    tally.hidden_comm_ms -= not_hidden_ms(iteration.pieces);
    add_exposures(iteration.exposures, states_[rank].visible_ns);
    const bool is_known = iteration.is_followed;
    add_to_sum(iteration.step_index, {.ranks = is_known,
                                      .recorded = 1,
                                      .length_ns = is_known ? iteration.length_ns : 0,
                                      .steps = is_known ? iteration.steps : 0,
                                      .rows_ns = iteration.rows_ns});
    if (iteration.since_start < first_iterations) {
        tally.first.push_back(iteration);
        tally.first.back().exposures = {};
    }
    for (const auto& [piece, steps] : marks_)
        if (steps->contains(iteration.step)) tally.marked.push_back({piece, iteration.pieces});
}

// Threads add to the same step, each for other ranks.
void LedgerCollector::add_to_sum(std::uint32_t step, const LedgerStep& of_rank) {
    if (kept_indices_[step] == nowhere) return;
    LedgerStep& sum = sums_[kept_indices_[step]];
    const auto add = [](auto& to, auto more) { std::atomic_ref(to).fetch_add(more, std::memory_order_relaxed); };
    add(sum.ranks, of_rank.ranks);
    add(sum.recorded, of_rank.recorded);
    add(sum.length_ns, of_rank.length_ns);
    add(sum.steps, of_rank.steps);
    add(sum.rows_ns, of_rank.rows_ns);
}

Ledger LedgerCollector::finish(const std::vector<RankRole>& roles, std::optional<double> peak_flops) {
    PieceCutter cutter;
    const std::vector<std::uint32_t> indices = sort_phases();
    bool is_timed = false;
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
        RankState& state = states_[rank];
        state.timeline.finish(cutter, [&](const Iteration& iteration) { add_iteration(rank, iteration); });
        finish_rank(rank);
        is_timed |= !state.timeline.empty();
        RankLedger& ledger = ranks_[rank];
        ledger.rank = roles[rank].rank;
        for (std::size_t i = 0; i < state.visible_ns.size(); ++i) {
            if (state.visible_ns[i] == 0) continue;
            const std::uint32_t phase = indices[(*state.indices)[i]];
            ledger.visible.push_back({phase, static_cast<double>(state.visible_ns[i]) * 1e-6});
            phases_[phase].visible_ms += ledger.visible.back().ms;
        }
    }
    states_ = {};
    Ledger ledger = start_ledger();
    ledger.is_timed = is_timed;
    return complete_ledger(std::move(ledger), roles, peak_flops, tallies_);
}

/// By name. Returns the new index of each.
std::vector<std::uint32_t> LedgerCollector::sort_phases() {
    std::vector<std::uint32_t> order(phases_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [this](std::uint32_t a, std::uint32_t b) { return phases_[a].name < phases_[b].name; });
    std::vector<std::uint32_t> indices(order.size());
    std::vector<PhaseLedger> sorted;
    for (const std::uint32_t phase : order) {
        indices[phase] = static_cast<std::uint32_t>(sorted.size());
        sorted.push_back(std::move(phases_[phase]));
    }
    phases_ = std::move(sorted);
    return indices;
}

/// Rows without starts count where there are no others.
void LedgerCollector::finish_rank(std::size_t index) {
    const RankState& state = states_[index];
    RankTally& tally = tallies_[index];
    RankLedger& rank = ranks_[index];
    tally.hidden_comm_ms = std::max(0.0, tally.comm_ms + tally.hidden_comm_ms);
    if (state.timeline.empty()) {
        rank.recorded = rank.steps;
        rank.elapsed_ns = rank.pieces.sum_ns();
        rank.recorded_ms = static_cast<double>(rank.elapsed_ns) * 1e-6;
        return;
    }
    // A rank that was started again at a stride did steps that no row is of.
    rank.steps = std::max(rank.steps, steps_between(tally.first_step, tally.last_step, step_unit_) + 1);
    const RankOutside& outside = state.timeline.outside();
    rank.elapsed_ns = outside.end_ns - outside.begin_ns;
    spread_unrecorded(outside, rank);
    rank.pieces.add(outside.pieces);
}

Ledger LedgerCollector::start_ledger() {
    Ledger ledger;
    ledger.steps = std::move(sums_);
    ledger.phases = std::move(phases_);
    ledger.ranks = std::move(ranks_);
    ledger.stride = job_.steps.stride;
    return ledger;
}

}  // namespace cep::tool
