// SPDX-License-Identifier: Apache-2.0
#include "model/collectives.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base/hash.hpp"
#include "model/comm_rows.hpp"
#include "model/job_rows.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t sampled_rows = 100'000;
constexpr double least_match_ms = 0.05;  // between the ends of one collective on ranks of one clock

/// What tells collectives apart that the rows alone do not. One name may stand for the groups of many communicators:
/// then these are told apart by the coordinates of their ranks in the layout. Phases and ranks are those of JobRows.
class GroupRules {
  public:
    [[nodiscard]] bool empty() const { return axes_.empty() && partners_.empty() && teams_.empty(); }
    /// The key of a collective that has a number.
    [[nodiscard]] std::uint32_t key_of(const TimedRow& row, std::uint32_t rank,
                                       const RankCoordinates& coordinates) const {
        std::uint64_t key = row.collective;
        if (const auto found = partners_.find(half(row.name, row.seq, rank)); found != partners_.end())
            return Sample::half_of(mix_bits(
                key ^ mix_bits(std::uint64_t{std::min(rank, found->second)} << 32 | std::max(rank, found->second))));
        if (const auto found = teams_.find(row.name); found != teams_.end())
            return Sample::half_of(mix_bits(key * 31 + found->second[rank] + 1));
        const auto known = axes_.find({row.name, row.stream});
        if (known == axes_.end()) return row.collective;
        for (std::size_t i = 0; i < coordinates.size(); ++i)
            if ((known->second >> i & 1) != 0)
                key = mix_bits(key * 31 + static_cast<std::uint64_t>(coordinates[i].value_or(-1) + 1));
        return Sample::half_of(key);
    }
    /// By bits: the axes by which the groups of a phase on a stream are told apart.
    void tell_apart(std::uint16_t name, std::uint16_t stream, std::uint8_t axis_bits) {
        axes_[{name, stream}] |= axis_bits;
    }
    /// Rows of a phase are halves of transfers, whose other halves are on these ranks.
    void pair_up(std::uint16_t name, std::uint32_t seq, std::uint32_t rank, std::uint32_t partner) {
        partners_[half(name, seq, rank)] = partner;
    }
    /// By rank: which of the groups of a phase it is in.
    void make_teams(std::uint16_t name, std::vector<std::uint32_t> teams) { teams_[name] = std::move(teams); }
    /// The first rank of the group of a rank, for a phase whose groups are known so; else null.
    [[nodiscard]] const std::uint32_t* team_of(std::uint16_t name, std::uint32_t rank) const {
        const auto found = teams_.find(name);
        return found == teams_.end() ? nullptr : &found->second[rank];
    }
    /// On any stream.
    [[nodiscard]] std::uint8_t axes_of(std::uint16_t name) const {
        std::uint8_t all = 0;
        for (const auto& [of, axis_bits] : axes_)
            if (of.first == name) all |= axis_bits;
        return all;
    }

  private:
    [[nodiscard]] static std::uint64_t half(std::uint16_t name, std::uint32_t seq, std::uint32_t rank) {
        return (std::uint64_t{rank} << 32 | std::uint64_t{name} << 18) + seq;
    }

    std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint8_t> axes_;  // by name and stream
    std::unordered_map<std::uint64_t, std::uint32_t> partners_;
    std::map<std::uint16_t, std::vector<std::uint32_t>> teams_;
};

/// Which members of a collective are compared: those of one host, if asked for, and of the same coordinates.
std::vector<std::int64_t> subset_of(const JobRank& rank, std::uint8_t axis_bits, bool one_host) {
    std::vector<std::int64_t> subset;
    if (one_host) subset.push_back(rank.host_is_known ? rank.host : -1);
    for (std::size_t i = 0; i < std::tuple_size_v<RankCoordinates>; ++i)
        if ((axis_bits >> i & 1) != 0) subset.push_back(rank.coordinates[i].value_or(-1));
    return subset;
}

using Members = std::vector<CommRow>;  // of one collective

bool has_rank_twice(const Members& members) {
    for (std::size_t i = 1; i < members.size(); ++i)
        if (members[i].rank == members[i - 1].rank) return true;
    return false;
}

