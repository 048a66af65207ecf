// SPDX-License-Identifier: Apache-2.0
//
// Communication rows: those of a step, collective by collective, and how far by their ends the clocks of hosts are
// apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "model/job_rows.hpp"

namespace cep::tool {

/// The same on all ranks of a collective, and in its step on no others.
using CollectiveId = std::uint64_t;

/// `collective`: its number; 0 where no other rank has a span of it.
[[nodiscard]] constexpr CollectiveId collective_id(std::uint32_t collective, std::uint16_t name, std::uint32_t seq,
                                                   std::uint32_t rank) {
    constexpr CollectiveId is_alone = CollectiveId{1} << 63;
    return collective != 0 ? collective : mix_bits(mix_bits(std::uint64_t{name} << 32 | seq) + rank) | is_alone;
}

/// Sorts members of collectives of one step, which have an `id` and a `rank`: by id, then by rank, then by `order_of`.
template <typename Member, typename OrderOf>
void sort_by_collective(std::vector<Member>& members, OrderOf order_of) {
    std::sort(members.begin(), members.end(), [&order_of](const Member& a, const Member& b) {
        return a.id != b.id ? a.id < b.id : a.rank != b.rank ? a.rank < b.rank : order_of(a) < order_of(b);
    });
}

/// Calls `use(members)` for each collective of sorted members.
template <typename Members, typename Use>
void for_each_collective(const Members& sorted, Use use) {
    const std::span members(std::data(sorted), std::size(sorted));
    for (std::size_t first = 0, last = 0; first < members.size(); first = last) {
        while (last < members.size() && members[last].id == members[first].id) ++last;
        use(members.subspan(first, last - first));
    }
}

/// A row of communication.
struct CommRow {
    CollectiveId id;
    double start_ms;
    double end_ms;
    std::uint32_t rank;
    std::uint32_t seq;
    std::uint16_t name;
    std::uint16_t stream;
};

/// Whether a member of a collective begins after another has ended.
[[nodiscard]] bool are_apart(std::span<const CommRow> members, double tolerance_ms);
/// Whether so few of the collectives are apart that lost rows and clocks explain it.
[[nodiscard]] constexpr bool are_few_apart(std::size_t apart, std::size_t collectives) {
    constexpr double most_apart = 0.02;
    return static_cast<double>(apart) <= most_apart * static_cast<double>(collectives);
}

/// The communication rows of a step, in the order of their ids and ranks.
[[nodiscard]] std::vector<CommRow> comm_rows(const StepRows& step);

/// By host: by how much its clock is ahead in this step, from the ends of collectives, which their members share.
[[nodiscard]] std::vector<double> find_clock_offsets_ms(std::span<const CommRow> rows, const JobRows& job);
void shift_clocks(StepRows& step, std::span<const double> offsets_ms, const JobRows& job);

/// Whether all members of nearly all collectives end at the same time. Rows that were side by side, but are taken as if
/// one were behind the other, put these ends apart.
[[nodiscard]] bool leave_together(std::span<const StepRows> steps);

struct ClockFacts {
    bool are_apart = false;
    double wander_ms = 0;  // from step to step
};
[[nodiscard]] ClockFacts find_clock_facts(std::span<const StepRows> steps, const JobRows& job, double tolerance_ms);

}  // namespace cep::tool
