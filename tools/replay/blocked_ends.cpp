// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "replay/role_template.hpp"
#include "stats/group_slope.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double transfer_quantile = 0.1;  // of the lengths of a collective: ranks that come last wait for nobody
constexpr double same_end = 0.75;          // tolerances between ends of the same kind
constexpr double mostly = 0.5;             // of a span, from the last launch in it to the end of that: it is waiting
constexpr double least_stops = 0.002;      // of spans: time for which they stop, to be taken apart there
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
            found_.push_back({{piece.key, piece.start_ms - piece.stopped_ms - outer.start_ms, is_free}, at});
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

/// Calls `use(piece)` with the communication that begins in a span on other streams, stream by stream.
template <typename Pieces, typename Use>
void for_each_inner(Pieces& pieces, const Piece& span, double tolerance_ms, Use use) {
    for (std::size_t i = 0; i < pieces.stream_ends.size(); ++i) {
        const auto begin = pieces.all.begin() + pieces.begin_of(i);
        if (begin->stream() == span.stream()) continue;
        const auto end = pieces.all.begin() + pieces.stream_ends[i];
        const auto before = [](const Piece& piece, double ms) { return piece.start_ms < ms; };
        auto at = std::lower_bound(begin, end, span.start_ms - tolerance_ms, before);
        for (; at != end && at->start_ms < span.end_ms; ++at)
            if (at->is_comm) use(*at);
    }
}

/// What has ended with a span, by stream.
using InnerComm = std::map<std::uint32_t, std::vector<const Piece*>>;
InnerComm inner_of(const RankPieces& pieces, const Piece& span, double tolerance_ms) {
    InnerComm found;
    for_each_inner(pieces, span, tolerance_ms, [&](const Piece& piece) {
        if (piece.end_ms <= span.end_ms + tolerance_ms) found[piece.stream()].push_back(&piece);
    });
    return found;
}

/// Until that with the key; empty if it is not there.
std::vector<const Piece*> inner_until(std::uint64_t last, const RankPieces& pieces, const Piece& span,
                                      double tolerance_ms) {
    std::vector<const Piece*> comm = std::move(inner_of(pieces, span, tolerance_ms)[PieceKey::stream(last)]);
    while (!comm.empty() && comm.back()->key != last) comm.pop_back();
    return comm;
}

bool is_held_up(const Piece& piece, const Piece& before, double tolerance_ms) {
    return piece.start_ms <= before.end_ms + 5 * tolerance_ms;
}

/// What is left of the work behind one communication when the host launches the next one, had nobody been waited for.
double left_of_work_ms(const Piece& before, const Piece& next, double work_ms) {
    const auto launch_ms = [](const Piece& piece) { return piece.start_ms - static_cast<double>(piece.lag_ms); };
    const double transfer_ms = before.end_ms - before.start_ms - static_cast<double>(before.waiting_ms);
    return std::clamp(work_ms + transfer_ms - (launch_ms(next) - launch_ms(before)), 0.0, work_ms);
}

/// For how long a span stopped until each communication began, and in all. Beside each that it stopped for it did
/// `work_ms`. It stopped where the next one was held up by that; and for the last one, as far as it was as near to its
/// end as that. Had it not stopped, what its host launched would not have begun before that.
std::vector<double> find_stops_ms(const std::vector<const Piece*>& comm, double begin_ms, double work_ms,
                                  bool stops_last, double tolerance_ms) {
    double stops_ms = 0;
    std::vector<double> until_ms;
    for (std::size_t i = 0; i < comm.size(); ++i) {
        const Piece& one = *comm[i];
        const bool is_launched_late = i > 0 && stops_ms > static_cast<double>(one.lag_ms);
        if (is_launched_late) stops_ms = std::max(0.0, static_cast<double>(one.lag_ms));
        until_ms.push_back(stops_ms);
        const bool is_last = i + 1 == comm.size();
        if (is_last ? !stops_last : !is_held_up(*comm[i + 1], one, tolerance_ms)) continue;
        constexpr double next_to_nothing = 0.25;
        const bool is_first = i == 0 && one.start_ms - begin_ms < next_to_nothing * work_ms;
        const double beside_ms = is_first           ? 0
                                 : is_launched_late ? left_of_work_ms(*comm[i - 1], one, work_ms)
                                                    : work_ms;
        stops_ms += std::clamp(one.end_ms - one.start_ms - beside_ms, 0.0, static_cast<double>(one.waiting_ms));
    }
    until_ms.push_back(stops_ms);
    return until_ms;
}

/// What is known of a span that stops for communication in one step.
struct SpanStop {
    double behind_ms = 0;  // the last one, of its own
    std::vector<const Piece*> comm{};
    std::vector<double> stops_ms{0};  // until each of these, and in all
};

