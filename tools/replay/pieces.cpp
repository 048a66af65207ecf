// SPDX-License-Identifier: Apache-2.0
#include "replay/pieces.hpp"

#include <algorithm>
#include <cmath>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

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
        // A sort takes memory for each stream of each rank and step, and nearly all are in order.
        if (!std::is_sorted(pieces_.begin() + first, pieces_.end(), starts_before))
            std::stable_sort(pieces_.begin() + first, pieces_.end(), starts_before);
    }

  private:
    struct OpenRow {
        const TimedRow* row;
        double cut_ms;  // up to where it is in pieces
        std::uint32_t segment;
    };

    [[nodiscard]] bool is_inside(const TimedRow& row, const TimedRow& outer) const {
        return row.start_ms >= outer.start_ms - tolerance_ms_ && row.end_ms <= outer.end_ms + tolerance_ms_ &&
               (row.depth > outer.depth || row.length_ms() < outer.length_ms() - tolerance_ms_) &&
               row.start_ms < outer.end_ms - tolerance_ms_ / 4;
    }
    void interrupt(OpenRow& outer, const TimedRow& inner) {
        if (inner.start_ms > outer.cut_ms + tolerance_ms_ / 4)
            add(*outer.row, outer.cut_ms, inner.start_ms, outer.segment);
        outer.cut_ms = std::max(outer.cut_ms, inner.end_ms);
        outer.segment = PieceKey::segment_behind(inner.name, inner.seq);
    }
    void close() {
        const OpenRow& last = open_.back();
        if (last.row->end_ms > last.cut_ms + tolerance_ms_ / 4 || last.segment == 0)
            add(*last.row, last.cut_ms, std::max(last.cut_ms, last.row->end_ms), last.segment);
        open_.pop_back();
    }
    void add(const TimedRow& row, double start_ms, double end_ms, std::uint32_t segment) {
        Piece& piece = pieces_.emplace_back();
        piece.start_ms = start_ms;
        piece.end_ms = end_ms;
        piece.own_ms = std::max(0.0, end_ms - start_ms);
        piece.key = PieceKey::pack(row.stream, row.name, row.seq, segment);
        piece.collective = row.collective;
        piece.is_comm = row.is_comm;
        piece.waiting_ms = row.waiting_ms;
        piece.is_of_host = row.is_of_host;
        if (segment == 0) piece.lag_ms = row.lag_ms;
    }

    const double tolerance_ms_;
    std::vector<Piece>& pieces_;
    std::vector<OpenRow> open_;
};

}  // namespace

void RankPieces::find_streams() {
    stream_ends.clear();
    stream_ends.reserve(4);  // most ranks use fewer
    for (std::uint32_t i = 1; i <= all.size(); ++i)
        if (i == all.size() || all[i].stream() != all[i - 1].stream()) stream_ends.push_back(i);
}

void cut_into_pieces(std::span<TimedRow> rows, const RankRows& of_rank, double tolerance_ms, RankPieces& pieces) {
    sort_rows(rows);
    pieces.all.clear();
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
}

}  // namespace cep::tool
