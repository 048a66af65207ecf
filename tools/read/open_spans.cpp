// SPDX-License-Identifier: Apache-2.0
#include "read/open_spans.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cep::tool {
namespace {

// start_ns - lag_ms is exact to the microsecond of lag_ms only.
constexpr std::int64_t begin_tolerance_ns = 10'000;

// The host time at which a span began: an open row has it as start_ns.
std::optional<std::int64_t> host_begin_ns(const Row& row) {
    if (!row.start_ns) return std::nullopt;
    return *row.start_ns - static_cast<std::int64_t>(std::llround(row.lag_ms.value_or(0) * 1e6));
}

}  // namespace

// An open row without a start matches any span of its key.
void OpenSpans::end(const Row& row, std::int64_t attempt) {
    const auto found = spans_.find(Key{*row.rank, *row.step, attempt, std::string(row.name)});
    if (found == spans_.end()) return;
    ByStart& spans = found->second;
    auto ended = spans.begin();
    const std::optional<std::int64_t> begin_ns = host_begin_ns(row);
    if (begin_ns && ended->first) {
        ended = spans.lower_bound(*begin_ns - begin_tolerance_ns);
        if (ended == spans.end() || *ended->first > *begin_ns + begin_tolerance_ns) return;
    }
    spans.erase(ended);
    if (spans.empty()) spans_.erase(found);
}

// Each flush writes an open span again until it ends: the last row counts.
void OpenSpans::add(const Row& row, std::int64_t attempt, std::uint64_t line) {
    ByStart& spans = spans_[{*row.rank, *row.step, attempt, std::string(row.name)}];
    const auto [span, added] = spans.try_emplace(row.start_ns, Entry{line, row.elapsed_ms, line});
    if (added) return;
    span->second.elapsed_ms = std::max(span->second.elapsed_ms, row.elapsed_ms);
    span->second.line = line;
}

std::vector<OpenSpan> OpenSpans::all() const {
    std::map<std::uint64_t, OpenSpan> by_line;
    for (const auto& [key, by_start] : spans_)
        for (const auto& [start_ns, entry] : by_start) {
            const auto& [rank, step, attempt, name] = key;
            by_line[entry.first_line] = {name, rank, step, attempt, start_ns, entry.elapsed_ms, entry.line};
        }
    std::vector<OpenSpan> sorted;
    for (auto& [line, span] : by_line) sorted.push_back(std::move(span));
    return sorted;
}

}  // namespace cep::tool
