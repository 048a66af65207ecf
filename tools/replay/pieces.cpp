// SPDX-License-Identifier: Apache-2.0
#include "replay/pieces.hpp"

#include <algorithm>
#include <cmath>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double least_tolerance_ms = 0.02;
constexpr double most_overlap = 0.25;         // of a row, by which clocks make it overlap the next one of its stream
constexpr double nearly_all_overlaps = 0.99;  // of the overlaps are within the tolerance
constexpr double over_overlaps = 1.5;         // times that

void sort_rows(std::span<TimedRow> rows) {
    std::sort(rows.begin(), rows.end(), [](const TimedRow& a, const TimedRow& b) {
        if (a.stream != b.stream) return a.stream < b.stream;
        if (a.start_ms != b.start_ms) return a.start_ms < b.start_ms;
        if (a.end_ms != b.end_ms) return a.end_ms > b.end_ms;
        if (a.depth != b.depth) return a.depth < b.depth;
        return a.name != b.name ? a.name < b.name : a.seq < b.seq;
    });
}

/// Cuts the spans of local work of one stream at what is inside of them.
class StreamCutter {
  public:
    StreamCutter(double tolerance_ms, std::vector<Piece>& pieces) : tolerance_ms_(tolerance_ms), pieces_(pieces) {}

    void cut(std::span<const TimedRow> rows) {
        const auto first = static_cast<std::ptrdiff_t>(pieces_.size());
        for (const TimedRow& row : rows) {
            while (!open_.empty() && !is_inside(row, *open_.back().row)) close();
            if (!open_.empty()) interrupt(open_.back(), row);
            if (row.is_comm) {
                add(row, row.start_ms, row.end_ms, 0);
                pieces_.back().is_nested = !open_.empty();
            } else {
                open_.push_back({&row, row.start_ms, 0});
            }
        }
        while (!open_.empty()) close();
        std::stable_sort(pieces_.begin() + first, pieces_.end(), starts_before);
    }

  private:
    struct OpenRow {
        const TimedRow* row;
        double cut_ms;  // up to where it is in pieces
        std::uint32_t part;
    };

    [[nodiscard]] bool is_inside(const TimedRow& row, const TimedRow& outer) const {
        return row.start_ms >= outer.start_ms - tolerance_ms_ && row.end_ms <= outer.end_ms + tolerance_ms_ &&
               (row.depth > outer.depth || row.length_ms() < outer.length_ms() - tolerance_ms_) &&
               row.start_ms < outer.end_ms - tolerance_ms_ / 4;
    }
    void interrupt(OpenRow& outer, const TimedRow& inner) {
        if (inner.start_ms > outer.cut_ms + tolerance_ms_ / 4)
            add(*outer.row, outer.cut_ms, inner.start_ms, outer.part);
        outer.cut_ms = std::max(outer.cut_ms, inner.end_ms);
        outer.part = PieceKey::part_behind(inner.name, inner.seq);
    }
    void close() {
        const OpenRow& last = open_.back();
        if (last.row->end_ms > last.cut_ms + tolerance_ms_ / 4 || last.part == 0)
            add(*last.row, last.cut_ms, std::max(last.cut_ms, last.row->end_ms), last.part);
        open_.pop_back();
    }
    void add(const TimedRow& row, double start_ms, double end_ms, std::uint32_t part) {
        Piece& piece = pieces_.emplace_back();
        piece.start_ms = start_ms;
        piece.end_ms = end_ms;
        piece.own_ms = std::max(0.0, end_ms - start_ms);
        piece.key = PieceKey::pack(row.stream, row.name, row.seq, part);
        piece.collective = row.collective;
        piece.is_comm = row.is_comm;
    }

    const double tolerance_ms_;
    std::vector<Piece>& pieces_;
    std::vector<OpenRow> open_;
};

void add_overlaps(std::span<const TimedRow> rows, std::vector<double>& overlaps_ms) {
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const TimedRow& a = rows[i - 1];
        const TimedRow& b = rows[i];
        if (a.stream != b.stream || !(a.start_ms < b.start_ms && b.start_ms < a.end_ms && a.end_ms < b.end_ms))
            continue;
        const double overlap_ms = a.end_ms - b.start_ms;
        if (overlap_ms < most_overlap * std::min(a.length_ms(), b.length_ms())) overlaps_ms.push_back(overlap_ms);
    }
}

}  // namespace

void RankPieces::find_streams() {
    stream_ends.clear();
    for (std::uint32_t i = 1; i <= all.size(); ++i)
        if (i == all.size() || all[i].stream() != all[i - 1].stream()) stream_ends.push_back(i);
}

RankPieces cut_into_pieces(std::span<TimedRow> rows, const RankRows& of_rank, double tolerance_ms) {
    sort_rows(rows);
    RankPieces pieces;
    pieces.rank = of_rank.rank;
    pieces.all.reserve(rows.size() + 8);
    StreamCutter cutter(tolerance_ms, pieces.all);
    for (std::size_t first = 0, last = 0; first < rows.size(); first = last) {
        while (last < rows.size() && rows[last].stream == rows[first].stream) ++last;
        cutter.cut(rows.subspan(first, last - first));
    }
    pieces.find_streams();
    pieces.first_ms = of_rank.step_start_ms;
    pieces.last_ms = of_rank.step_end_ms;
    for (const Piece& piece : pieces.all) {
        pieces.first_ms = std::fmin(pieces.first_ms, piece.start_ms);
        pieces.last_ms = std::fmax(pieces.last_ms, piece.end_ms);
    }
    return pieces;
}

double find_tolerance_ms(std::span<StepRows> steps) {
    constexpr double worth_looking = 0.001;  // of all rows
    std::vector<double> overlaps_ms;
    std::size_t rows = 0;
    for (StepRows& step : steps) {
        rows += step.rows.size();
        for (const RankRows& rank : step.ranks) {
            const auto of_rank = std::span(step.rows).subspan(rank.first, rank.last - rank.first);
            sort_rows(of_rank);
            add_overlaps(of_rank, overlaps_ms);
        }
    }
    if (static_cast<double>(overlaps_ms.size()) < worth_looking * static_cast<double>(rows)) return least_tolerance_ms;
    return std::max(least_tolerance_ms, over_overlaps * quantile_of(overlaps_ms, nearly_all_overlaps));
}

}  // namespace cep::tool
