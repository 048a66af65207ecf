// SPDX-License-Identifier: Apache-2.0
#include "verdict/bound.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr double mostly_unknown = 0.5;  // of a step
constexpr double clearly_more = 1.5;    // times the second
constexpr double most = 0.3;            // of a step

}  // namespace

std::optional<StepShares> find_shares(const JobTable& table) {
    const double step_ms = typical_ms(table.median_step_ms);
    if (step_ms <= 0 || (table.local.empty() && !table.has_comm)) return std::nullopt;
    const auto share = [&](const StepMatrix& ms) { return typical_ms(ms) / step_ms; };
    StepShares shares;
    shares.compute = share(table.compute_ms);
    shares.comm = share(table.exposed_ms);
    shares.wait = share(table.wait_ms);
    shares.data = share(table.data_ms);
    shares.host = share(table.idle_ms);
    shares.rest = std::max(0.0, 1 - shares.compute - shares.comm - shares.data - shares.host);
    return shares;
}

Bound bound_of(const StepShares& shares) {
    if (shares.rest > mostly_unknown) return Bound::unknown;
    std::array<std::pair<double, Bound>, 4> candidates = {{{shares.compute, Bound::compute},
                                                           {shares.comm, Bound::comm},
                                                           {shares.data, Bound::data},
                                                           {shares.host, Bound::host}}};
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const auto& [share, bound] = candidates.front();
    if (shares.hides_comm && bound == Bound::compute) return Bound::unknown;
    return share >= most && share >= clearly_more * candidates[1].first ? bound : Bound::mixed;
}

}  // namespace cep::tool