/// Whether nearly all subsets of the collectives overlap in time, and have no rank twice.
bool fit_together(const std::vector<Members>& collectives, std::uint8_t axis_bits, bool one_host, double tolerance_ms,
                  const JobRows& job) {
    std::size_t subsets = 0;
    std::size_t apart = 0;
    for (const Members& members : collectives) {
        std::map<std::vector<std::int64_t>, Members> by_subset;
        for (const CommRow& row : members)
            by_subset[subset_of(job.ranks()[row.rank], axis_bits, one_host)].push_back(row);
        for (const auto& [subset, rows] : by_subset) {
            if (rows.size() < 2) continue;
            ++subsets;
            apart += has_rank_twice(rows) || are_apart(rows, tolerance_ms);
        }
    }
    return are_few_apart(apart, subsets);
}

/// Coordinates that differ between ranks, alone and together, the fewest first.
std::vector<std::uint8_t> axis_sets(const JobRows& job) {
    unsigned differ = 0;
    for (std::size_t i = 0; i < std::tuple_size_v<RankCoordinates>; ++i)
        for (const JobRank& rank : job.ranks())
            if (rank.coordinates[i] != job.ranks().front().coordinates[i]) differ |= 1U << i;
    std::vector<std::uint8_t> sets;
    for (unsigned set = 1; set < 1U << std::tuple_size_v<RankCoordinates>; ++set)
        if ((set & ~differ) == 0) sets.push_back(static_cast<std::uint8_t>(set));
    std::stable_sort(sets.begin(), sets.end(),
                     [](std::uint8_t a, std::uint8_t b) { return std::popcount(a) < std::popcount(b); });
    return sets;
}

/// One coordinate differs between two ranks that send to each other.
bool are_neighbours(const JobRank& a, const JobRank& b) {
    std::size_t differ = 0;
    for (std::size_t i = 0; i < std::tuple_size_v<RankCoordinates>; ++i) differ += a.coordinates[i] != b.coordinates[i];
    return differ <= 1;
}

