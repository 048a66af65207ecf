// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "kernels/trace_inputs.hpp"
#include "stats/quantiles.hpp"

namespace cep::kernels {
namespace {

/// Puts each trace where it belongs.
class RankCollector {
  public:
    explicit RankCollector(TraceCounts& counts) : counts_(counts) {}

    void add(RankTrace trace) {
        std::vector<RankTrace>& parts = parts_[trace.rank];
        const auto same = std::find_if(parts.begin(), parts.end(), [&](const RankTrace& part) {
            return trace.window_begin_ns < part.window_end_ns && part.window_begin_ns < trace.window_end_ns;
        });
        if (same != parts.end()) {
            ++counts_.duplicate_traces;
            counts_.messages.push_back(fmt::format("{}: left out: rank {} at the same time is also in {}",
                                                   trace.paths.front(), trace.rank, same->paths.front()));
            return;
        }
        parts.push_back(std::move(trace));
    }

    std::vector<RankTrace> finish() {
        std::vector<RankTrace> ranks;
        for (auto& [rank, parts] : parts_) {
            std::stable_sort(parts.begin(), parts.end(),
                             [](auto& a, auto& b) { return a.window_begin_ns < b.window_begin_ns; });
            ranks.push_back(std::move(parts.front()));
            for (std::size_t i = 1; i < parts.size(); ++i) ranks.back().merge(parts[i]);
        }
        return ranks;
    }

