// SPDX-License-Identifier: Apache-2.0
//
// Transfers: how much of a collective every rank spends in it, and how much is waiting.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "matching/collectives.hpp"

namespace cep::tool {

/// One collective.
struct Transfer {
    double ms = 0;
    std::uint32_t ranks = 0;  // that were seen in it, up to Transfers::many_ranks
};

/// The part of a collective that every rank spends in it: for matched (group, coll), the least duration of any rank. A
/// higher quantile would be that of a rank that waits, as one late rank keeps all the others waiting. The rest of a
/// rank's duration is waiting.
class Transfers {
  public:
    static constexpr std::uint32_t many_ranks = 3;

    struct Key {
        std::uint32_t step;  // index, below 2^30
        CollectiveId id;

        friend bool operator==(Key, Key) = default;
    };

    /// Where the next collective is expected. All ranks of a group go through their collectives in the same order, so
    /// that a guess for each phase of a rank is nearly always right; of two groups that take turns, there are two.
    struct Guess {
        std::uint32_t next = 0;
        std::uint32_t other = 0;
    };

    void add(Key key, double duration_ms, Guess& guess) {
        if (!is_right(guess, key)) guess = {find_or_add(key, duration_ms), guess.other};
        Seen& collective = seen_[guess.next++];
        collective.ms = std::min(collective.ms, duration_ms);
        collective.step_and_ranks += collective.ranks() < many_ranks;
    }
    /// 0 ranks for a collective that was seen on one rank only.
    [[nodiscard]] Transfer of(Key key, Guess& guess) const {
        if (!is_right(guess, key)) {
            const std::uint32_t place = places_.empty() ? nowhere : places_[place_of(key)];
            if (place == nowhere) return {};
            guess = {place, guess.other};
        }
        const Seen& collective = seen_[guess.next++];
        return collective.ranks() < 2 ? Transfer{} : Transfer{collective.ms, collective.ranks()};
    }

  private:
    static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

    struct Seen {
        double ms;
        CollectiveId id;
        std::uint32_t step_and_ranks;  // 4 times the step, plus the ranks

        [[nodiscard]] std::uint32_t ranks() const { return step_and_ranks % 4; }
        [[nodiscard]] Key key() const { return {step_and_ranks / 4, id}; }
    };

    [[nodiscard]] bool is_at(std::uint32_t place, Key key) const {
        return place < seen_.size() && seen_[place].key() == key;
    }
    [[nodiscard]] bool is_right(Guess& guess, Key key) const {
        if (is_at(guess.next, key)) return true;
        std::swap(guess.next, guess.other);
        return is_at(guess.next, key);
    }
    std::uint32_t find_or_add(Key key, double duration_ms) {
        if (4 * seen_.size() >= 3 * places_.size()) grow();
        std::uint32_t& place = places_[place_of(key)];
        if (place == nowhere) {
            place = static_cast<std::uint32_t>(seen_.size());
            seen_.push_back({duration_ms, key.id, 4 * key.step});
        }
        return place;
    }
    /// Where the index of a collective is, or belongs.
    [[nodiscard]] std::size_t place_of(Key key) const {
        const std::uint64_t number = key.id ^ std::uint64_t{key.step} << 32;
        std::size_t at = (number * 0x9e3779b97f4a7c15U >> 32) & (places_.size() - 1);
        while (places_[at] != nowhere && seen_[places_[at]].key() != key) at = (at + 1) & (places_.size() - 1);
        return at;
    }
    void grow() {
        places_.assign(std::max<std::size_t>(64, 2 * places_.size()), nowhere);
        for (std::uint32_t i = 0; i < seen_.size(); ++i) places_[place_of(seen_[i].key())] = i;
    }

    std::vector<Seen> seen_;             // in the order in which they were seen first
    std::vector<std::uint32_t> places_;  // open addressing, a power of two: index into seen_
};

}  // namespace cep::tool
