// SPDX-License-Identifier: Apache-2.0
//
// Collectives matched over ranks, and how much of each is waiting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace cep::analysis {

/// One collective.
struct Transfer {
    double ms = 0;
    std::uint32_t ranks = 0;  // that were seen in it
};

/// The part of a collective that every rank spends in it: for matched (group, coll), the least duration of any rank. A
/// higher quantile would be that of a rank that waits, as one late rank keeps all the others waiting. The rest of a
/// rank's duration is waiting.
class Transfers {
  public:
    struct Key {
        std::uint32_t step;        // index
        std::uint32_t collective;  // Sample::collective, or a hash of its name and seq
    };

    void add(Key key, double duration_ms) { add(number_of(key), {duration_ms, 1}); }
    void merge(const Transfers& other) {
        for (const auto& [number, transfer] : other.transfers_) add(number, transfer);
    }
    /// 0 ranks for a collective that was seen on one rank only.
    [[nodiscard]] Transfer of(Key key) const {
        const auto found = transfers_.find(number_of(key));
        return found == transfers_.end() || found->second.ranks < 2 ? Transfer{} : found->second;
    }

  private:
    [[nodiscard]] static std::uint64_t number_of(Key key) { return std::uint64_t{key.step} << 32 | key.collective; }
    void add(std::uint64_t number, const Transfer& transfer) {
        const auto [known, is_new] = transfers_.try_emplace(number, transfer);
        if (is_new) return;
        known->second.ms = std::min(known->second.ms, transfer.ms);
        known->second.ranks += transfer.ranks;
    }

    std::unordered_map<std::uint64_t, Transfer> transfers_;
};

}  // namespace cep::analysis
