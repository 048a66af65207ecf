// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "stats/quantiles.hpp"
#include "stats/robust.hpp"

namespace cep::kernels {
namespace {

void count_trace(TraceCounts& counts, const TraceOutcome& outcome) {
    const TraceData& data = outcome.data;
    const std::string path = tool::printable(data.path);
    counts.bytes += data.size_bytes;
    counts.events += data.all_events;
    for (const TraceDamage& damage : data.damages)
        counts.messages.push_back(fmt::format("{}:byte {}: {}", path, damage.offset_bytes, damage.why));
    if (data.skipped_events > data.damages.size())
        counts.messages.push_back(
            fmt::format("{}: {} skipped in all", path, tool::format_plural(data.skipped_events, "event")));
    if (!data.unusable.empty()) {
        ++counts.unreadable_files;
        counts.messages.push_back(path + ": " + data.unusable);
        return;
    }
    counts.skipped_events += data.skipped_events;
    if (data.truncated) ++counts.truncated_files;
    if (!outcome.has_gpu_events()) {
        ++counts.empty_traces;
        counts.messages.push_back(path + ": a trace without GPU events (kernel, gpu_memcpy, gpu_memset)");
    }
}

// What neither the trace nor its name says takes the lowest free ranks in order.
void give_ranks(std::vector<RankTrace>& traces) {
    std::set<std::int64_t> taken;
    for (const RankTrace& trace : traces)
        if (trace.rank_source != RankSource::order) taken.insert(trace.rank);
    std::int64_t next = 0;
    for (RankTrace& trace : traces) {
        if (trace.rank_source != RankSource::order) continue;
        while (taken.contains(next)) ++next;
        trace.rank = next++;
    }
}

// Traces of a rank at different times are one; of those at the same time, the first counts.
std::vector<RankTrace> join_traces(std::vector<RankTrace> traces, TraceCounts& counts) {
    std::map<std::int64_t, std::vector<RankTrace>> windows_of;
    for (RankTrace& trace : traces) {
        std::vector<RankTrace>& windows = windows_of[trace.rank];
        const auto same = std::find_if(windows.begin(), windows.end(), [&](const RankTrace& window) {
            return trace.window_begin_ns < window.window_end_ns && window.window_begin_ns < trace.window_end_ns;
        });
        if (same != windows.end()) {
            ++counts.duplicate_traces;
            counts.messages.push_back(fmt::format("{}: left out: rank {} at the same time is also in {}",
                                                  tool::printable(trace.paths.front()), trace.rank,
                                                  tool::printable(same->paths.front())));
        } else {
            windows.push_back(std::move(trace));
        }
    }
    std::vector<RankTrace> ranks;
    for (auto& [rank, windows] : windows_of) {
        std::stable_sort(windows.begin(), windows.end(),
                         [](auto& a, auto& b) { return a.window_begin_ns < b.window_begin_ns; });
        ranks.push_back(std::move(windows.front()));
        for (std::size_t i = 1; i < windows.size(); ++i) ranks.back().merge(windows[i]);
    }
    return ranks;
}

void find_missing(KernelReport& report) {
    tool::CoverageCollector ranks;
    for (const RankTrace& rank : report.ranks) {
        ranks.world_size = std::max(ranks.world_size, rank.world_size.value_or(0));
        ranks.seen.insert(rank.rank);
    }
    if (ranks.world_size > ranks.seen.highest())
        report.coverage = ranks.finish({});
    else
        report.coverage.ranks_seen = report.ranks.size();
}

template <typename TimeNs>
void add_spread(KernelReport& report, std::string_view what, const TimeNs& time_ns) {
    std::vector<std::pair<double, std::int64_t>> times;
    for (const RankTrace& rank : report.ranks) {
        const double steps = report.per_step ? static_cast<double>(rank.steps.size()) : 1;
        times.emplace_back(to_ms(time_ns(rank.time)) / steps, rank.rank);
    }
    std::stable_sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<double> all_ms;
    for (const auto& [time_ms, rank] : times) all_ms.push_back(time_ms);
    const std::span<const double> sorted_ms = all_ms;
    RankSpread& one = report.spreads.emplace_back();
    one.what = what;
    std::tie(one.longest_ms, one.longest_rank) = times.back();
    std::tie(one.shortest_ms, one.shortest_rank) = times.front();
    one.median_ms = tool::quantile_of(sorted_ms, 0.5);
    const double typical_ms = tool::quantile_of(sorted_ms.first(sorted_ms.size() - 1), 0.5);
    if (typical_ms > 0) one.excess = one.longest_ms / typical_ms - 1;
    one.deficit_ms = tool::quantile_of(sorted_ms.subspan(1), 0.5) - one.shortest_ms;
}

/// Means of ranks are compared with those of all the others by an analysis of variance in two ways, rank and step,
/// whose residuals say how much a rank varies from step to step; by Bonferroni, any of the ranks may be the one.
class RankTest {
  public:
    /// `member`: of the steps that every rank has.
    RankTest(const KernelReport& report, std::int64_t TraceStep::*member)
        : ranks_(static_cast<double>(report.ranks.size())), steps_(static_cast<double>(report.compared_steps)) {
        std::vector<double> of_step(report.compared_steps);
        double mean = 0;
        for (const RankTrace& rank : report.ranks) {
            double sum = 0;
            for (std::size_t i = 0; i < of_step.size(); ++i) {
                const double ms = to_ms(rank.steps[i].*member);
                of_step[i] += ms / ranks_;
                sum += ms;
            }
            mean_of_rank_.emplace(rank.rank, sum / steps_);
            mean += sum / steps_ / ranks_;
        }
        double squares = 0;
        for (const RankTrace& rank : report.ranks)
            for (std::size_t i = 0; i < of_step.size(); ++i) {
                const double residual = to_ms(rank.steps[i].*member) - mean_of_rank_.at(rank.rank) - of_step[i] + mean;
                squares += residual * residual;
            }
        variance_ = squares / freedom();
        mean_ = mean;
    }