SpanStop find_stop(const RankPieces& pieces, const Piece& span, const LastStop& usual, double tolerance_ms) {
    std::vector<const Piece*> comm = inner_until(usual.key, pieces, span, tolerance_ms);
    if (comm.empty() || comm.size() < usual.count) return {};  // some were lost
    constexpr double as_near = 1.25;
    const double behind_ms = std::max(0.0, span.end_ms - comm.back()->end_ms);
    const bool stops_last = behind_ms <= as_near * usual.behind_ms;
    const double work_ms = stops_last ? behind_ms : usual.behind_ms;
    std::vector<double> until_ms = find_stops_ms(comm, span.start_ms, work_ms, stops_last, tolerance_ms);
    return {std::min(behind_ms, work_ms), std::move(comm), std::move(until_ms)};
}

/// Of a span, and a stream for which it may stop, in all steps.
struct SpanStops {
    std::size_t seen = 0;
    struct Times {
        std::vector<double> begin_ms{};   // from the begin of the span
        std::vector<double> behind_ms{};  // from its end to that of the span
    };
    std::map<std::uint64_t, Times> times{};  // by key of communication
    std::vector<double> behind_ms{};         // the last one
    std::vector<double> apart_ms{};          // the begins of two of which none was held up
    double length_ms = 0;
    double stops_ms = 0;
    std::map<std::uint32_t, std::vector<GroupSlope::Pair>> of_rank{};  // stops, lengths
    LastStop last{};

    // What begins later, in some steps only or near the end, is for the next span. With what it ends, a span need not
    // stop for inside.
    void find_last(double tolerance_ms) {
        constexpr double nearly_all = 0.75;
        constexpr double much_less = 0.25;
        std::vector<std::pair<double, std::uint64_t>> usual;  // begins
        for (const auto& [key, of] : times)
            if (static_cast<double>(of.begin_ms.size()) >= nearly_all * static_cast<double>(seen))
                usual.emplace_back(median_of(of.begin_ms), key);
        std::sort(usual.begin(), usual.end());
        if (usual.empty() || median_of(times[usual.back().second].behind_ms) <= 5 * tolerance_ms) return;
        std::vector<double> apart;
        for (std::size_t i = 1; i < usual.size(); ++i) apart.push_back(usual[i].first - usual[i - 1].first);
        const double least_ms = apart.empty() ? 0 : much_less * median_of(apart);
        while (!usual.empty() && quantile_of(times[usual.back().second].behind_ms, transfer_quantile) < least_ms)
            usual.pop_back();
        constexpr std::size_t fewest_parts = 3;  // of work, to tell one from what goes on
        if (usual.size() < fewest_parts) return;
        last.key = usual.back().second;
        last.count = usual.size();
    }
    void add_work(const std::vector<const Piece*>& comm, double end_ms, double tolerance_ms) {
        behind_ms.push_back(std::max(0.0, end_ms - comm.back()->end_ms));
        for (std::size_t i = 2; i < comm.size(); ++i)
            if (!is_held_up(*comm[i - 1], *comm[i - 2], tolerance_ms) &&
                !is_held_up(*comm[i], *comm[i - 1], tolerance_ms))
                apart_ms.push_back(comm[i]->start_ms - comm[i - 1]->start_ms);
    }
    void find_work() {
        constexpr double one_part =
            1.5;  // times the work between two communications: what is behind the last is no more
        last.behind_ms = behind_ms.empty() ? 0 : quantile_of(behind_ms, transfer_quantile);
        if (!apart_ms.empty() && last.behind_ms > one_part * median_of(apart_ms)) last.behind_ms = median_of(apart_ms);
    }
    void add_stop(std::uint32_t rank, const SpanStop& stop, double span_ms) {
        if (stop.comm.empty()) return;
        length_ms += span_ms;
        stops_ms += stop.stops_ms.back();
        of_rank[rank].push_back({stop.stops_ms.back(), span_ms});
    }
    /// Whether it stops: it takes no less time then. One that goes on comes late where it takes longer, and others wait
    /// for it. `spans`: of each rank, which may begin such communication earlier than others do.
    [[nodiscard]] bool may_stop(const std::map<std::uint32_t, std::size_t>& spans) const {
        constexpr double least_errors = 3;
        const auto is_mostly_known = [this](const auto& of) {
            const auto known = of_rank.find(of.first);
            return known != of_rank.end() && 2 * known->second.size() >= of.second;
        };
        if (!std::all_of(spans.begin(), spans.end(), is_mostly_known)) return false;
        GroupSlope slope;
        for (const auto& [rank, pairs] : of_rank) slope.add(pairs);
        return last.key != 0 && slope.errors() >= -least_errors;
    }
};

}  // namespace

