// SPDX-License-Identifier: Apache-2.0
#include "replay/host_launches.hpp"

#include <algorithm>
#include <cmath>

#include "model/device_queue.hpp"

namespace cep::tool {
namespace {

bool is_idle_at(const Piece& piece) {
    return static_cast<double>(piece.lag_ms) < idle_lag_ms;
}

template <typename IsOne>
double first_launch_ms(const std::vector<Piece>& pieces, IsOne is_one) {
    double first_ms = INFINITY;
    for (const Piece& piece : pieces)
        if (!std::isnan(piece.lag_ms) && is_one(piece)) first_ms = std::min(first_ms, piece.launch_ms());
    return first_ms;
}

/// What the host did itself, in the order of its ends.
std::vector<const Piece*> work_of_host(const std::vector<Piece>& pieces) {
    std::vector<const Piece*> found;
    for (const Piece& piece : pieces)
        if (!piece.is_comm && piece.is_known() && piece.is_of_host) found.push_back(&piece);
    std::sort(found.begin(), found.end(), [](const Piece* a, const Piece* b) { return a->end_ms < b->end_ms; });
    return found;
}

}  // namespace

std::vector<HostLaunch> find_host_launches(const RankPieces& pieces, double tolerance_ms) {
    const double ahead_ms = first_launch_ms(pieces.all, [](const Piece& piece) { return !is_idle_at(piece); });
    const double began_ms = std::max(ahead_ms, pieces.first_ms + tolerance_ms);
    const double idle_ms = first_launch_ms(
        pieces.all, [began_ms](const Piece& piece) { return is_idle_at(piece) && piece.launch_ms() > began_ms; });
    const std::vector<const Piece*> host = work_of_host(pieces.all);
    std::vector<HostLaunch> found;
    for (const Piece& piece : pieces.all) {
        const double launch_ms = piece.launch_ms();
        if (piece.is_comm || piece.is_lost || !(launch_ms >= ahead_ms && launch_ms < idle_ms)) continue;
        const auto later = std::upper_bound(host.begin(), host.end(), launch_ms,
                                            [](double ms, const Piece* one) { return ms < one->end_ms; });
        const Piece* const after = later == host.begin() ? nullptr : *std::prev(later);
        const double behind_ms = launch_ms - (after == nullptr ? pieces.first_ms : after->end_ms);
        if (after != nullptr || behind_ms > 0) found.push_back({&piece, after, behind_ms});
    }
    return found;
}

}  // namespace cep::tool
