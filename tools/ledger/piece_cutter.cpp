// SPDX-License-Identifier: Apache-2.0
#include "ledger/piece_cutter.hpp"

#include <algorithm>

#include "model/depths.hpp"

namespace cep::tool {
namespace {

constexpr std::int64_t same_ns = 1'000;  // rows have their times to the nanosecond, of two clocks

}  // namespace

void PieceCutter::Queue::sort() {
    std::sort(all_.begin(), all_.end(),
              [](const SpanSegment* a, const SpanSegment* b) { return a->interval.begin_ns < b->interval.begin_ns; });
}

PieceTimes PieceCutter::cut(Interval window, std::int64_t rows_end_ns, std::span<const SpanSegment> segments) {
    PieceTimes pieces;
    exposures_.clear();
    sort(window, segments);
    for (std::int64_t at_ns = window.begin_ns; at_ns < window.end_ns;) {
        std::int64_t until_ns = window.end_ns;
        const SpanSegment* const seen = find_seen(at_ns, until_ns);
        if (seen != nullptr) {
            expose(*seen, until_ns - at_ns, pieces);
        } else {
            add_gap({at_ns, until_ns}, rows_end_ns, pieces);
        }
        at_ns = until_ns;
    }
    return pieces;
}

void PieceCutter::sort(Interval window, std::span<const SpanSegment> segments) {
    for (Queue& queue : queues_) queue.clear();
    on_device_.clear();
    for (const SpanSegment& segment : segments) {
        if (segment.interval.end_ns <= window.begin_ns || segment.interval.begin_ns >= window.end_ns) continue;
        if (segment.interval.empty()) continue;
        queues_[static_cast<std::size_t>(segment.piece)].add(segment);
        if (segment.launch_ns != SpanSegment::no_launch) on_device_.add(segment);
    }
    used_.clear();
    for (Queue& queue : queues_) {
        if (!queue.is_sorted()) queue.sort();
        if (!queue.empty()) used_.push_back(&queue);
    }
    if (!on_device_.is_sorted()) on_device_.sort();
}

std::int64_t PieceCutter::avoidable_ns(std::int64_t waiting_ns) const {
    const auto idle_lag_ns = static_cast<std::int64_t>(idle_lag_ms * 1e6);
    std::int64_t all_ns = 0;  // hidden or not
    for (const SpanSegment* const waiting : queues_[static_cast<std::size_t>(TimeKind::waiting)].all())
        all_ns += waiting->interval.length_ns();
    if (all_ns == 0) return waiting_ns;
    const double counted = static_cast<double>(waiting_ns) / static_cast<double>(all_ns);
    std::int64_t earlier_ns = 0;
    for (const SpanSegment* const one : on_device_.all()) {
        const std::int64_t lag_ns = one->interval.begin_ns - one->launch_ns;
        if (lag_ns < idle_lag_ns) earlier_ns = 0;
        if (lag_ns < earlier_ns) {
            waiting_ns -= earlier_ns - lag_ns;
            earlier_ns = lag_ns;
        }
        if (one->piece == TimeKind::waiting)
            earlier_ns += static_cast<std::int64_t>(counted * static_cast<double>(one->interval.length_ns()));
    }
    return waiting_ns;
}

std::span<const std::uint32_t> PieceCutter::find_launch_bound() {
    const auto idle_lag_ns = static_cast<std::int64_t>(idle_lag_ms * 1e6);
    launch_bound_.clear();
    last_work_.clear();
    for (const SpanSegment* const one : on_device_.all()) {
        const std::int64_t begin_ns = one->interval.begin_ns;
        const auto before = std::find_if(last_work_.begin(), last_work_.end(),
                                         [one](const SpanSegment* last) { return last->stream == one->stream; });
        if (before != last_work_.end()) {
            if ((*before)->span_end_ns > begin_ns + tolerance_ns) continue;  // inside of it
            if (begin_ns - one->launch_ns < idle_lag_ns) launch_bound_.push_back((*before)->phase);
            last_work_.erase(before);
        }
        if (!is_communication(one->piece)) last_work_.push_back(one);
    }
    return launch_bound_;
}

// Among segments of one piece, the first that began hides the others until it ends.
const SpanSegment* PieceCutter::find_seen(std::int64_t at_ns, std::int64_t& until_ns) {
    for (Queue* const of_piece : used_) {
        Queue& queue = *of_piece;
        while (!queue.empty() && queue.front().interval.end_ns <= at_ns) queue.pop();
        if (queue.empty()) continue;
        const Interval& next = queue.front().interval;
        const bool is_seen = next.begin_ns <= at_ns;
        until_ns = std::min(until_ns, is_seen ? next.end_ns : next.begin_ns);
        if (is_seen) return &queue.front();
    }
    return nullptr;
}

void PieceCutter::expose(const SpanSegment& segment, std::int64_t ns, PieceTimes& pieces) {
    const TimeKind piece = segment.is_host_paced ? TimeKind::host_late : segment.piece;
    pieces[piece] += ns;
    if (!exposures_.empty() && exposures_.back().phase == segment.phase && exposures_.back().piece == piece) {
        exposures_.back().ns += ns;
    } else {
        exposures_.push_back({segment.phase, piece, ns});
    }
}

// A gap that ends with work on the device that was launched in the gap: the device waited for its host.
void PieceCutter::add_gap(Interval gap, std::int64_t rows_end_ns, PieceTimes& pieces) {
    const std::int64_t end_ns = std::min(gap.end_ns, std::max(gap.begin_ns, rows_end_ns));
    pieces[TimeKind::between] += gap.end_ns - end_ns;
    if (end_ns == gap.begin_ns) return;
    while (!on_device_.empty() && on_device_.front().interval.begin_ns < end_ns - same_ns) on_device_.pop();
    const bool is_late = !on_device_.empty() && on_device_.front().interval.begin_ns <= end_ns + same_ns &&
                         on_device_.front().launch_ns >= gap.begin_ns;
    pieces[is_late ? TimeKind::host_late : TimeKind::uncovered] += end_ns - gap.begin_ns;
}

}  // namespace cep::tool
