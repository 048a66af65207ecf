// SPDX-License-Identifier: Apache-2.0
#include "model/comm_rows.hpp"

#include <cmath>
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

/// Whether in nearly all collectives of three ranks and more none ends before another begins. A send may.
bool do_overlap(std::span<const StepRows> steps, double tolerance_ms) {
    std::size_t all = 0;
    std::size_t apart = 0;
    for (const StepRows& step : steps) {
        const std::vector<CommRow> rows = comm_rows(step);
        for_each_collective(rows, [&](std::span<const CommRow> members) {
            if (members.size() < 3) return;
            ++all;
            apart += are_apart(members, tolerance_ms);
        });
    }
    return all > 0 && are_few_apart(apart, all);
}

}  // namespace

bool are_apart(std::span<const CommRow> members, double tolerance_ms) {
    double last_start_ms = -INFINITY;
    double first_end_ms = INFINITY;
    for (const CommRow& member : members) {
        last_start_ms = std::max(last_start_ms, member.start_ms);
        first_end_ms = std::min(first_end_ms, member.end_ms);
    }
    return last_start_ms > first_end_ms + tolerance_ms;
}

std::vector<CommRow> comm_rows(const StepRows& step) {
    std::vector<CommRow> found;
    for (const RankRows& rank : step.ranks)
        for (std::uint32_t i = rank.first; i < rank.last; ++i) {
            const TimedRow& row = step.rows[i];
            if (!row.is_comm) continue;
            found.push_back({collective_id(row.collective, row.name, row.seq, rank.rank), row.start_ms, row.end_ms,
                             rank.rank, row.seq, row.name, row.stream});
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

bool leave_together(std::span<const StepRows> steps) {
    constexpr double nearly_all = 0.9;  // of the collectives
    constexpr double at_once = 0.005;   // of a step
    const auto ends_before = [](const auto& a, const auto& b) { return a.end_ms < b.end_ms; };
    std::vector<double> apart;
    for (const StepRows& step : steps) {
        const auto [first, last] = std::minmax_element(step.rows.begin(), step.rows.end(), ends_before);
        const std::vector<CommRow> rows = comm_rows(step);
        for_each_collective(rows, [&, step_ms = last->end_ms - first->start_ms](std::span<const CommRow> members) {
            const auto [least, most] = std::minmax_element(members.begin(), members.end(), ends_before);
            if (members.size() > 1) apart.push_back((most->end_ms - least->end_ms) / step_ms);
        });
    }
    return !apart.empty() && quantile_of(apart, nearly_all) <= at_once;
}

ClockFacts find_clock_facts(std::span<const StepRows> steps, const JobRows& job, double tolerance_ms) {
    constexpr double least_apart_ms = 0.1;
    constexpr double most_offsets = 0.9;    // of the hosts and steps
    constexpr double apart_tolerances = 5;  // of the ends of one collective on one clock
    if (job.hosts().size() < 2) return {};
    // Where no rank says its host, those that leave a collective at different times may all have one clock.
    const bool knows_hosts =
        std::any_of(job.ranks().begin(), job.ranks().end(), [](const JobRank& rank) { return rank.host_is_known; });
    if (!knows_hosts && do_overlap(steps, tolerance_ms)) return {};
    std::vector<double> all_ms;
    std::vector<std::vector<double>> of_host(job.hosts().size());
    for (const StepRows& step : steps) {
        const std::vector<double> offsets_ms = find_clock_offsets_ms(comm_rows(step), job);
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

}  // namespace cep::tool
