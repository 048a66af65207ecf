// SPDX-License-Identifier: Apache-2.0
#include "replay/shared_collectives.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

/// Where values are densest: the shortest half of them, again and again. Sorts them.
double half_sample_mode(std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    std::size_t first = 0;
    std::size_t count = values.size();
    while (count > 3) {
        const std::size_t half = (count + 1) / 2;
        std::size_t best = first;
        for (std::size_t i = first; i + half <= first + count; ++i)
            if (values[i + half - 1] - values[i] < values[best + half - 1] - values[best]) best = i;
        first = best;
        count = half;
    }
    double sum = 0;
    for (std::size_t i = first; i < first + count; ++i) sum += values[i];
    return sum / static_cast<double>(count);
}

struct HostPair {
    std::uint32_t from;
    std::uint32_t to;
    double offset_ms;  // of the clock of `to`, seen from `from`
    std::size_t seen;
};

std::vector<HostPair> find_host_pairs(std::span<const CommRow> rows, const JobRows& job) {
    struct Difference {
        std::uint32_t from;
        std::uint32_t to;
        double ms;
    };
    std::vector<Difference> all;
    std::vector<std::pair<std::uint32_t, double>> ends;
    for_each_collective(rows, [&](std::span<const CommRow> members) {
        ends.clear();
        for (const CommRow& member : members) ends.emplace_back(job.ranks()[member.rank].host, member.end_ms);
        std::stable_sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (std::size_t i = 1; i < ends.size(); ++i)
            if (ends[i].first != ends[i - 1].first)
                all.push_back({ends[0].first, ends[i].first, ends[i].second - ends[0].second});
    });
    std::sort(all.begin(), all.end(), [](const Difference& a, const Difference& b) {
        return std::tie(a.from, a.to, a.ms) < std::tie(b.from, b.to, b.ms);
    });
    std::vector<HostPair> pairs;
    std::vector<double> values;
    for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
        values.clear();
        for (; last < all.size() && all[last].from == all[first].from && all[last].to == all[first].to; ++last)
            values.push_back(all[last].ms);
        pairs.push_back({all[first].from, all[first].to, half_sample_mode(values), last - first});
    }
    return pairs;
}

/// Which members of a collective are compared: those of one host, if asked for, and of the same coordinates.
std::vector<std::int64_t> part_of(const PlacedRank& rank, std::uint8_t coordinates, bool one_host) {
    std::vector<std::int64_t> part;
    if (one_host) part.push_back(rank.host_is_known ? rank.host : -1);
    for (std::size_t i = 0; i < PlacedRank::coordinates; ++i)
        if ((coordinates >> i & 1) != 0) part.push_back(rank.place[i].value_or(-1));
    return part;
}

using Members = std::vector<CommRow>;  // of one collective

/// Whether all parts of the collectives overlap in time, and no rank is in one twice.
bool fit_together(const std::vector<Members>& collectives, std::uint8_t coordinates, bool one_host, double tolerance_ms,
                  const JobRows& job) {
    constexpr double most_apart = 0.02;
    std::size_t parts = 0;
    std::size_t apart = 0;
    for (const Members& members : collectives) {
        std::map<std::vector<std::int64_t>, std::vector<const CommRow*>> by_part;
        for (const CommRow& row : members)
            by_part[part_of(job.ranks()[row.rank], coordinates, one_host)].push_back(&row);
        for (const auto& [part, rows] : by_part) {
            if (rows.size() < 2) continue;
            double last_start_ms = -INFINITY;
            double first_end_ms = INFINITY;
            std::set<std::uint32_t> ranks;
            for (const CommRow* row : rows) {
                last_start_ms = std::max(last_start_ms, row->start_ms);
                first_end_ms = std::min(first_end_ms, row->end_ms);
                ranks.insert(row->rank);
            }
            if (ranks.size() < rows.size()) return false;
            ++parts;
            apart += last_start_ms > first_end_ms + tolerance_ms;
        }
    }
    return static_cast<double>(apart) <= most_apart * static_cast<double>(parts);
}

/// Coordinates that differ between ranks, alone and together, the fewest first.
std::vector<std::uint8_t> coordinate_sets(const JobRows& job) {
    unsigned differ = 0;
    for (std::size_t i = 0; i < PlacedRank::coordinates; ++i)
        for (const PlacedRank& rank : job.ranks())
            if (rank.place[i] != job.ranks().front().place[i]) differ |= 1U << i;
    std::vector<std::uint8_t> sets;
    for (unsigned set = 1; set < 1U << PlacedRank::coordinates; ++set)
        if ((set & ~differ) == 0) sets.push_back(static_cast<std::uint8_t>(set));
    std::stable_sort(sets.begin(), sets.end(),
                     [](std::uint8_t a, std::uint8_t b) { return std::popcount(a) < std::popcount(b); });
    return sets;
}

