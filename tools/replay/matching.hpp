// SPDX-License-Identifier: Apache-2.0
//
// Matching: which rows of different ranks are one collective, or one transfer, and how far the clocks of hosts are
// apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "replay/job_rows.hpp"

namespace cep::tool {

/// How rows are matched. One name may stand for the groups of many communicators: then these are told apart by the
/// places of their ranks in the layout.
class MatchRules {
  public:
    explicit MatchRules(const JobRows& rows) : rows_(&rows) {}

    /// The same for the rows of one collective in a step, and for no others.
    [[nodiscard]] std::uint64_t id_of(std::uint32_t collective, std::uint16_t name, std::uint16_t stream,
                                      std::uint32_t seq, std::uint32_t rank) const;
    /// By bits: the coordinates by which the groups of a phase on a stream are told apart.
    void tell_apart(std::uint16_t name, std::uint16_t stream, std::uint8_t coordinates) {
        coordinates_[std::uint32_t{name} << 16 | stream] |= coordinates;
    }
    /// Rows of a phase are halves of transfers, whose other halves are on these ranks.
    void pair_up(std::uint16_t name, std::uint32_t seq, std::uint32_t rank, std::uint32_t partner) {
        partners_[half(name, seq, rank)] = partner;
    }
    [[nodiscard]] const JobRows& rows() const { return *rows_; }

  private:
    [[nodiscard]] static std::uint64_t half(std::uint16_t name, std::uint32_t seq, std::uint32_t rank) {
        return (std::uint64_t{rank} << 32 | std::uint64_t{name} << 18) + seq;
    }

    const JobRows* rows_;
    std::unordered_map<std::uint32_t, std::uint8_t> coordinates_;  // by name and stream
    std::unordered_map<std::uint64_t, std::uint32_t> partners_;
};

/// A row of communication.
struct CommRow {
    std::uint64_t id;
    double start_ms;
    double end_ms;
    std::uint32_t rank;
    std::uint32_t seq;
    std::uint16_t name;
    std::uint16_t stream;
};

/// Of a step, in the order of their ids and ranks.
[[nodiscard]] std::vector<CommRow> comm_rows(const StepRows& step, const MatchRules& rules);

/// Calls `use(members)` for each id.
template <typename Use>
void for_each_collective(std::span<const CommRow> rows, Use use) {
    for (std::size_t first = 0, last = 0; first < rows.size(); first = last) {
        while (last < rows.size() && rows[last].id == rows[first].id) ++last;
        use(rows.subspan(first, last - first));
    }
}

/// By host: by how much its clock is ahead in this step, from the ends of collectives, which their members share.
[[nodiscard]] std::vector<double> find_clock_offsets_ms(std::span<const CommRow> rows, const JobRows& job);
void shift_clocks(StepRows& step, std::span<const double> offsets_ms, const JobRows& job);

struct ClockFacts {
    bool are_apart = false;
    double wander_ms = 0;  // from step to step
};
[[nodiscard]] ClockFacts find_clock_facts(std::span<const StepRows> steps, const MatchRules& rules,
                                          double tolerance_ms);

/// Finds the names that stand for many groups. Groups of different kinds use different streams. No member of a
/// collective ends before the last has begun; where some do, the groups are told apart by the fewest coordinates with
/// which none do. `one_host`: only ranks of one host are compared, whatever their clocks.
void find_shared_names(std::span<const StepRows> steps, bool one_host, double tolerance_ms, MatchRules& rules);

}  // namespace cep::tool
