// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "replay/role_template.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double transfer_quantile = 0.1;  // of the lengths of a collective: ranks that come last wait for nobody
constexpr double same_end = 0.75;          // tolerances between ends of the same kind
constexpr double mostly = 0.5;             // of a span, from the last launch in it to the end of that: it is waiting
constexpr double little_behind = 0.1;      // of a span, that such a one goes on when it need not wait any more

struct PieceLaunch : InnerLaunch<double> {
    std::uint32_t piece;
};

class InnerLaunches {
  public:
    InnerLaunches(const RankPieces& pieces, double tolerance_ms) : pieces_(pieces), tolerance_ms_(tolerance_ms) {}

    /// In the order of their starts.
    const std::vector<PieceLaunch>& find(std::uint32_t outer) {
        found_.clear();
        double last_end_ms = -INFINITY;
        for (std::size_t stream = 0; stream < pieces_.stream_ends.size(); ++stream) {
            const std::uint32_t begin = pieces_.begin_of(stream);
            if (pieces_.all[begin].stream() == pieces_.all[outer].stream()) continue;
            last_end_ms = std::max(last_end_ms, find_on(begin, pieces_.stream_ends[stream], pieces_.all[outer]));
        }
        last_end_ms_ = last_end_ms;
        behind_ms_ = pieces_.all[outer].end_ms - last_end_ms;
        std::stable_sort(found_.begin(), found_.end(), [this](const PieceLaunch& a, const PieceLaunch& b) {
            return pieces_.all[a.piece].start_ms < pieces_.all[b.piece].start_ms;
        });
        const double length_ms = pieces_.all[outer].own_ms;
        is_mostly_waiting_ = !found_.empty() && behind_ms_ >= 0 && behind_ms_ <= little_behind * length_ms &&
                             last_end_ms - pieces_.all[found_.back().piece].start_ms > mostly * length_ms;
        return found_;
    }

    /// How much later than the last of them the span ends that was last asked for.
    [[nodiscard]] double behind_ms() const { return behind_ms_; }
    [[nodiscard]] bool ends_with_them(double behind_ms) const {
        return std::abs(behind_ms_ - behind_ms) <= same_end * tolerance_ms_;
    }
    /// Whether most of it is a wait for the last of them.
    [[nodiscard]] bool is_mostly_waiting() const { return is_mostly_waiting_; }
    /// Whether it waited for them for longer than it went on behind them, if its work was over by then: a busy host
    /// notices late that it may go on.
    [[nodiscard]] bool waited_for_them(double work_end_ms) const {
        return behind_ms_ >= 0 && last_end_ms_ - work_end_ms > behind_ms_;
    }

  private:
    /// Returns when the last of them ends.
    double find_on(std::uint32_t begin, std::uint32_t end, const Piece& outer) {
        const auto first =
            std::upper_bound(pieces_.all.begin() + begin, pieces_.all.begin() + end, outer.start_ms + tolerance_ms_,
                             [](double start_ms, const Piece& piece) { return start_ms < piece.start_ms; });
        auto at = static_cast<std::uint32_t>(first - pieces_.all.begin());
        double before_ms = at > begin && pieces_.all[at - 1].is_comm ? pieces_.all[at - 1].end_ms : -INFINITY;
        double before_length_ms = at > begin ? pieces_.all[at - 1].own_ms : 0;
        double last_end_ms = -INFINITY;
        for (; at < end && pieces_.all[at].start_ms < outer.end_ms - tolerance_ms_; ++at) {
            const Piece& piece = pieces_.all[at];
            if (!piece.is_comm) continue;
            const bool is_free = piece.start_ms > before_ms + held_up_within_ms(before_length_ms, tolerance_ms_);
            found_.push_back({{piece.key, piece.start_ms - outer.start_ms, is_free}, at});
            before_ms = piece.end_ms;
            before_length_ms = piece.own_ms;
            last_end_ms = std::max(last_end_ms, piece.end_ms);
        }
        return last_end_ms;
    }

