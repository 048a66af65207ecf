// SPDX-License-Identifier: Apache-2.0
//
// Row text: items as rows of cep-jsonl(5), which the library's own functions write.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

/// What the rows of all ranks share: names as JSON strings.
class RowTexts {
  public:
    explicit RowTexts(const Layout& layout);

    [[nodiscard]] std::string_view group(std::uint32_t group) const { return groups_[group]; }
    [[nodiscard]] const std::pair<std::string, schema::Kind>& name(Name name) const {
        return names_[static_cast<std::size_t>(name)];
    }

  private:
    std::array<std::pair<std::string, schema::Kind>, name_count> names_;
    std::vector<std::string> groups_;
};

/// The rows of one rank.
class RankRows {
  public:
    RankRows(const Layout& layout, std::size_t rank, const HostClock& clock);

    [[nodiscard]] std::string run(const Job& job, const Layout& layout) const;
    [[nodiscard]] std::string stats(const RowCounts& counts, std::int64_t step, std::int64_t now_ns) const;
    /// Appends the row of an item.
    void write(std::string& out, const Item& item, const RowTexts& texts) const;

  private:
    std::size_t rank_;
    HostClock clock_;
    std::string rank_text_;
    std::int32_t device_;
};

}  // namespace cep::simulation
