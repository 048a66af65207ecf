// SPDX-License-Identifier: Apache-2.0
#include "model/clock_shifts.hpp"

#include <algorithm>
#include <cmath>

#include "model/comm_rows.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t rows_for_clocks = 200'000;
constexpr double least_error_ms = 0.001;  // of a device's timer
constexpr double stated = 0.9;            // of the collectives are within the error

/// Between the first and the last end of each collective that ranks of several hosts have.
void add_distances(const std::vector<CommRow>& rows, const JobRows& job, std::vector<double>& distances_ms) {
    for_each_collective(rows, [&](std::span<const CommRow> members) {
        const auto host = [&](const CommRow& row) { return job.ranks()[row.rank].host; };
        if (std::all_of(members.begin(), members.end(),
                        [&](const CommRow& row) { return host(row) == host(members[0]); }))
            return;
        const auto [first, last] = std::minmax_element(
            members.begin(), members.end(), [](const CommRow& a, const CommRow& b) { return a.end_ms < b.end_ms; });
        distances_ms.push_back(last->end_ms - first->end_ms);
    });
}

bool are_clocks_apart(const JobRows& rows) {
    std::vector<StepRows> sample = read_sample(rows, rows_for_clocks, 1);
    return find_clock_facts(sample, rows, find_tolerance_ms(sample)).are_apart;
}

}  // namespace

ClockShifts::ClockShifts(const Job& job, std::span<const std::int64_t> steps) {
    const JobRows rows(job, 1);
    if (!rows.reason().empty() || rows.hosts().size() < 2 || !are_clocks_apart(rows)) return;
    for (const JobRank& rank : rows.ranks()) host_of_[rank.rank] = rank.host;
    StepReader reader(rows);
    std::vector<double> distances_ms;
    for (std::uint32_t index = 0; index < rows.steps().size(); ++index) {
        const std::int64_t number = rows.steps()[index];
        if (!steps.empty() && std::find(steps.begin(), steps.end(), number) == steps.end()) continue;
        StepRows step = reader.read(index);
        const std::vector<CommRow> comm = comm_rows(step);
        if (comm.empty()) continue;
        steps_.push_back(number);
        ahead_ms_.push_back(find_clock_offsets_ms(comm, rows));
        shift_clocks(step, ahead_ms_.back(), rows);
        add_distances(comm_rows(step), rows, distances_ms);
    }
    if (steps_.empty()) return;
    error_ms_ = distances_ms.empty() ? 0 : std::max(least_error_ms, quantile_of(distances_ms, stated));
    for (std::size_t host = 0; host < rows.hosts().size(); ++host) {
        std::vector<double> of_host;
        for (const std::vector<double>& of_step : ahead_ms_) of_host.push_back(of_step[host]);
        hosts_.push_back({rows.hosts()[host], median_of(of_host)});
    }
    if (most_ms() <= error_ms_) *this = {};
}

std::int64_t ClockShifts::ahead_ns(std::int64_t rank, std::int64_t step) const {
    const auto host = host_of_.find(rank);
    if (host == host_of_.end() || steps_.empty()) return 0;
    const auto next = std::upper_bound(steps_.begin(), steps_.end(), step);
    const auto index = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, next - steps_.begin() - 1));
    return std::llround(ahead_ms_[index][host->second] * 1e6);
}

double ClockShifts::most_ms() const {
    if (hosts_.empty()) return 0;
    const auto [least, most] = std::minmax_element(
        hosts_.begin(), hosts_.end(), [](const Host& a, const Host& b) { return a.ahead_ms < b.ahead_ms; });
    return most->ahead_ms - least->ahead_ms;
}

}  // namespace cep::tool