InnerStops find_inner_stops(const RoleSample& sample, double tolerance_ms) {
    std::map<std::pair<std::uint64_t, std::uint32_t>, SpanStops> all;  // by span and stream
    const auto for_each_span = [&](auto use) {
        for (const RankPieces& pieces : sample)
            for (const Piece& span : pieces.all) {
                if (span.is_comm) continue;
                for (const auto& [stream, comm] : inner_of(pieces, span, tolerance_ms))
                    use(all[{span.key, stream}], pieces, span, comm);
            }
    };
    for_each_span([](SpanStops& stops, const RankPieces&, const Piece& span, const auto& comm) {
        ++stops.seen;
        for (const Piece* one : comm) {
            SpanStops::Times& times = stops.times[one->key];
            times.begin_ms.push_back(one->start_ms - span.start_ms);
            times.behind_ms.push_back(std::max(0.0, span.end_ms - one->end_ms));
        }
    });
    for (auto& [of, stops] : all) stops.find_last(tolerance_ms);
    for_each_span([&](SpanStops& stops, const RankPieces& pieces, const Piece& span, const auto&) {
        const std::vector<const Piece*> comm = inner_until(stops.last.key, pieces, span, tolerance_ms);
        if (!comm.empty()) stops.add_work(comm, span.end_ms, tolerance_ms);
    });
    for (auto& [of, stops] : all) stops.find_work();
    for_each_span([&](SpanStops& stops, const RankPieces& pieces, const Piece& span, const auto&) {
        stops.add_stop(pieces.rank, find_stop(pieces, span, stops.last, tolerance_ms), span.own_ms);
    });
    std::map<std::uint64_t, std::map<std::uint32_t, std::size_t>> spans;  // by key and rank
    for (const RankPieces& pieces : sample)
        for (const Piece& span : pieces.all)
            if (!span.is_comm) ++spans[span.key][pieces.rank];
    InnerStops found;
    std::map<std::uint64_t, double> stops_ms;  // by span: the most of any stream
    for (const auto& [of, stops] : all) {
        if (!stops.may_stop(spans[of.first])) continue;
        double& most_ms = stops_ms.try_emplace(of.first, least_stops * stops.length_ms).first->second;
        if (stops.stops_ms <= most_ms) continue;
        most_ms = stops.stops_ms;
        found[of.first] = stops.last;
        found[of.first].share = stops.stops_ms / stops.length_ms;
    }
    return found;
}

void mark_stops(RankPieces& pieces, const InnerStops& stops, double tolerance_ms) {
    if (stops.empty()) return;
    for (Piece& span : pieces.all) {
        const auto last = stops.find(span.key);
        if (last == stops.end()) continue;
        const SpanStop stop = find_stop(pieces, span, last->second, tolerance_ms);
        span.stopped_ms = stop.stops_ms.back();
        for_each_inner(pieces, span, tolerance_ms, [&](Piece& piece) {
            const auto ended = std::partition_point(stop.comm.begin(), stop.comm.end(), [&](const Piece* one) {
                return one->end_ms <= piece.start_ms + tolerance_ms;
            });
            piece.stopped_ms = stop.stops_ms[static_cast<std::size_t>(ended - stop.comm.begin())];
        });
    }
}

namespace {

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

/// Where a span waits for communication that it began.
struct Join {
    std::uint32_t piece;
    double own_ms;          // before
    double last_launch_ms;  // NaN if none was recorded
    double behind_ms;
};

Join join_of_stop(const RankPieces& pieces, std::uint32_t number, const LastStop& last, double tolerance_ms) {
    const Piece& span = pieces.all[number];
    const SpanStop stop = find_stop(pieces, span, last, tolerance_ms);
    if (stop.comm.empty()) return {number, NAN, NAN, stop.behind_ms};
    const double own_ms = std::max(0.0, span.own_ms - stop.behind_ms - stop.stops_ms.back());
    return {number, own_ms, stop.comm.back()->start_ms, stop.behind_ms};
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

void split_blocked_ends(RankPieces& pieces, const BlockedEnds& blocked, const InnerStops& stops, double tolerance_ms) {
    if (blocked.empty() && stops.empty()) return;
    InnerLaunches launches(pieces, tolerance_ms);
    std::vector<Join> joins;
    for (std::uint32_t i = 0; i < pieces.all.size(); ++i) {
        const auto found = blocked.find(pieces.all[i].key);
        if (found == blocked.end()) {
            if (const auto last = stops.find(pieces.all[i].key); last != stops.end())
                joins.push_back(join_of_stop(pieces, i, last->second, tolerance_ms));
            continue;
        }
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
        end.lag_ms = NAN;
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
