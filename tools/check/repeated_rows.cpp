// SPDX-License-Identifier: Apache-2.0
#include "check/repeated_rows.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/hash.hpp"

namespace cep::tool {
namespace {

constexpr int choice_bits = 16;  // the lowest of what is kept are those that choose

}  // namespace

void RepeatedRows::take(const Row& row, int run, std::uint64_t line) {
    if (!row.start_ns || !row.seq || !row.step || !row.rank) return;
    const std::uint64_t choice =
        mix_bits(static_cast<std::uint64_t>(*row.start_ns) + static_cast<std::uint64_t>(*row.rank));
    if ((choice & mask_) != 0) return;
    std::uint64_t hash = choice;
    for (const std::uint64_t part : {static_cast<std::uint64_t>(*row.step), static_cast<std::uint64_t>(*row.seq),
                                     static_cast<std::uint64_t>(run), std::hash<std::string_view>{}(row.name)})
        hash = mix_bits(hash ^ part);
    if (!put(hash << choice_bits | (choice & ((1U << choice_bits) - 1)))) return;
    if (seen_again_++ == 0) line_ = line;
}

bool RepeatedRows::put(std::uint64_t hash) {
    if (2 * kept_ >= slots_.size()) make_room();
    const std::size_t last = slots_.size() - 1;
    std::size_t at = (hash >> choice_bits) & last;
    while (slots_[at] != 0 && slots_[at] != hash) at = (at + 1) & last;
    if (slots_[at] == hash) return true;
    slots_[at] = hash;
    ++kept_;
    return false;
}

/// Twice as many slots, up to a limit; then half as many rows. As count() multiplies by twice as much then, what was
/// found counts half.
void RepeatedRows::make_room() {
    constexpr std::size_t first_slots = 1024;
    const bool can_grow = kept_ < most_kept;
    if (!can_grow) {
        mask_ = 2 * mask_ + 1;
        seen_again_ = (seen_again_ + 1) / 2;
    }
    std::vector<std::uint64_t> before(can_grow ? std::max(first_slots, 2 * slots_.size()) : slots_.size());
    std::swap(before, slots_);
    kept_ = 0;
    for (const std::uint64_t hash : before)
        if (hash != 0 && (hash & mask_) == 0) put(hash);
}

}  // namespace cep::tool
