// SPDX-License-Identifier: Apache-2.0
#include "ledger/rank_timeline.hpp"

#include <algorithm>
#include <array>

#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

bool begins_later(const SpanSegment& a, const SpanSegment& b) {
    return a.interval.begin_ns > b.interval.begin_ns;
}

}  // namespace

std::int64_t steps_between(std::int64_t from, std::int64_t to, std::int64_t unit) {
    constexpr std::uint64_t most = std::uint64_t{1} << 40;
    if (to <= from) return 0;
    return static_cast<std::int64_t>(std::min(most, step_difference(from, to) / static_cast<std::uint64_t>(unit)));
}

RankTimeline::RankTimeline(const std::vector<RunSeries>& all_series, const std::vector<std::int64_t>& steps,
                           std::int64_t step_unit, std::int64_t stride, bool is_whole)
    : steps_(steps), step_unit_(step_unit), stride_(stride) {
    if (!is_whole) return;
    for (const RunSeries& series : all_series) {
        if (series.has_run && series.run.start_unix_ns)
            turns_.push_back({*series.run.start_unix_ns, TimeKind::startup});
        if (series.superseded.empty()) continue;
        turns_.push_back({series.superseded.begin_ns, TimeKind::redone});
        turns_.push_back({series.superseded.end_ns, TimeKind::restart});
    }
    std::stable_sort(turns_.begin(), turns_.end(), [](const Turn& a, const Turn& b) { return a.at_ns < b.at_ns; });
}

void RankTimeline::begin(std::int64_t first_ns) {
    outside_.begin_ns = turns_.empty() ? first_ns : std::min(first_ns, turns_.front().at_ns);
    cut_outside(outside_.begin_ns, first_ns, TimeKind::startup);
    outside_.end_ns = first_ns;
}

void RankTimeline::enter(const StepSegments& step) {
    has_step_ = true;
    step_index_ = step.step_index;
    rows_ = step.rows;
    // Rows that begin before the last iteration's end are of a clock that was set back.
    rows_.begin_ns = std::max(rows_.begin_ns, outside_.end_ns);
    rows_.end_ns = std::max(rows_.end_ns, rows_.begin_ns);
    inner_waiting_ = step.inner_waiting;
    segments_.insert(segments_.end(), step.segments.begin(), step.segments.end());
    last_end_ns_ = std::max(last_end_ns_, rows_.end_ns);
}

// The iteration ends where the next step begins, or where the rank was started again.
// Flattened, as calls for each segment take time.
[[gnu::flatten]] Iteration RankTimeline::settle(const StepSegments* next, PieceCutter& cutter) {
    const std::int64_t until_ns =
        std::max(rows_.begin_ns, next != nullptr ? next->rows.begin_ns : std::max(last_end_ns_, rows_.end_ns));
    while (next_turn_ < turns_.size() && turns_[next_turn_].at_ns <= rows_.begin_ns) ++next_turn_;
    const bool is_turn = next_turn_ < turns_.size() && turns_[next_turn_].at_ns <= until_ns;
    const bool is_redone = is_turn && turns_[next_turn_].piece == TimeKind::redone;
    Iteration iteration{
        .step = steps_[step_index_], .step_index = step_index_, .start = start_, .since_start = since_start_++};
    const std::int64_t end_ns = is_turn ? turns_[next_turn_].at_ns : until_ns;
    std::int64_t others = 0;  // steps without rows behind it
    if (is_redone) others = std::max<std::int64_t>(0, steps_between(0, stride_, 1) - 1);
    if (!is_turn && next != nullptr)
        others = std::max<std::int64_t>(0, steps_between(iteration.step, steps_[next->step_index], step_unit_) - 1);
    iteration.is_followed = next != nullptr && (!is_turn || is_redone);
    iteration.steps += others;
    for (; !later_.empty() && later_.front().interval.begin_ns < end_ns; later_.pop_back()) {
        std::pop_heap(later_.begin(), later_.end(), begins_later);
        segments_.push_back(later_.back());
    }
    const std::int64_t rows_end_ns = std::clamp(rows_.end_ns, rows_.begin_ns, end_ns);
    iteration.rows_ns = rows_end_ns - rows_.begin_ns;
    iteration.length_ns = (is_turn && !is_redone ? rows_end_ns : end_ns) - rows_.begin_ns;
    const bool is_crash = is_turn && !is_redone;
    const std::int64_t cut_end_ns = others > 0 || is_crash ? rows_end_ns : end_ns;
    iteration.pieces = cutter.cut({rows_.begin_ns, cut_end_ns}, rows_end_ns, segments_);
    iteration.exposures = cutter.exposures();
    iteration.launch_bound = cutter.find_launch_bound();
    add_waiting(cutter, iteration);
    (is_crash ? outside_.pieces[TimeKind::restart] : outside_.unrecorded_ns) += end_ns - cut_end_ns;
    outside_.unrecorded_steps += others;
    if (is_turn) cut_outside(end_ns, until_ns, TimeKind::restart);
    outside_.end_ns = until_ns;
    carry(until_ns);
    return iteration;
}

void RankTimeline::add_waiting(const PieceCutter& cutter, Iteration& iteration) const {
    for (const TimeKind piece : {TimeKind::waiting, TimeKind::bubble}) {
        const std::int64_t ns = std::min(inner_waiting_.pieces[piece], iteration.pieces[TimeKind::compute]);
        iteration.pieces[TimeKind::compute] -= ns;
        iteration.pieces[piece] += ns;
    }
    if (!inner_waiting_.is_known) return;
    const std::int64_t waiting_ns = iteration.pieces[TimeKind::waiting];
    iteration.wait_ms = static_cast<double>(waiting_ns) * 1e-6;
    iteration.avoidable_ms = static_cast<double>(cutter.avoidable_ns(waiting_ns)) * 1e-6;
}

void RankTimeline::cut_outside(std::int64_t begin_ns, std::int64_t end_ns, TimeKind first) {
    TimeKind piece = first;
    for (; next_turn_ < turns_.size() && turns_[next_turn_].at_ns <= end_ns; ++next_turn_) {
        const std::int64_t at_ns = std::max(begin_ns, turns_[next_turn_].at_ns);
        outside_.pieces[piece] += at_ns - begin_ns;
        begin_ns = at_ns;
        piece = turns_[next_turn_].piece;
        if (piece != TimeKind::startup || !has_step_) continue;
        ++start_;
        since_start_ = 0;
    }
    outside_.pieces[piece] += end_ns - begin_ns;
}

// One segment for each piece is enough for what goes on: they hide each other as a whole.
void RankTimeline::carry(std::int64_t end_ns) {
    struct Carried {
        std::int64_t end_ns = INT64_MIN;
        std::uint32_t phase = 0;
    };
    std::array<Carried, span_pieces> carried_by_piece{};
    for (const SpanSegment& segment : segments_) {
        if (segment.interval.end_ns <= end_ns) continue;
        if (segment.interval.begin_ns > end_ns) {
            later_.push_back(segment);
            std::push_heap(later_.begin(), later_.end(), begins_later);
            continue;
        }
        Carried& carried = carried_by_piece[static_cast<std::size_t>(segment.piece)];
        if (segment.interval.end_ns > carried.end_ns) carried = {segment.interval.end_ns, segment.phase};
    }
    segments_.clear();
    for (std::size_t i = 0; i < span_pieces; ++i)
        if (const Carried& carried = carried_by_piece[i]; carried.end_ns != INT64_MIN)
            segments_.push_back({.interval = {end_ns, carried.end_ns}, .phase = carried.phase, .piece = TimeKind(i)});
}

}  // namespace cep::tool
