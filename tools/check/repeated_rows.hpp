// SPDX-License-Identifier: Apache-2.0
//
// Repeated rows: spans that a file has more than once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "read/row.hpp"

namespace cep::tool {

/// Looks at a part of the spans that is chosen by a hash of what they are: of a span and its repetition both or
/// neither. The part is an eighth, and half as large each time that it does not fit.
class RepeatedRows {
  public:
    /// A span with a start and a `seq`; others may be equal without being the same. `run`: its index in the file.
    void take(const Row& row, int run, std::uint64_t line);
    /// An estimate.
    [[nodiscard]] std::uint64_t count() const { return seen_again_ * (mask_ + 1); }
    /// The line of the first one that was found.
    [[nodiscard]] std::uint64_t line() const { return line_; }

  private:
    static constexpr std::size_t most_kept = std::size_t{1} << 16;

    /// Returns whether it was there.
    bool put(std::uint64_t hash);
    void make_room();

    std::uint64_t mask_ = 7;
    std::vector<std::uint64_t> slots_;  // open addressing; 0 is empty
    std::size_t kept_ = 0;
    std::uint64_t seen_again_ = 0;
    std::uint64_t line_ = 0;
};

}  // namespace cep::tool