/// Transfers of many pairs that have one name: the halves of one end together, and of most steps that shows which they
/// are.
void pair_halves(const std::vector<Members>& collectives, const std::vector<JobRank>& ranks, double tolerance_ms,
                 GroupRules& rules) {
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

bool makes_groups(const std::vector<Members>& collectives, std::uint8_t axis_bits, const JobRows& job) {
    std::size_t all = 0;
    std::size_t ranks = 0;
    for (const Members& members : collectives) {
        std::set<std::vector<std::int64_t>> subsets;
        for (const CommRow& row : members) subsets.insert(subset_of(job.ranks()[row.rank], axis_bits, false));
        all += subsets.size();
        ranks += members.size();
    }
    return 2 * all <= ranks;
}

/// By rank: the first rank with which it `is_together`; of collectives that all have, ascending by rank.
template <typename IsTogether>
std::vector<std::uint32_t> leaders_of(std::size_t ranks, IsTogether is_together) {
    std::vector<std::uint32_t> leaders(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        leaders[rank] = rank;
        for (std::uint32_t leader = 0; leader < rank && leaders[rank] == rank; ++leader)
            if (leaders[leader] == leader && is_together(leader, rank)) leaders[rank] = leader;
    }
    return leaders;
}

/// Whether there are several groups, of one size.
bool are_groups(const std::vector<std::uint32_t>& leaders) {
    std::map<std::uint32_t, std::size_t> sizes;
    for (const std::uint32_t leader : leaders) ++sizes[leader];
    const std::size_t size = sizes.begin()->second;
    const auto has_size = [size](const auto& of) { return of.second == size; };
    return sizes.size() > 1 && size > 1 && std::all_of(sizes.begin(), sizes.end(), has_size);
}

/// What two ranks did in the collectives that both are in.
std::vector<std::array<CommRow, 2>> shared_rows(const std::vector<Members>& collectives, std::uint32_t a,
                                                std::uint32_t b) {
    std::vector<std::array<CommRow, 2>> rows;
    for (const Members& members : collectives) {
        const auto row_of = [&members](std::uint32_t rank) {
            return std::lower_bound(members.begin(), members.end(), rank,
                                    [](const CommRow& row, std::uint32_t of) { return row.rank < of; });
        };
        const auto of_a = row_of(a);
        const auto of_b = row_of(b);
        if (of_b != members.end() && of_a->rank == a && of_b->rank == b) rows.push_back({*of_a, *of_b});
    }
    return rows;
}

/// Whether two ranks end together, however far their clocks are apart, as those of one group do.
bool end_together(const std::vector<std::array<CommRow, 2>>& rows) {
    std::vector<double> apart_ms;
    for (const auto& [a, b] : rows) apart_ms.push_back(b.end_ms - a.end_ms);
    return robust_deviation(apart_ms) <= least_match_ms;
}

/// Whether neither of two ranks ends before the other begins.
bool overlap(const std::vector<std::array<CommRow, 2>>& rows) {
    const auto apart =
        std::count_if(rows.begin(), rows.end(), [](const auto& both) { return are_apart(both, least_match_ms); });
    return are_few_apart(static_cast<std::size_t>(apart), rows.size());
}

/// Where no coordinates of ranks say which groups there are: those whose collectives end together; or, where ranks
/// leave them at different times, overlap. They are of one size.
void find_teams(std::uint16_t name, const std::vector<Members>& collectives, std::size_t ranks, GroupRules& rules) {
    constexpr std::size_t most_ranks = 1'024;  // each is compared with the first of every group
    constexpr std::size_t least_collectives = 30;
    if (ranks > most_ranks) return;
    const auto groups_by = [&](auto are_together) {
        return leaders_of(ranks, [&](std::uint32_t a, std::uint32_t b) {
            const std::vector<std::array<CommRow, 2>> rows = shared_rows(collectives, a, b);
            return rows.size() >= least_collectives && are_together(rows);
        });
    };
    std::vector<std::uint32_t> leaders = groups_by(end_together);
    if (!are_groups(leaders)) leaders = groups_by(overlap);
    if (are_groups(leaders)) rules.make_teams(name, std::move(leaders));
}

/// No member of a collective ends before the last has begun; where some do, the groups are told apart by the fewest
/// coordinates with which none do. Groups of different kinds use different streams. `one_host`: only ranks of one host
/// are compared, whatever their clocks.
void find_rules(std::span<const StepRows> steps, const JobRows& job, bool one_host, double tolerance_ms,
                GroupRules& rules) {
    constexpr std::size_t most_collectives = 2'000;  // of a name
    const std::vector<std::uint8_t> sets = axis_sets(job);
    if (sets.empty()) return;
    using NameAndStream = std::pair<std::uint16_t, std::uint16_t>;
    std::map<NameAndStream, std::vector<Members>> by_name;
    for (const StepRows& step : steps) {
        const std::vector<CommRow> rows = comm_rows(step);
        for_each_collective(rows, [&](std::span<const CommRow> members) {
            std::vector<Members>& of_name = by_name[{members.front().name, members.front().stream}];
            if (members.size() > 2 && of_name.size() < most_collectives)
                of_name.emplace_back(members.begin(), members.end());
        });
    }
    for (const auto& [name, of_name] : by_name) {
        if (!job.names()[name.first].may_share_name) continue;
        const std::vector<Members>& collectives = of_name;  // clang 14 captures no structured binding
        if (fit_together(collectives, 0, one_host, tolerance_ms, job)) continue;
        const auto best = std::find_if(sets.begin(), sets.end(), [&](std::uint8_t set) {
            return makes_groups(collectives, set, job) && fit_together(collectives, set, one_host, tolerance_ms, job);
        });
        if (best == sets.end()) {
            pair_halves(collectives, job.ranks(), tolerance_ms, rules);
            find_teams(name.first, collectives, job.ranks().size(), rules);
            continue;
        }
        std::set<NameAndStream> names;
        for (const Members& members : collectives)
            for (const CommRow& row : members) names.insert({row.name, row.stream});
        for (const auto& [of, stream] : names) rules.tell_apart(of, stream, *best);
    }
}

void apply(const GroupRules& rules, const JobRows& job, std::vector<StepRows>& steps) {
    for (StepRows& step : steps)
        for (const RankRows& rank : step.ranks)
            for (std::uint32_t i = rank.first; i < rank.last; ++i)
                if (TimedRow& row = step.rows[i]; row.is_comm && row.collective != 0)
                    row.collective = rules.key_of(row, rank.rank, job.ranks()[rank.rank].coordinates);
}

GroupRules find_rules(const JobRows& job, std::size_t threads) {
    GroupRules rules;
    std::vector<StepRows> sample = read_sample(job, sampled_rows, threads);
    const double tolerance_ms = find_tolerance_ms(sample);
    const double match_ms = std::max(2 * tolerance_ms, least_match_ms);
    find_rules(sample, job, true, match_ms, rules);
    apply(rules, job, sample);
    const ClockFacts clocks = find_clock_facts(sample, job, tolerance_ms);
    if (clocks.are_apart)
        for (StepRows& step : sample) shift_clocks(step, find_clock_offsets_ms(comm_rows(step), job), job);
    find_rules(sample, job, false, match_ms + clocks.wander_ms, rules);
    return rules;
}

/// For a job whose ranks have no different coordinates.
GroupRules find_teams(const JobRows& job, std::size_t threads) {
    GroupRules rules;
    std::map<std::uint16_t, std::vector<Members>> by_name;
    for (const StepRows& step : read_sample(job, sampled_rows, threads)) {
        const std::vector<CommRow> rows = comm_rows(step);
        for_each_collective(rows, [&](std::span<const CommRow> members) {
            by_name[members.front().name].emplace_back(members.begin(), members.end());
        });
    }
    for (const auto& [name, collectives] : by_name) find_teams(name, collectives, job.ranks().size(), rules);
    return rules;
}

bool have_different_coordinates(const RankSeries& ranks) {
    const auto coordinates = [](const std::vector<RunSeries>& of_rank) { return coordinates_of(of_rank.back().run); };
    return std::any_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
        return !rank.second.empty() && coordinates(rank.second) != coordinates(ranks.begin()->second);
    });
}

