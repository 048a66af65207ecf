// SPDX-License-Identifier: Apache-2.0
#include "matching/collective_key.hpp"

#include <optional>

#include "base/hash.hpp"
#include "matching/operation.hpp"
#include "matching/process_group.hpp"

namespace cep::tool {
namespace {

std::uint64_t combine(std::uint64_t hash, std::uint64_t value) {
    return mix_bits(hash + 0x9e3779b97f4a7c15U + mix_bits(value + 0x9e3779b97f4a7c15U));
}

std::uint64_t combine(std::uint64_t hash, std::string_view text) {
    hash = combine(hash, text.size());
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return mix_bits(hash);
}

}  // namespace

// Some trainers count the collectives of each operation by itself. Of operations that are not known, the names differ.
void CollectiveKey::change_group(const Row& row, const RunInfo& run) {
    if (!knows_group_) {
        operation_ = operation_of_name(row.name);
        name_hash_ = combine(1, row.name);
        operation_hash_ =
            operation_ == Operation::other ? name_hash_ : combine(0, static_cast<std::uint64_t>(operation_));
    }
    std::uint64_t hash = combine(0, row.group);
    is_placed_ = false;
    for_each_other_axis(row.group, axis_coordinates_of(run),
                        [&](std::string_view axis, const std::optional<std::int64_t>& coordinate) {
                            if (!coordinate) return;
                            hash = combine(combine(hash, axis), static_cast<std::uint64_t>(*coordinate));
                            is_placed_ = true;
                        });
    numbered_ = combine(operation_hash_, hash);
    counted_ = combine(name_hash_ + 1, hash);
    group_ = row.group;
    knows_group_ = true;
}

}  // namespace cep::tool
