// SPDX-License-Identifier: Apache-2.0
#include "read/open_spans.hpp"

#include <algorithm>
#include <cmath>

namespace cep::tool {
namespace {

// A span row says its begin on the host only to the microsecond of lag_ms.
constexpr std::int64_t begin_tolerance_ns = 10'000;

// The begin of a span on the host, as an open row has it.
std::optional<std::int64_t> host_begin_ns(const Row& row) {
    if (!row.start_ns) return std::nullopt;
    return *row.start_ns - static_cast<std::int64_t>(std::llround(row.lag_ms.value_or(0) * 1e6));
}

bool same_place(const OpenSpan& open, const Row& row, std::int64_t attempt) {
    return open.rank == *row.rank && open.step == *row.step && open.attempt == attempt && open.name == row.name;
}

bool is_end_of(const OpenSpan& open, const Row& row, std::int64_t attempt) {
    if (!same_place(open, row, attempt)) return false;
    const std::optional<std::int64_t> begin_ns = host_begin_ns(row);
    if (!begin_ns || !open.start_ns) return true;
    const auto later = static_cast<std::uint64_t>(std::max(*begin_ns, *open.start_ns));
    const auto earlier = static_cast<std::uint64_t>(std::min(*begin_ns, *open.start_ns));
    return later - earlier <= begin_tolerance_ns;
}

}  // namespace

void OpenSpans::end(const Row& row, std::int64_t attempt) {
    const auto ended =
        std::find_if(spans_.begin(), spans_.end(), [&](const OpenSpan& open) { return is_end_of(open, row, attempt); });
    if (ended != spans_.end()) spans_.erase(ended);
}

// A span that stays open is written again at every flush that does not see its end: the last row counts.
void OpenSpans::add(const Row& row, std::int64_t attempt, std::uint64_t line) {
    const auto same = std::find_if(spans_.begin(), spans_.end(), [&](const OpenSpan& open) {
        return same_place(open, row, attempt) && open.start_ns == row.start_ns;
    });
    if (same == spans_.end()) {
        spans_.push_back({std::string(row.name), *row.rank, *row.step, attempt, row.start_ns, row.elapsed_ms, line});
        return;
    }
    same->elapsed_ms = std::max(same->elapsed_ms, row.elapsed_ms);
    same->line = line;
}

}  // namespace cep::tool