/// The groups of channels get the coordinates as well.
void name_groups(const GroupRules& rules, const JobRows& rows, RankSeries& ranks) {
    constexpr std::array<std::string_view, std::tuple_size_v<RankCoordinates>> axis_names = {"pp", "dp", "tp", "ep",
                                                                                             "cp"};
    std::unordered_map<std::string_view, std::uint16_t> numbers;  // of phases
    for (std::uint16_t name = 0; name < rows.names().size(); ++name)
        if (rows.names()[name].is_comm()) numbers[rows.names()[name].name] = name;
    std::uint32_t index = 0;
    for (auto& [rank, all_series] : ranks) {
        for (RunSeries& series : all_series) {
            const RankCoordinates coordinates = coordinates_of(series.run);
            for (CommChannel& channel : series.channels) {
                const auto name = numbers.find(series.phases[channel.phase].name);
                if (name == numbers.end()) continue;
                const unsigned set = rules.axes_of(name->second);
                for (std::size_t i = 0; i < coordinates.size(); ++i)
                    if ((set >> i & 1) != 0 && coordinates[i])
                        channel.group += fmt::format("[{}{}]", axis_names[i], *coordinates[i]);
                if (const std::uint32_t* first = rules.team_of(name->second, index))
                    channel.group += fmt::format("[{}]", rows.ranks()[*first].rank);
            }
        }
        ++index;
    }
}

}  // namespace

bool separate_groups(Job& job, std::size_t threads) {
    if (job.ranks.size() <= 2 || job.collectives.size() <= 1) return false;
    if (!any_phase(job.ranks, [](const PhaseSeries& phase) { return phase.may_share_name; })) return false;
    // Work waits for communication inside of it under tensor parallelism, of which there are several groups.
    const bool has_coordinates = have_different_coordinates(job.ranks);
    if (!has_coordinates && !any_phase(job.ranks, [](const PhaseSeries& phase) { return phase.blocks; })) return false;
    const JobRows rows(job, threads);
    if (!rows.reason().empty()) return false;
    const GroupRules rules = has_coordinates ? find_rules(rows, threads) : find_teams(rows, threads);
    if (rules.empty()) return false;
    rows.renumber([&](const TimedRow& row, std::uint32_t rank) {
        return rules.key_of(row, rank, rows.ranks()[rank].coordinates);
    });
    name_groups(rules, rows, job.ranks);
    return true;
}

}  // namespace cep::tool
