// SPDX-License-Identifier: Apache-2.0
//
// Collective keys: which spans of different ranks are one collective, as far as each row says it.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.hpp"
#include "matching/operation.hpp"
#include "read/row.hpp"

namespace cep::tool {

/// The keys of the spans of one phase on one rank in one run. Spans of a step that have the same key are one
/// collective: those with the same process group, operation and `coll`; without `coll`, with the same group, name and
/// `seq`. Spans of one rank that have neither number have one key, and the n-th of them is the n-th on every rank. Of a
/// send or receive that names no group, nobody knows which rank has the other end.
class CollectiveKey {
  public:
    [[nodiscard]] bool is_of_group(const Row& row) const { return knows_group_ && row.group == group_; }
    /// Before of(). The name of the rows is always the same. Returns whether the row before was of another group.
    bool enter_group(const Row& row, const RunInfo& run) {
        if (is_of_group(row)) [[likely]]
            return false;
        change_group(row, run);
        return true;
    }
    [[nodiscard]] std::uint64_t of(const Row& row) const {
        return row.coll ? mix_bits(numbered_ + static_cast<std::uint64_t>(*row.coll))
                        : mix_bits(counted_ + static_cast<std::uint64_t>(row.seq.value_or(0)));
    }
    [[nodiscard]] Operation operation() const { return operation_; }
    /// Whether the key says which collective it is.
    [[nodiscard]] bool is_known(const Row& row) const {
        return operation_ != Operation::send_recv || row.coll || !row.group.empty();
    }
    /// Whether the group is named by its axis, and the coordinates of the rank say which one it is.
    [[nodiscard]] bool is_placed() const { return is_placed_; }
    [[nodiscard]] static bool is_counted(const Row& row) { return !row.coll && row.seq.value_or(0) == 0; }
    /// The key of the n-th span of a rank with one key, from 0.
    [[nodiscard]] static constexpr std::uint64_t nth(std::uint64_t key, std::uint64_t n) {
        return n == 0 ? key : mix_bits(key + n * 0x9e3779b97f4a7c15U);
    }

  private:
    void change_group(const Row& row, const RunInfo& run);

    bool knows_group_ = false;
    bool is_placed_ = false;
    Operation operation_ = Operation::other;
    std::string group_;
    std::uint64_t name_hash_ = 0;
    std::uint64_t operation_hash_ = 0;
    std::uint64_t numbered_ = 0;
    std::uint64_t counted_ = 0;
};

}  // namespace cep::tool