    const RankPieces& pieces_;
    const double tolerance_ms_;
    std::vector<PieceLaunch> found_;
    double last_end_ms_ = -INFINITY;
    double behind_ms_ = INFINITY;
    bool is_mostly_waiting_ = false;
};

struct SpanEnds {
    std::vector<double> behind_ms;
    std::vector<double> lengths_ms;
    double usually_behind_ms = 0;
    std::size_t seen = 0;
    std::size_t blocked = 0;
    std::unordered_map<std::uint64_t, std::size_t> launches;
    LaunchShares shares;
    std::unordered_map<std::uint64_t, std::vector<double>> inner_lengths_ms;
};

/// A short time, always the same: what is left to do when the communication has ended.
double usually_behind_ms(const SpanEnds& ends) {
    constexpr double most_ms = 0.5;
    constexpr double most_of_span = 0.02;
    const double behind_ms = median_of(ends.behind_ms);
    const double most = std::min(most_ms, most_of_span * median_of(ends.lengths_ms));
    return behind_ms > 0 && behind_ms <= most ? behind_ms : 0;
}

bool are_all_there(const std::vector<PieceLaunch>& inner, const UsualLaunches& usual) {
    return std::all_of(usual.begin(), usual.end(), [&](const auto& expected) {
        return std::any_of(inner.begin(), inner.end(),
                           [&](const PieceLaunch& launch) { return launch.key == expected.first; });
    });
}

/// When the first communication ends that waited for other ranks. Work that comes later may have waited for it.
double first_wait_ends_ms(const RankPieces& pieces, const std::vector<PieceLaunch>& inner, const UsualLaunches& usual,
                          double tolerance_ms) {
    constexpr double longer = 2;
    double first_ms = INFINITY;
    for (const PieceLaunch& launch : inner) {
        const Piece& piece = pieces.all[launch.piece];
        const auto found = usual.find(piece.key);
        if (found == usual.end()) continue;
        const double usual_ms = longer * found->second.transfer_ms + 5 * tolerance_ms;
        if (piece.end_ms - piece.start_ms > usual_ms) first_ms = std::min(first_ms, piece.end_ms);
    }
    return first_ms;
}

/// From the share of the work at which the last launch comes. What waited before that launch may have held it up: then
/// an earlier one shows that the work took clearly less. NaN if it cannot be known.
double own_work_ms(const RankPieces& pieces, const std::vector<PieceLaunch>& inner, const UsualLaunches& usual,
                   double tolerance_ms) {
    constexpr double clearly_less = 0.9;
    bool has_share = false;
    for (const auto& [key, launch] : usual) has_share |= !std::isnan(launch.share);
    if (!has_share) return inner.back().after;
    const double wait_ends_ms = first_wait_ends_ms(pieces, inner, usual, tolerance_ms);
    double own_ms = NAN;
    double least_ms = INFINITY;
    for (const PieceLaunch& launch : inner) {
        const auto found = usual.find(launch.key);
        const double told_ms = found == usual.end() ? NAN : work_told_by(launch, found->second.share);
        if (std::isnan(told_ms)) continue;
        own_ms = told_ms;
        if (pieces.all[launch.piece].start_ms < wait_ends_ms) least_ms = INFINITY;
        least_ms = std::min(least_ms, own_ms);
    }
    return least_ms < clearly_less * own_ms ? least_ms : own_ms;
}

}  // namespace