bool has_rank_twice(const Members& members) {
    for (std::size_t i = 1; i < members.size(); ++i)
        if (members[i].rank == members[i - 1].rank) return true;
    return false;
}

/// Of two ranks that send to each other, one coordinate differs.
bool are_neighbours(const PlacedRank& a, const PlacedRank& b) {
    std::size_t differ = 0;
    for (std::size_t i = 0; i < PlacedRank::coordinates; ++i) differ += a.place[i] != b.place[i];
    return differ <= 1;
}

/// Transfers of many pairs that have one name: the halves of one end together, and of most steps that shows which they
/// are.
void pair_halves(const std::vector<Members>& collectives, const std::vector<PlacedRank>& ranks, double tolerance_ms,
                 MatchRules& rules) {
    using Half = std::tuple<std::uint32_t, std::uint16_t, std::uint32_t>;  // rank, name, seq
    std::map<Half, std::map<Half, std::size_t>> votes;
    if (std::none_of(collectives.begin(), collectives.end(), has_rank_twice)) return;
    for (const Members& members : collectives)
        for (const CommRow& row : members) {
            const auto may_be = [&](const CommRow& other) {
                return other.rank != row.rank && other.name != row.name &&
                       are_neighbours(ranks[row.rank], ranks[other.rank]);
            };
            double nearest_ms = INFINITY;
            for (const CommRow& other : members)
                if (may_be(other)) nearest_ms = std::min(nearest_ms, std::abs(other.end_ms - row.end_ms));
            for (const CommRow& other : members)
                if (may_be(other) && std::abs(other.end_ms - row.end_ms) <= nearest_ms + tolerance_ms / 2)
                    ++votes[{row.rank, row.name, row.seq}][{other.rank, other.name, other.seq}];
        }
    std::map<Half, Half> best;
    for (const auto& [half, others] : votes)
        best[half] = std::max_element(others.begin(), others.end(), [](const auto& a, const auto& b) {
                         return a.second < b.second;
                     })->first;
    for (const auto& [half, other] : best) {
        const auto back = best.find(other);
        const bool agree = back != best.end() && back->second == half;
        const std::uint32_t rank = std::get<0>(half);
        rules.pair_up(std::get<1>(half), std::get<2>(half), rank, agree ? std::get<0>(other) : rank);
    }
}

bool makes_groups(const std::vector<Members>& collectives, std::uint8_t coordinates, const JobRows& job) {
    std::set<std::vector<std::int64_t>> parts;
    std::set<std::uint32_t> ranks;
    for (const Members& members : collectives)
        for (const CommRow& row : members) {
            parts.insert(part_of(job.ranks()[row.rank], coordinates, false));
            ranks.insert(row.rank);
        }
    return 2 * parts.size() <= ranks.size();
}

}  // namespace

std::vector<CommRow> comm_rows(const StepRows& step, const MatchRules& rules) {
    std::vector<CommRow> found;
    for (const RankRows& rank : step.ranks)
        for (std::uint32_t i = rank.first; i < rank.last; ++i) {
            const TimedRow& row = step.rows[i];
            if (!row.is_comm) continue;
            found.push_back({rules.id_of(row.collective, row.name, row.stream, row.seq, rank.rank), row.start_ms,
                             row.end_ms, rank.rank, row.seq, row.name, row.stream});
        }
    sort_by_collective(found, [](const CommRow& row) { return row.start_ms; });
    return found;
}

