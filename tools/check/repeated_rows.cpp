// SPDX-License-Identifier: Apache-2.0
#include "check/repeated_rows.hpp"

#include <functional>

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
    if (kept_.insert(hash << choice_bits | (choice & ((1U << choice_bits) - 1))).second) {
        if (kept_.size() > most_kept) keep_half();
        return;
    }
    if (seen_again_++ == 0) line_ = line;
}

/// The sum of what was found becomes half as large, too, as count() multiplies it by twice as much.
void RepeatedRows::keep_half() {
    mask_ = 2 * mask_ + 1;
    std::erase_if(kept_, [this](std::uint64_t hash) { return (hash & mask_) != 0; });
    seen_again_ = (seen_again_ + 1) / 2;
}

}  // namespace cep::tool
