// SPDX-License-Identifier: Apache-2.0
//
// Row text: writes items as rows of cep-jsonl(5), as the library does.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/host_clocks.hpp"
#include "simulate/item.hpp"
#include "simulate/job.hpp"
#include "simulate/layout.hpp"

namespace cep::simulation {

/// The numbers of rows in a rank's file.
struct RowCounts {
    std::uint64_t spans = 0;
    std::uint64_t counters = 0;
    std::uint64_t marks = 0;
    std::uint64_t dropped_spans = 0;

    [[nodiscard]] std::uint64_t written() const { return spans + counters + marks; }
    void add(const RowCounts& other);
};

/// The parts of rows that all ranks share.
class RowTexts {
  public:
    RowTexts(const Job& job, const Layout& layout);

    [[nodiscard]] std::string_view group(std::uint32_t group) const { return groups_[group]; }
    /// `{"name":"forward","step":`
    [[nodiscard]] std::string_view head(Name name) const { return heads_[static_cast<std::size_t>(name)]; }
    /// `,"kind":"compute","clock":"gpu","seq":`
    [[nodiscard]] std::string_view kind(Name name) const { return kinds_[static_cast<std::size_t>(name)]; }

  private:
    std::array<std::string, name_count> heads_;
    std::array<std::string, name_count> kinds_;
    std::vector<std::string> groups_;
};

/// The rows of one rank.
class RankRows {
  public:
    RankRows(const Layout& layout, std::size_t rank, const HostClock& clock);

    /// No row is longer.
    static constexpr std::size_t max_row_bytes = 2048;

    [[nodiscard]] std::string run(const Job& job, const Layout& layout) const;
    [[nodiscard]] std::string stats(const RowCounts& counts, std::int64_t step, std::int64_t now_ns) const;
    /// Writes the row of an item to `out`, and returns its end.
    char* write(char* out, const Item& item, const RowTexts& texts) const;

  private:
    char* write_span(char* out, const Item& item, const RowTexts& texts) const;

    std::size_t rank_;
    HostClock clock_;
    std::string rank_text_;
    std::string device_text_;
};

}  // namespace cep::simulation