BlockedEnds find_blocked_ends(const RoleSample& sample, double tolerance_ms) {
    std::unordered_map<std::uint64_t, SpanEnds> spans;
    const auto for_each_span = [&](auto use) {
        for (const RankPieces& pieces : sample) {
            InnerLaunches launches(pieces, tolerance_ms);
            for (std::uint32_t i = 0; i < pieces.all.size(); ++i)
                if (!pieces.all[i].is_comm) use(pieces, i, launches, launches.find(i), spans[pieces.all[i].key]);
        }
    };
    for_each_span([](const RankPieces& pieces, std::uint32_t i, const InnerLaunches& launches, const auto& inner,
                     SpanEnds& ends) {
        ++ends.seen;
        if (inner.empty()) return;
        ends.behind_ms.push_back(launches.behind_ms());
        ends.lengths_ms.push_back(pieces.all[i].own_ms);
        for (const PieceLaunch& launch : inner) {
            const Piece& piece = pieces.all[launch.piece];
            ends.inner_lengths_ms[piece.key].push_back(piece.end_ms - piece.start_ms);
        }
    });
    for (auto& [key, ends] : spans)
        if (!ends.behind_ms.empty()) ends.usually_behind_ms = usually_behind_ms(ends);
    for_each_span([](const auto&, std::uint32_t, const InnerLaunches& launches, const auto& inner, SpanEnds& ends) {
        const bool is_blocked = launches.ends_with_them(ends.usually_behind_ms) || launches.is_mostly_waiting();
        if (inner.empty() || !is_blocked) return;
        ++ends.blocked;
        for (const PieceLaunch& launch : inner) ++ends.launches[launch.key];
        add_shares(inner, ends.shares);
    });
    BlockedEnds blocked;
    for (auto& [key, ends] : spans) {
        if (ends.blocked == 0 || 2 * ends.blocked < ends.seen) continue;
        blocked[key].behind_ms = ends.usually_behind_ms;
        UsualLaunches& launches = blocked[key].launches;
        for (const auto& [inner, count] : ends.launches)
            if (2 * count >= ends.blocked) launches[inner] = {};
        for (auto& [inner, launch] : launches)
            launch = {median_of(ends.shares[inner]), quantile_of(ends.inner_lengths_ms[inner], transfer_quantile)};
    }
    return blocked;
}

void split_blocked_ends(RankPieces& pieces, const BlockedEnds& blocked, double tolerance_ms) {
    if (blocked.empty()) return;
    InnerLaunches launches(pieces, tolerance_ms);
    struct Join {
        std::uint32_t piece;
        double own_ms;
        double last_launch_ms;  // NaN if none was recorded
        double behind_ms;
    };
    std::vector<Join> joins;
    for (std::uint32_t i = 0; i < pieces.all.size(); ++i) {
        const auto found = blocked.find(pieces.all[i].key);
        if (found == blocked.end()) continue;
        const auto& inner = launches.find(i);
        const BlockedEnd& end = found->second;
        const bool all_there = are_all_there(inner, end.launches);
        const double own_ms = all_there ? own_work_ms(pieces, inner, end.launches, tolerance_ms) : NAN;
        if (all_there && !launches.ends_with_them(end.behind_ms) &&
            !launches.waited_for_them(pieces.all[i].start_ms + own_ms))
            continue;
        joins.push_back({i, own_ms, inner.empty() ? NAN : pieces.all[inner.back().piece].start_ms,
                         std::clamp(launches.behind_ms(), 0.0, all_there ? INFINITY : end.behind_ms)});
    }
    if (joins.empty()) return;
    for (const Join& join : joins) {
        Piece& outer = pieces.all[join.piece];
        Piece end = outer;
        end.end_ms = outer.end_ms - tolerance_ms / 4;  // before what comes next, whatever is rounded
        end.own_ms = join.behind_ms;
        end.start_ms = end.end_ms - end.own_ms;
        end.key += PieceKey::join_segment;
        outer.is_typical = std::isnan(join.own_ms);
        if (!outer.is_typical) outer.own_ms = std::clamp(join.own_ms, 0.0, outer.own_ms);
        outer.end_ms = outer.is_typical ? std::fmin(outer.end_ms, join.last_launch_ms) : outer.start_ms + outer.own_ms;
        pieces.all.push_back(end);
    }
    std::stable_sort(pieces.all.begin(), pieces.all.end(), [](const Piece& a, const Piece& b) {
        return a.stream() != b.stream() ? a.stream() < b.stream() : starts_before(a, b);
    });
    pieces.find_streams();
}

}  // namespace cep::tool
