// SPDX-License-Identifier: Apache-2.0
#include "ledger/ledger_collector.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

namespace cep::tool {
namespace {

// Each has some 40 bytes.
constexpr std::size_t max_ledger_steps = std::size_t{1} << 20;

}  // namespace

std::vector<std::uint32_t> indices_in(const std::vector<std::int64_t>& all, const std::vector<std::int64_t>& some) {
    std::vector<std::uint32_t> indices(all.size(), nowhere);
    for (std::size_t i = 0, at = 0; i < all.size() && at < some.size(); ++i)
        if (all[i] == some[at]) indices[i] = static_cast<std::uint32_t>(at++);
    return indices;
}

LedgerCollector::LedgerCollector(const Job& job, const std::vector<std::int64_t>& steps, std::size_t ranks)
    : job_(job), steps_(steps), step_unit_(find_step_unit()), tallies_(ranks), ranks_(ranks) {
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
    const std::vector<std::uint32_t> indices = sort_phases();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        ranks_[rank].rank = roles[rank].rank;
        for (RankLedger::Visible& visible : ranks_[rank].visible) {
            visible.phase = indices[visible.phase];
            phases_[visible.phase].visible_ms += visible.ms;
        }
    }
    Ledger ledger;
    ledger.is_timed =
        std::any_of(tallies_.begin(), tallies_.end(), [](const RankTally& tally) { return tally.is_timed; });
    ledger.steps = std::move(sums_);
    ledger.phases = std::move(phases_);
    ledger.ranks = std::move(ranks_);
    ledger.stride = job_.steps.stride;
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

RankCollector::RankCollector(LedgerCollector& all, std::size_t rank, const std::vector<RunSeries>& all_series,
                             const std::vector<PhaseUse>& uses, PieceCutter& cutter, TakeSeen take_seen)
    : all_(all),
      tally_(all.tallies_[rank]),
      ledger_(all.ranks_[rank]),
      timeline_(all_series, all.steps_, all.step_unit_, all_series.back().run.record_every_n_steps.value_or(1),
                !all.job_.filter.has_steps() && !all.job_.filter.has_phases()),
      uses_(uses),
      visible_ns_(uses.size()),
      cutter_(cutter),
      take_seen_(std::move(take_seen)) {}

// From the first step with starts on, those without do not count.
void RankCollector::add_step(const StepSegments& step) {
    tally_.comm_ms += step.comm_ms;
    tally_.all_comm_ms += step.all_comm_ms;
    tally_.matched_comm_ms += step.matched_ms;
    tally_.waits_inside |= step.waits_inside;
    ledger_.step_span_ms += step.step_span_ms;
    if (step.rows.empty()) return add_untimed(step);
    if (timeline_.empty()) {
        ledger_.pieces = {};
        ledger_.steps = 0;
    }
    timeline_.take(step, cutter_, [this](const Iteration& iteration) { add_iteration(iteration); });
}

/// A step without starts.
void RankCollector::add_untimed(const StepSegments& step) {
    if (!timeline_.empty()) return;  // its time is that of the rows with starts
    const std::int64_t ns = step.step_ms > 0 ? std::llround(step.step_ms * 1e6) : 0;
    const PieceTimes pieces = cutter_.cut({0, ns}, ns, step.segments);
    ledger_.pieces.add(pieces);
    ++ledger_.steps;
    const double wait_ms = step.inner_waiting.is_known ? static_cast<double>(pieces[TimeKind::waiting]) * 1e-6 : NAN;
    add_seen({.step_index = step.step_index,
              .pieces = pieces,
              .wait_ms = wait_ms,
              .avoidable_ms = wait_ms,
              .exposures = cutter_.exposures()});
    all_.add_to_sum(step.step_index, {.ranks = 1, .recorded = 1, .length_ns = ns, .steps = 1, .rows_ns = ns});
}

void RankCollector::add_iteration(const Iteration& iteration) {
    ledger_.pieces.add(iteration.pieces);
    ledger_.recorded_ms += static_cast<double>(iteration.pieces.sum_ns()) * 1e-6;
    ledger_.steps += iteration.steps;
    if (ledger_.recorded == 0) tally_.first_step = iteration.step;
    tally_.last_step = iteration.step;
    ++ledger_.recorded;
    add_seen(iteration);
    const bool is_known = iteration.is_followed;
    gap_before_ns_ = is_known && iteration.steps == 1 ? iteration.pieces[TimeKind::between] : 0;
    all_.add_to_sum(iteration.step_index, {.ranks = is_known,
                                           .recorded = 1,
                                           .length_ns = is_known ? iteration.length_ns : 0,
                                           .steps = is_known ? iteration.steps : 0,
                                           .rows_ns = iteration.rows_ns});
    tally_.last = iteration;
    tally_.last.exposures = {};
    tally_.last.launch_bound = {};
    if (iteration.since_start < first_iterations) tally_.first.push_back(tally_.last);
    for (const auto& [piece, steps] : all_.marks_)
        if (steps->contains(iteration.step)) tally_.marked.push_back({piece, iteration.pieces});
}

// Where a device is idle as its host is late, no phase covers the time; work that its host paced is work.
void RankCollector::add_seen(const Iteration& iteration) {
    const PieceTimes& pieces = iteration.pieces;
    SeenTime seen{
        .wait_ms = iteration.wait_ms, .avoidable_ms = iteration.avoidable_ms, .launch_bound = iteration.launch_bound};
    for (const TimeKind piece : {TimeKind::transfer, TimeKind::waiting, TimeKind::bubble})
        seen.comm_ms += static_cast<double>(pieces[piece]) * 1e-6;
    std::int64_t uncovered_ns = gap_before_ns_ + pieces[TimeKind::uncovered] + pieces[TimeKind::host_late];
    for (const Exposure& exposure : iteration.exposures) {
        visible_ns_[exposure.phase] += exposure.ns;
        if (exposure.piece == TimeKind::host_late) uncovered_ns -= exposure.ns;
    }
    seen.uncovered_ms = static_cast<double>(uncovered_ns) * 1e-6;
    tally_.hidden_comm_ms -= seen.comm_ms;
    take_seen_(iteration.step_index, seen);
}

// Rows without starts count where there are no others.
void RankCollector::finish() {
    timeline_.finish(cutter_, [this](const Iteration& iteration) { add_iteration(iteration); });
    tally_.is_timed = !timeline_.empty();
    tally_.hidden_comm_ms = std::max(0.0, tally_.comm_ms + tally_.hidden_comm_ms);
    for (std::size_t i = 0; i < visible_ns_.size(); ++i)
        if (visible_ns_[i] != 0)
            ledger_.visible.push_back({uses_[i].number, static_cast<double>(visible_ns_[i]) * 1e-6});
    if (tally_.is_timed) return add_outside();
    ledger_.recorded = ledger_.steps;
    ledger_.elapsed_ns = ledger_.pieces.sum_ns();
    ledger_.recorded_ms = static_cast<double>(ledger_.elapsed_ns) * 1e-6;
}

void RankCollector::add_outside() {
    // A rank that was started again at a stride did steps that no row is of.
    ledger_.steps = std::max(ledger_.steps, steps_between(tally_.first_step, tally_.last_step, all_.step_unit_) + 1);
    const RankOutside& outside = timeline_.outside();
    ledger_.elapsed_ns = outside.end_ns - outside.begin_ns;
    spread_unrecorded(outside, ledger_);
    ledger_.pieces.add(outside.pieces);
}

}  // namespace cep::tool
