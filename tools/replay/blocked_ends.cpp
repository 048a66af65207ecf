// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "replay/role_template.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double same_end = 0.75;  // tolerances between ends of the same kind

/// Communication that began inside of a span of another stream.
struct InnerLaunch {
    std::uint32_t piece;
    bool held_up;  // by the communication before it
};

class InnerLaunches {
  public:
    InnerLaunches(const RankPieces& pieces, double tolerance_ms) : pieces_(pieces), tolerance_ms_(tolerance_ms) {}

    /// In the order of their starts.
    const std::vector<InnerLaunch>& find(std::uint32_t outer) {
        found_.clear();
        double last_end_ms = -INFINITY;
        for (std::size_t stream = 0; stream < pieces_.stream_ends.size(); ++stream) {
            const std::uint32_t begin = pieces_.begin_of(stream);
            if (pieces_.all[begin].stream() == pieces_.all[outer].stream()) continue;
            last_end_ms = std::max(last_end_ms, find_on(begin, pieces_.stream_ends[stream], pieces_.all[outer]));
        }
        behind_ms_ = pieces_.all[outer].end_ms - last_end_ms;
        std::stable_sort(found_.begin(), found_.end(), [this](const InnerLaunch& a, const InnerLaunch& b) {
            return pieces_.all[a.piece].start_ms < pieces_.all[b.piece].start_ms;
        });
        return found_;
    }

    /// How much later than the last of them the span ends that was last asked for.
    [[nodiscard]] double behind_ms() const { return behind_ms_; }
    [[nodiscard]] bool ends_with_them(double behind_ms) const {
        return std::abs(behind_ms_ - behind_ms) <= same_end * tolerance_ms_;
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
            found_.push_back({at, piece.start_ms <= before_ms + held_up_within_ms(before_length_ms, tolerance_ms_)});
            before_ms = piece.end_ms;
            before_length_ms = piece.own_ms;
            last_end_ms = std::max(last_end_ms, piece.end_ms);
        }
        return last_end_ms;
    }

    const RankPieces& pieces_;
    const double tolerance_ms_;
    std::vector<InnerLaunch> found_;
    double behind_ms_ = INFINITY;
};

struct SpanEnds {
    std::vector<double> behind_ms;
    std::vector<double> lengths_ms;
    double usually_behind_ms = 0;
    std::size_t seen = 0;
    std::size_t blocked = 0;
    std::unordered_map<std::uint64_t, std::size_t> launches;
    std::unordered_map<std::uint64_t, std::vector<double>> shares;
};

/// A short time, always the same: what is left to do when the communication has ended.
double usually_behind_ms(const SpanEnds& ends) {
    constexpr double most_ms = 0.5;
    constexpr double most_of_span = 0.005;
    const double behind_ms = median_of(ends.behind_ms);
    const double most = std::min(most_ms, most_of_span * median_of(ends.lengths_ms));
    return behind_ms > 0 && behind_ms <= most ? behind_ms : 0;
}

/// Where the last launch was not held up, all of those that were not of them show at which share of the work they come.
void add_shares(const RankPieces& pieces, std::uint32_t outer, const std::vector<InnerLaunch>& inner, SpanEnds& ends) {
    ++ends.blocked;
    for (const InnerLaunch& launch : inner) ++ends.launches[pieces.all[launch.piece].key];
    if (inner.back().held_up) return;
    const double own_ms = pieces.all[inner.back().piece].start_ms - pieces.all[outer].start_ms;
    for (const InnerLaunch& launch : inner)
        if (!launch.held_up && own_ms > 0)
            ends.shares[pieces.all[launch.piece].key].push_back(
                (pieces.all[launch.piece].start_ms - pieces.all[outer].start_ms) / own_ms);
}

bool are_all_there(const RankPieces& pieces, const std::vector<InnerLaunch>& inner, const LaunchShares& shares) {
    return std::all_of(shares.begin(), shares.end(), [&](const auto& expected) {
        return std::any_of(inner.begin(), inner.end(),
                           [&](const InnerLaunch& launch) { return pieces.all[launch.piece].key == expected.first; });
    });
}

/// NaN if it cannot be known.
double own_work_ms(const RankPieces& pieces, std::uint32_t outer, const std::vector<InnerLaunch>& inner,
                   const LaunchShares& shares) {
    constexpr double least_share = 0.05;
    const double start_ms = pieces.all[outer].start_ms;
    bool has_share = false;
    for (const auto& [key, share] : shares) has_share |= !std::isnan(share);
    if (!has_share) return pieces.all[inner.back().piece].start_ms - start_ms;
    for (auto launch = inner.rbegin(); launch != inner.rend(); ++launch) {
        if (launch->held_up) continue;
        const Piece& piece = pieces.all[launch->piece];
        const auto share = shares.find(piece.key);
        if (share != shares.end() && share->second > least_share) return (piece.start_ms - start_ms) / share->second;
    }
    return std::numeric_limits<double>::quiet_NaN();
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
    });
    for (auto& [key, ends] : spans)
        if (!ends.behind_ms.empty()) ends.usually_behind_ms = usually_behind_ms(ends);
    for_each_span([](const RankPieces& pieces, std::uint32_t i, const InnerLaunches& launches, const auto& inner,
                     SpanEnds& ends) {
        if (!inner.empty() && launches.ends_with_them(ends.usually_behind_ms)) add_shares(pieces, i, inner, ends);
    });
    BlockedEnds blocked;
    for (const auto& [key, ends] : spans) {
        if (ends.blocked == 0 || 2 * ends.blocked < ends.seen) continue;
        blocked[key].behind_ms = ends.usually_behind_ms;
        LaunchShares& shares = blocked[key].launches;
        for (const auto& [inner, count] : ends.launches)
            if (2 * count >= ends.blocked) shares[inner] = std::numeric_limits<double>::quiet_NaN();
        for (const auto& [inner, values] : ends.shares) shares[inner] = median_of(values);
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
        const bool all_there = are_all_there(pieces, inner, end.launches);
        if (all_there && !launches.ends_with_them(end.behind_ms)) continue;
        const double unknown = std::numeric_limits<double>::quiet_NaN();
        joins.push_back({i, all_there ? own_work_ms(pieces, i, inner, end.launches) : unknown,
                         inner.empty() ? unknown : pieces.all[inner.back().piece].start_ms, end.behind_ms});
    }
    if (joins.empty()) return;
    for (const Join& join : joins) {
        Piece& outer = pieces.all[join.piece];
        Piece end = outer;
        end.end_ms = outer.end_ms - tolerance_ms / 4;  // before what comes next, whatever is rounded
        end.own_ms = join.behind_ms;
        end.start_ms = end.end_ms - end.own_ms;
        end.key += PieceKey::join_part;
        outer.is_typical = std::isnan(join.own_ms);
        if (!outer.is_typical) outer.own_ms = std::clamp(join.own_ms, 0.0, outer.own_ms);
        outer.end_ms = outer.is_typical ? std::fmin(outer.end_ms, join.last_launch_ms) : outer.start_ms + outer.own_ms;
        pieces.all.push_back(end);
    }
    std::stable_sort(pieces.all.begin(), pieces.all.end(), [](const Piece& a, const Piece& b) {
        if (a.stream() != b.stream()) return a.stream() < b.stream();
        return a.start_ms != b.start_ms ? a.start_ms < b.start_ms : a.end_ms < b.end_ms;
    });
    pieces.find_streams();
}

}  // namespace cep::tool
