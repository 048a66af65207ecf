// SPDX-License-Identifier: Apache-2.0
#include "ledger/piece_cutter.hpp"

#include <algorithm>

namespace cep::tool {
namespace {

constexpr std::int64_t same_ns = 1'000;  // rows have their times to the nanosecond, of two clocks

bool begins_before(const SpanSegment* a, const SpanSegment* b) {
    return a->interval.begin_ns < b->interval.begin_ns;
}

}  // namespace

PieceTimes PieceCutter::cut(Interval window, std::int64_t rows_end_ns, std::span<const SpanSegment> segments) {
    PieceTimes pieces;
    exposures_.clear();
    covered_.clear();
    sort(window, segments);
    for (const std::vector<const SpanSegment*>& of_piece : by_piece_)
        if (!of_piece.empty()) expose(window, of_piece, pieces);
    const std::int64_t rows_end = std::clamp(rows_end_ns, window.begin_ns, window.end_ns);
    const Interval behind{rows_end, window.end_ns};
    pieces[TimeKind::between] = behind.length_ns() - length_within_ns(covered_, behind);
    find_gaps({window.begin_ns, rows_end}, pieces);
    return pieces;
}

void PieceCutter::sort(Interval window, std::span<const SpanSegment> segments) {
    for (std::vector<const SpanSegment*>& of_piece : by_piece_) of_piece.clear();
    on_device_.clear();
    for (const SpanSegment& segment : segments) {
        if (segment.interval.end_ns <= window.begin_ns || segment.interval.begin_ns >= window.end_ns) continue;
        if (segment.interval.empty()) continue;
        by_piece_[static_cast<std::size_t>(segment.piece)].push_back(&segment);
        if (segment.launch_ns != SpanSegment::no_launch) on_device_.push_back(&segment);
    }
    for (std::vector<const SpanSegment*>& of_piece : by_piece_)
        if (!std::is_sorted(of_piece.begin(), of_piece.end(), begins_before))
            std::sort(of_piece.begin(), of_piece.end(), begins_before);
    if (!std::is_sorted(on_device_.begin(), on_device_.end(), begins_before))
        std::sort(on_device_.begin(), on_device_.end(), begins_before);
}

void PieceCutter::expose(Interval window, const std::vector<const SpanSegment*>& of_piece, PieceTimes& pieces) {
    fresh_.clear();
    std::size_t at = 0;
    std::int64_t end_ns = window.begin_ns;  // of what was looked at
    for (const SpanSegment* segment : of_piece) {
        const Interval fresh{std::max(segment->interval.begin_ns, end_ns),
                             std::min(segment->interval.end_ns, window.end_ns)};
        if (fresh.empty()) continue;
        end_ns = fresh.end_ns;
        const std::int64_t ns = visible_ns(fresh, at);
        append(fresh_, fresh);
        if (ns == 0) continue;
        const TimeKind piece = segment->is_host_paced ? TimeKind::host_late : segment->piece;
        pieces[piece] += ns;
        exposures_.push_back({segment->phase, piece, ns});
    }
    cover(fresh_);
}

/// What is not covered. `at`: of intervals that begin one after the other, the first of covered_ that may matter.
std::int64_t PieceCutter::visible_ns(const Interval& fresh, std::size_t& at) const {
    while (at < covered_.size() && covered_[at].end_ns <= fresh.begin_ns) ++at;
    std::int64_t ns = fresh.length_ns();
    for (std::size_t i = at; i < covered_.size() && covered_[i].begin_ns < fresh.end_ns; ++i)
        ns -= std::min(covered_[i].end_ns, fresh.end_ns) - std::max(covered_[i].begin_ns, fresh.begin_ns);
    return ns;
}

void PieceCutter::cover(const Intervals& fresh) {
    if (covered_.empty()) {
        covered_ = fresh;
        return;
    }
    merged_.clear();
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < covered_.size() || j < fresh.size()) {
        const bool is_covered = j == fresh.size() || (i < covered_.size() && covered_[i].begin_ns < fresh[j].begin_ns);
        append(merged_, is_covered ? covered_[i++] : fresh[j++]);
    }
    covered_.swap(merged_);
}

// A gap that ends with work on the device that was launched in the gap: the device waited for its host.
void PieceCutter::find_gaps(Interval window, PieceTimes& pieces) {
    std::int64_t begin_ns = window.begin_ns;
    std::size_t next = 0;
    const auto take = [&](std::int64_t end_ns) {
        if (end_ns <= begin_ns) return;
        while (next < on_device_.size() && on_device_[next]->interval.begin_ns < end_ns - same_ns) ++next;
        const bool is_late = next < on_device_.size() && on_device_[next]->interval.begin_ns <= end_ns + same_ns &&
                             on_device_[next]->launch_ns >= begin_ns;
        pieces[is_late ? TimeKind::host_late : TimeKind::uncovered] += end_ns - begin_ns;
    };
    for (const Interval& covered : covered_) {
        if (covered.begin_ns >= window.end_ns) break;
        take(covered.begin_ns);
        begin_ns = std::max(begin_ns, covered.end_ns);
    }
    take(window.end_ns);
}

}  // namespace cep::tool
