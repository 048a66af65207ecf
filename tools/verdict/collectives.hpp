// SPDX-License-Identifier: Apache-2.0
//
// Collectives matched over ranks, and how much of each is waiting.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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

    void add(Key key, double duration_ms) {
        if (4 * used_ >= 3 * slots_.size()) grow();
        Slot& slot = slots_[find(number_of(key))];
        used_ += slot.transfer.ranks == 0;
        slot.number = number_of(key);
        slot.transfer.ms = slot.transfer.ranks == 0 ? duration_ms : std::min(slot.transfer.ms, duration_ms);
        ++slot.transfer.ranks;
    }
    /// 0 ranks for a collective that was seen on one rank only.
    [[nodiscard]] Transfer of(Key key) const {
        if (slots_.empty()) return {};
        const Transfer& transfer = slots_[find(number_of(key))].transfer;
        return transfer.ranks < 2 ? Transfer{} : transfer;
    }

  private:
    /// One piece of memory with open addressing: looked up for every collective of every rank.
    struct Slot {
        std::uint64_t number = 0;
        Transfer transfer;  // 0 ranks: the slot is free
    };

    [[nodiscard]] static std::uint64_t number_of(Key key) { return std::uint64_t{key.step} << 32 | key.collective; }
    /// Where a number is, or belongs.
    [[nodiscard]] std::size_t find(std::uint64_t number) const {
        std::size_t at = (number * 0x9e3779b97f4a7c15U >> 32) & (slots_.size() - 1);
        while (slots_[at].transfer.ranks != 0 && slots_[at].number != number) at = (at + 1) & (slots_.size() - 1);
        return at;
    }
    void grow() {
        const std::vector<Slot> old =
            std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(64, 2 * slots_.size())));
        for (const Slot& slot : old)
            if (slot.transfer.ranks != 0) slots_[find(slot.number)] = slot;
    }

    std::vector<Slot> slots_;  // a power of two of them
    std::size_t used_ = 0;
};

}  // namespace cep::analysis
