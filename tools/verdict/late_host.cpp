// SPDX-License-Identifier: Apache-2.0
#include "verdict/late_host.hpp"

#include <cmath>

#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double host_is_ahead_ms = 0.2;    // a host that is less ahead paces its device
constexpr double much_less = 0.5;           // of what its peers' devices are behind
constexpr std::size_t least_launches = 50;  // of collectives
constexpr std::size_t most_peers = 64;      // that are looked at

/// NaN if too few rows say.
double median_lag_ms(const std::vector<RunSeries>& rank) {
    std::vector<double> lags_ms;
    for (const RunSeries& run : rank)
        for (const PhaseSeries& phase : run.phases) {
            if (phase.kind != schema::Kind::comm || phase.clock != Clock::gpu) continue;
            for (const Sample& sample : phase.samples)
                if (!std::isnan(sample.lag_ms)) lags_ms.push_back(sample.lag_ms);
        }
    return lags_ms.size() < least_launches ? std::nan("") : median_of(lags_ms);
}

}  // namespace

std::optional<LateHost> find_late_host(const RankSeries& ranks, std::int64_t rank,
                                       const std::vector<std::int64_t>& peers) {
    const auto found = ranks.find(rank);
    if (found == ranks.end()) return std::nullopt;
    LateHost late{median_lag_ms(found->second), 0};
    if (std::isnan(late.lag_ms)) return std::nullopt;
    std::vector<double> of_peers;
    const std::size_t stride = peers.size() / most_peers + 1;
    for (std::size_t i = 0; i < peers.size(); i += stride) {
        const auto peer = ranks.find(peers[i]);
        if (peer == ranks.end()) continue;
        if (const double lag_ms = median_lag_ms(peer->second); !std::isnan(lag_ms)) of_peers.push_back(lag_ms);
    }
    if (of_peers.empty()) return std::nullopt;
    late.peers_lag_ms = median_of(of_peers);
    if (late.peers_lag_ms < host_is_ahead_ms || late.lag_ms > much_less * late.peers_lag_ms) return std::nullopt;
    return late;
}

}  // namespace cep::tool
