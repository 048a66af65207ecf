// SPDX-License-Identifier: Apache-2.0
#include "verdict/hint.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double clearly = 1.1;        // times the median of the peers
constexpr double worth_saying = 0.01;  // of a step
constexpr std::size_t fewest_ranks = 3;

/// The median over the group, by step.
std::vector<double> usual_ms(const StepMatrix& ms, const PeerGroup& group) {
    std::vector<double> usual;
    for (std::size_t step = 0; step < ms.steps(); ++step) {
        std::vector<double> values;
        for (const std::size_t rank : group.ranks) values.push_back(ms.at(rank, step));
        usual.push_back(median_of(values));
    }
    return usual;
}

/// By how much a rank exceeds its peers in the step in which it does so least; below 0 where it does not in all.
double least_excess_ms(std::span<const float> own, const std::vector<double>& usual) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t step = 0; step < usual.size(); ++step) {
        if (!(own[step] > clearly * usual[step])) return -1;
        least = std::min(least, own[step] - usual[step]);
    }
    return least;
}

}  // namespace

std::optional<Hint> find_hint(const JobTable& table, const std::vector<PeerGroup>& groups) {
    std::optional<Hint> found;
    double most = worth_saying * median_of(table.median_step_ms);
    for (const PeerGroup& group : groups) {
        if (group.ranks.size() < fewest_ranks) continue;
        for (const LocalPhase& phase : table.local) {
            const std::vector<double> usual = usual_ms(phase.own_ms, group);
            for (const std::size_t rank : group.ranks) {
                const std::span<const float> own = phase.own_ms.of_rank(rank);
                const double excess_ms = least_excess_ms(own, usual);
                if (!(excess_ms > most)) continue;
                most = excess_ms;
                found = Hint{table.ranks[rank].rank, table.ranks[rank].host, phase.name,
                             median_of(std::vector<double>(own.begin(), own.end())), median_of(usual)};
            }
        }
    }
    return found;
}

}  // namespace cep::tool
