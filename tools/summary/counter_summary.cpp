// SPDX-License-Identifier: Apache-2.0
#include "summary/counter_summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "stats/quantiles.hpp"

namespace cep::tool {
namespace {

/// A counter of one rank, from all of its runs.
struct RankCounter {
    double max = 0;
    std::pair<std::int64_t, std::int64_t> last_position;  // attempt, step
    double last = 0;
};

using RankCounters = std::map<std::string_view, RankCounter>;

RankCounters counters_of(const std::vector<RunSeries>& all_series) {
    RankCounters counters;
    for (const RunSeries& series : all_series)
        for (const auto& [name, counter] : series.counters) {
            const std::pair position(series.run.attempt, counter.last_step);
            const auto [known, is_new] = counters.try_emplace(name, RankCounter{counter.max, position, counter.last});
            if (is_new) continue;
            RankCounter& all = known->second;
            all.max = std::max(all.max, counter.max);
            std::tie(all.last_position, all.last) =
                std::max(std::pair(all.last_position, all.last), std::pair(position, counter.last));
        }
    return counters;
}

/// Collects one figure of each rank; ranks come in ascending order.
class Figures {
  public:
    void add(std::int64_t rank, double value) {
        if (values_.empty() || value > across_.max) {
            across_.max = value;
            across_.max_rank = rank;
        }
        values_.push_back(value);
    }
    /// Nothing where no rank has it.
    [[nodiscard]] std::optional<AcrossRanks> all() const {
        if (values_.empty()) return std::nullopt;
        AcrossRanks across = across_;
        across.ranks = values_.size();
        across.median = quantile_of(values_, 0.5);
        return across;
    }

  private:
    AcrossRanks across_;
    std::vector<double> values_;
};

const RankCounter* find(const RankCounters& counters, std::string_view name, std::string_view otherwise = {}) {
    auto found = counters.find(name);
    if (found == counters.end() && !otherwise.empty()) found = counters.find(otherwise);
    return found == counters.end() ? nullptr : &found->second;
}

}  // namespace

std::vector<CounterSummary> summarize_counters(const RankSeries& ranks) {
    std::map<std::string_view, std::pair<Figures, Figures>> by_name;
    for (const auto& [rank, all_series] : ranks)
        for (const auto& [name, counter] : counters_of(all_series)) {
            auto& [max, last] = by_name[name];
            max.add(rank, counter.max);
            last.add(rank, counter.last);
        }
    std::vector<CounterSummary> summaries;
    for (const auto& [name, figures] : by_name)
        summaries.push_back({std::string(name), *figures.first.all(), *figures.second.all()});
    return summaries;
}

bool MemorySummary::is_short() const {
    constexpr double nearly_full = 0.95;
    return alloc_retries > 0 || (used && used->max >= nearly_full);
}

std::optional<MemorySummary> summarize_memory(const RankSeries& ranks) {
    Figures peak_allocated;
    Figures peak_reserved;
    Figures fragmentation;
    Figures used;
    MemorySummary summary;
    for (const auto& [rank, all_series] : ranks) {
        const RankCounters counters = counters_of(all_series);
        const RankCounter* allocated = find(counters, "memory.allocated_bytes");
        const RankCounter* reserved = find(counters, "memory.reserved_bytes");
        if (const auto* peak = find(counters, "memory.peak_allocated_bytes", "memory.allocated_bytes"))
            peak_allocated.add(rank, peak->max);
        if (const auto* peak = find(counters, "memory.peak_reserved_bytes", "memory.reserved_bytes")) {
            peak_reserved.add(rank, peak->max);
            const RankCounter* device = find(counters, "memory.device_bytes");
            if (device != nullptr && device->max > 0) used.add(rank, peak->max / device->max);
        }
        if (allocated != nullptr && reserved != nullptr && allocated->last_position == reserved->last_position &&
            reserved->last > 0)
            fragmentation.add(rank, 1 - allocated->last / reserved->last);
        if (const auto* retries = find(counters, "memory.alloc_retries")) summary.alloc_retries += retries->max;
    }
    for (const auto& [rank, all_series] : ranks)
        for (const auto& [name, counter] : counters_of(all_series)) {
            constexpr std::string_view of_phases = "memory.peak_bytes.";
            if (!name.starts_with(of_phases) || counter.max <= summary.peak_phase_bytes) continue;
            summary.peak_phase = name.substr(of_phases.size());
            summary.peak_phase_bytes = counter.max;
        }
    summary.peak_allocated_bytes = peak_allocated.all();
    summary.peak_reserved_bytes = peak_reserved.all();
    summary.fragmentation = fragmentation.all();
    summary.used = used.all();
    if (!summary.peak_allocated_bytes && !summary.peak_reserved_bytes) return std::nullopt;
    return summary;
}

namespace {

std::string describe_bytes(std::string_view what, const AcrossRanks& figure) {
    constexpr double apart = 1.05;
    std::string text = fmt::format("{} {}", format_bytes(figure.median), what);
    if (figure.max > apart * figure.median)
        text += fmt::format(" (rank {}: {})", figure.max_rank, format_bytes(figure.max));
    return text;
}

}  // namespace

std::string describe_memory(const MemorySummary& memory) {
    std::string text = "at most ";
    if (memory.peak_allocated_bytes) text += describe_bytes("allocated", *memory.peak_allocated_bytes);
    if (memory.peak_allocated_bytes && memory.peak_reserved_bytes) text += ", ";
    if (memory.peak_reserved_bytes) text += describe_bytes("reserved", *memory.peak_reserved_bytes);
    const auto& any = memory.peak_allocated_bytes ? memory.peak_allocated_bytes : memory.peak_reserved_bytes;
    if (any && any->ranks > 1) text += " on the median rank";
    if (!memory.peak_phase.empty())
        text += fmt::format("; of the phases, {} has most ({})", printable(memory.peak_phase),
                            format_bytes(memory.peak_phase_bytes));
    if (const auto& used = memory.used)
        text +=
            fmt::format("; {:.0f} % of the device reserved{}, {:.0f} % headroom", 100 * used->max,
                        used->ranks > 1 ? fmt::format(" on rank {}", used->max_rank) : "", 100 * *memory.headroom());
    if (const auto& share = memory.fragmentation) {
        text += fmt::format("; {:.1f} % of what is reserved is unused", 100 * share->median);
        if (share->max > share->median + 0.05)
            text += fmt::format(" (rank {}: {:.1f} %)", share->max_rank, 100 * share->max);
    }
    if (memory.alloc_retries > 0)
        text += fmt::format("; {} freed the cache and tried again",
                            format_plural(static_cast<std::uint64_t>(memory.alloc_retries), "allocation"));
    return text;
}

}  // namespace cep::tool