  private:
    TraceCounts& counts_;
    std::map<std::int64_t, std::vector<RankTrace>> parts_;
};

void count_trace(TraceCounts& counts, const TraceOutcome& outcome) {
    const TraceData& data = outcome.data;
    counts.bytes += data.size_bytes;
    counts.events += data.all_events;
    for (const TraceDamage& damage : data.damages)
        counts.messages.push_back(fmt::format("{}:byte {}: {}", data.path, damage.offset_bytes, damage.why));
    if (data.skipped_events > data.damages.size())
        counts.messages.push_back(
            fmt::format("{}: {} skipped in all", data.path, tool::format_plural(data.skipped_events, "event")));
    if (!data.unusable.empty()) {
        ++counts.unreadable_files;
        counts.messages.push_back(data.path + ": " + data.unusable);
        return;
    }
    counts.skipped_events += data.skipped_events;
    if (data.truncated) ++counts.truncated_files;
    if (outcome.gpu_events == 0) {
        ++counts.empty_traces;
        counts.messages.push_back(data.path + ": a trace without GPU events (kernel, gpu_memcpy, gpu_memset)");
    }
}

// Ranks by the trace, else by name; what is left takes the lowest free ones in order.
void give_ranks(std::vector<RankTrace>& traces) {
    std::set<std::int64_t> taken;
    for (RankTrace& trace : traces) {
        const auto named = rank_of_trace_name(trace.paths.front());
        if (trace.rank_source != RankSource::trace && named) {
            trace.rank = *named;
            trace.rank_source = RankSource::name;
        }
        if (trace.rank_source != RankSource::order) taken.insert(trace.rank);
    }
    std::int64_t next = 0;
    for (RankTrace& trace : traces) {
        if (trace.rank_source != RankSource::order) continue;
        while (taken.contains(next)) ++next;
        trace.rank = next++;
    }
}

void find_missing(KernelReport& report) {
    std::int64_t world_size = 0;
    std::set<std::int64_t> seen;
    report.coverage.ranks_seen = report.ranks.size();
    for (const RankTrace& rank : report.ranks) {
        world_size = std::max(world_size, rank.world_size.value_or(0));
        seen.insert(rank.rank);
    }
    // A world beyond any job's is a damaged number.
    constexpr std::int64_t max_world_size = std::int64_t{1} << 22;
    if (world_size == 0 || world_size > max_world_size || *seen.rbegin() >= world_size) return;
    report.coverage.ranks_expected = static_cast<std::uint64_t>(world_size);
    for (std::int64_t rank = 0; rank < world_size; ++rank)
        if (!seen.contains(rank)) report.coverage.missing_ranks.push_back(rank);
}

RankSpread spread_of_ranks(const KernelReport& report, std::string what, std::int64_t (*time_ns)(const GpuTime&)) {
    std::vector<std::pair<double, std::int64_t>> times;
    for (const RankTrace& rank : report.ranks) {
        const double steps = report.per_step ? static_cast<double>(rank.steps.size()) : 1;
        times.emplace_back(to_ms(time_ns(rank.time)) / steps, rank.rank);
    }
    std::stable_sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<double> all_ms;
    for (const auto& [time_ms, rank] : times) all_ms.push_back(time_ms);
    std::vector<double> below_ms(all_ms.begin(), all_ms.end() - 1);
    std::vector<double> above_ms(all_ms.begin() + 1, all_ms.end());
    RankSpread one;
    one.what = std::move(what);
    one.longest_rank = times.back().second;
    one.longest_ms = times.back().first;
    one.shortest_rank = times.front().second;
    one.shortest_ms = times.front().first;
    one.median_ms = tool::exact_quantile(all_ms, 0.5);
    const double typical_ms = tool::exact_quantile(below_ms, 0.5);
    if (typical_ms > 0) one.excess = one.longest_ms / typical_ms - 1;
    one.deficit_ms = tool::exact_quantile(above_ms, 0.5) - one.shortest_ms;
    return one;
}

void compare_ranks(KernelReport& report) {
    if (report.ranks.size() < 2) return;
    report.per_step = std::all_of(report.ranks.begin(), report.ranks.end(),
                                  [](const RankTrace& rank) { return !rank.steps.empty(); });
    const auto add = [&](const char* what, std::int64_t (*time_ns)(const GpuTime&)) {
        report.spreads.push_back(spread_of_ranks(report, what, time_ns));
    };
    add("own work", [](const GpuTime& time) { return time.own_work_ns(); });
    add("matmul", [](const GpuTime& time) { return time.of(KernelClass::matmul).time_ns; });
    add("comm", [](const GpuTime& time) { return time.of(KernelClass::comm).time_ns; });
    add("memory", [](const GpuTime& time) { return time.of(KernelClass::memory).time_ns; });
    add("other", [](const GpuTime& time) { return time.of(KernelClass::other).time_ns; });
    add("idle", [](const GpuTime& time) { return time.idle_ns(); });
}

}  // namespace

const RankSpread* KernelReport::spread_of(std::string_view what) const {
    const auto found =
        std::find_if(spreads.begin(), spreads.end(), [&](const RankSpread& one) { return one.what == what; });
    return found == spreads.end() ? nullptr : &*found;
}

double to_ms(std::int64_t time_ns) {
    return static_cast<double>(time_ns) / 1e6;
}

TraceOutcome read_and_analyze(const tool::InputFile& file, const std::function<void(std::uint64_t)>& on_bytes) {
    TraceOutcome outcome;
    outcome.data = read_trace(file, on_bytes);
    outcome.trace = analyze(outcome.data);
    outcome.gpu_events = outcome.data.events.size();
    outcome.data.events = {};
    outcome.data.kernels = {};
    return outcome;
}

KernelReport make_report(std::vector<TraceOutcome> outcomes, const tool::InputSet& inputs) {
    KernelReport report;
    report.inputs.files = inputs.files.size();
    report.inputs.repeated_files = inputs.repeated_files;
    report.inputs.unreadable_files = inputs.unusable.size();
    report.inputs.messages = inputs.unusable;
    std::vector<RankTrace> traces;
    for (TraceOutcome& outcome : outcomes) {
        count_trace(report.inputs, outcome);
        const bool counts = outcome.data.unusable.empty() && outcome.gpu_events > 0;
        if (counts) traces.push_back(std::move(outcome.trace));
    }
    give_ranks(traces);
    RankCollector collector(report.inputs);
    for (RankTrace& trace : traces) collector.add(std::move(trace));
    report.ranks = collector.finish();
    if (report.ranks.empty()) return report;
    for (const RankTrace& rank : report.ranks) {
        report.total.time.merge(rank.time);
        for (const auto& [name, total] : rank.kernels) report.total.kernels[name].merge(total);
        report.inputs.gpu_events += rank.time.all().count;
    }
    find_missing(report);
    compare_ranks(report);
    return report;
}

}  // namespace cep::kernels