// Over a tree of hosts: each is seen from the one with which it shares the most collectives.
std::vector<double> find_clock_offsets_ms(std::span<const CommRow> rows, const JobRows& job) {
    std::vector<HostPair> pairs = find_host_pairs(rows, job);
    const std::size_t forth = pairs.size();
    for (std::size_t i = 0; i < forth; ++i)
        pairs.push_back({pairs[i].to, pairs[i].from, -pairs[i].offset_ms, pairs[i].seen});
    std::stable_sort(pairs.begin(), pairs.end(), [](const HostPair& a, const HostPair& b) {
        return a.from != b.from ? a.from < b.from : a.seen > b.seen;
    });
    std::vector<std::size_t> first(job.hosts().size() + 1, pairs.size());
    for (std::size_t i = pairs.size(); i-- > 0;) first[pairs[i].from] = i;
    for (std::size_t host = job.hosts().size(); host-- > 0;) first[host] = std::min(first[host], first[host + 1]);
    std::vector<double> offsets_ms(job.hosts().size(), std::numeric_limits<double>::quiet_NaN());
    std::vector<std::uint32_t> queue;
    for (std::uint32_t root = 0; root < offsets_ms.size(); ++root) {
        if (!std::isnan(offsets_ms[root])) continue;
        offsets_ms[root] = 0;
        queue.assign(1, root);
        for (std::size_t i = 0; i < queue.size(); ++i)
            for (std::size_t pair = first[queue[i]]; pair < first[queue[i] + 1]; ++pair) {
                const HostPair& step = pairs[pair];
                if (!std::isnan(offsets_ms[step.to])) continue;
                offsets_ms[step.to] = offsets_ms[step.from] + step.offset_ms;
                queue.push_back(step.to);
            }
    }
    return offsets_ms;
}

void shift_clocks(StepRows& step, std::span<const double> offsets_ms, const JobRows& job) {
    for (RankRows& rank : step.ranks) {
        const double offset_ms = offsets_ms[job.ranks()[rank.rank].host];
        rank.step_start_ms -= offset_ms;
        rank.step_end_ms -= offset_ms;
        for (std::uint32_t i = rank.first; i < rank.last; ++i) {
            step.rows[i].start_ms -= offset_ms;
            step.rows[i].end_ms -= offset_ms;
        }
    }
}

ClockFacts find_clock_facts(std::span<const StepRows> steps, const JobRows& job, const MatchRules& rules,
                            double tolerance_ms) {
    constexpr double least_apart_ms = 0.1;
    constexpr double most_offsets = 0.9;    // of the hosts and steps
    constexpr double apart_tolerances = 5;  // of the ends of one collective on one clock
    if (job.hosts().size() < 2) return {};
    std::vector<double> all_ms;
    std::vector<std::vector<double>> of_host(job.hosts().size());
    for (const StepRows& step : steps) {
        const std::vector<double> offsets_ms = find_clock_offsets_ms(comm_rows(step, rules), job);
        for (std::size_t host = 0; host < offsets_ms.size(); ++host) {
            of_host[host].push_back(offsets_ms[host]);
            all_ms.push_back(std::abs(offsets_ms[host]));
        }
    }
    std::vector<double> deviations_ms;
    for (const std::vector<double>& offsets_ms : of_host) deviations_ms.push_back(robust_deviation(offsets_ms));
    return {quantile_of(all_ms, most_offsets) > std::max(apart_tolerances * tolerance_ms, least_apart_ms),
            2 * median_of(deviations_ms)};
}

void find_shared_names(std::span<const StepRows> steps, const JobRows& job, bool one_host, double tolerance_ms,
                       MatchRules& rules) {
    constexpr std::size_t most_collectives = 2'000;  // of a name
    const std::vector<std::uint8_t> sets = coordinate_sets(job);
    if (sets.empty()) return;
    using NameAndStream = std::pair<std::uint16_t, std::uint16_t>;
    std::map<NameAndStream, std::vector<Members>> by_name;
    for (const StepRows& step : steps) {
        const std::vector<CommRow> rows = comm_rows(step, rules);
        for_each_collective(rows, [&](std::span<const CommRow> members) {
            std::vector<Members>& of_name = by_name[{members.front().name, members.front().stream}];
            if (members.size() > 2 && of_name.size() < most_collectives)
                of_name.emplace_back(members.begin(), members.end());
        });
    }
    for (const auto& [name, of_name] : by_name) {
        const std::vector<Members>& collectives = of_name;  // clang 14 captures no structured binding
        if (fit_together(collectives, 0, one_host, tolerance_ms, job)) continue;
        const auto best = std::find_if(sets.begin(), sets.end(), [&](std::uint8_t set) {
            return makes_groups(collectives, set, job) && fit_together(collectives, set, one_host, tolerance_ms, job);
        });
        if (best == sets.end()) {
            pair_halves(collectives, job.ranks(), tolerance_ms, rules);
            continue;
        }
        std::set<NameAndStream> names;
        for (const Members& members : collectives)
            for (const CommRow& row : members) names.insert({row.name, row.stream});
        for (const auto& [of, stream] : names) rules.tell_apart(of, stream, *best);
    }
}

}  // namespace cep::tool