    [[nodiscard]] double chance_of(std::int64_t rank, bool is_longest) const {
        const double others = (mean_ * ranks_ - mean_of_rank_.at(rank)) / (ranks_ - 1);
        const double difference = (mean_of_rank_.at(rank) - others) * (is_longest ? 1 : -1);
        const double error = std::sqrt(variance_ / steps_ * ranks_ / (ranks_ - 1));
        if (error <= 0) return difference > 0 ? 0 : 1;
        return std::min(1.0, ranks_ * tool::student_tail(difference / error, freedom()));
    }

  private:
    [[nodiscard]] double freedom() const { return (ranks_ - 1) * (steps_ - 1); }

    double ranks_;
    double steps_;
    double mean_ = 0;
    double variance_ = 0;
    std::map<std::int64_t, double> mean_of_rank_;
};

void test_ranks(KernelReport& report) {
    report.compared_steps = report.ranks.front().steps.size();
    for (const RankTrace& rank : report.ranks)
        report.compared_steps = std::min(report.compared_steps, rank.steps.size());
    if (report.compared_steps < 2) return;
    for (RankSpread& spread : report.spreads) {
        if (spread.what != "own work" && spread.what != "comm") continue;
        const RankTest test(report, spread.what == "comm" ? &TraceStep::comm_ns : &TraceStep::own_work_ns);
        spread.longest_chance = test.chance_of(spread.longest_rank, true);
        spread.shortest_chance = test.chance_of(spread.shortest_rank, false);
    }
}

void compare_ranks(KernelReport& report) {
    if (report.ranks.size() < 2) return;
    report.per_step = std::all_of(report.ranks.begin(), report.ranks.end(),
                                  [](const RankTrace& rank) { return !rank.steps.empty(); });
    add_spread(report, "own work", [](const GpuTime& time) { return time.own_work_ns(); });
    for (std::size_t i = 0; i < class_names.size(); ++i)
        add_spread(report, class_names[i], [i](const GpuTime& time) { return time.classes[i].time_ns; });
    add_spread(report, "idle", [](const GpuTime& time) { return time.idle_ns(); });
    test_ranks(report);
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

TraceOutcome read_and_analyze(const tool::InputFile& file, tool::Progress& progress) {
    TraceOutcome outcome{read_trace(file, progress), {}};
    outcome.trace = analyze(outcome.data);
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
        if (outcome.data.unusable.empty() && outcome.has_gpu_events()) traces.push_back(std::move(outcome.trace));
    }
    give_ranks(traces);
    report.ranks = join_traces(std::move(traces), report.inputs);
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
