// SPDX-License-Identifier: Apache-2.0
#include "replay/replay.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/parallel.hpp"
#include "replay/cause_finder.hpp"

namespace cep::tool {
namespace {

/// The steps that are replayed: all, or as many as there is room for.
std::vector<std::uint32_t> chosen_steps(const JobRows& rows) {
    constexpr std::uint64_t most_rows = 16'000'000;
    constexpr std::uint64_t most_steps = 50'000;
    std::vector<std::uint32_t> steps = rows.even_steps();
    const std::uint64_t parts = std::max(rows.count() / most_rows, rows.steps().size() / most_steps) + 1;
    leave_some(steps, (steps.size() + parts - 1) / parts, [&](std::uint32_t step) { return rows.steps()[step]; });
    return steps;
}

// Rows are read and put into graphs a few steps at a time.
std::vector<StepGraph> build_graphs(const JobRows& rows, const std::vector<std::uint32_t>& steps, const JobModel& model,
                                    std::size_t threads) {
    const std::size_t wave = 4 * std::max<std::size_t>(1, threads);
    StepReader reader(rows);
    std::vector<StepGraph> graphs(steps.size());
    for (std::size_t first = 0; first < steps.size(); first += wave) {
        std::vector<StepRows> some;
        for (std::size_t i = first; i < std::min(first + wave, steps.size()); ++i)
            some.push_back(reader.read(steps[i]));
        for_all(some.size(), threads,
                [&](std::size_t i) { graphs[first + i] = build_step_graph(std::move(some[i]), model); });
    }
    std::erase_if(graphs, [](const StepGraph& graph) { return graph.ends.empty(); });
    return graphs;
}

/// Of the rows that the recorded ranks should have, those that are in the graphs.
double find_row_coverage(const std::vector<StepGraph>& graphs, const Job& job) {
    double recorded = 0;
    double lost = 0;
    for (const StepGraph& graph : graphs) {
        recorded += graph.recorded_pieces;
        lost += graph.lost_pieces;
    }
    // Where most instances of a piece are lost, nothing in the graphs stands for it.
    const auto dropped = static_cast<double>(job.loss.dropped() + job.loss.abandoned);
    const double kept = job.loss.recorded > 0 ? 1 - dropped / static_cast<double>(job.loss.recorded) : 1;
    return std::min(kept, recorded / std::max(1.0, recorded + lost));
}

double find_matched(const std::vector<StepGraph>& graphs) {
    double matched = 0;
    double all = 0;
    for (const StepGraph& graph : graphs) {
        matched += graph.matched_comm;
        all += graph.comm_pieces;
    }
    return matched / std::max(1.0, all);
}

void keep_durations(const StepGraph& /*graph*/, std::span<float> /*own_ms*/) {}

// Of delays, the fewest with which the replay takes the time that was observed: there may be waits for something that
// no row shows, which delays would keep when their cause is gone.
void choose_delays(const std::vector<StepGraph>& graphs, const JobModel& model, Replayer& replayer, Replay& result) {
    Delays best;
    double best_ms = replayer.mean_step_ms(keep_durations);
    const auto error_of = [&result](double ms) { return std::abs(ms / result.observed_ms - 1); };
    for (int i = 0; i < 2 && best_ms < (1 - Replay::most_error) * result.observed_ms; ++i) {
        Delays next = i == 0 ? usual_delays(graphs, model) : Delays(model.keys.size(), INFINITY);
        replayer.set_delays(next);
        const double next_ms = replayer.mean_step_ms(keep_durations);
        if (error_of(next_ms) >= error_of(best_ms)) continue;
        best = std::move(next);
        best_ms = next_ms;
    }
    result.has_delays = !best.empty();
    replayer.set_delays(std::move(best));
    result.replayed_ms = best_ms;
    result.error = best_ms / result.observed_ms - 1;
}

// A rank that was not recorded can only be slower than those that were if these wait for it in their transfers. Where
// that may be a large part of what a cause costs, it is not certain what the job would gain.
void keep_certain_causes(Replay& result) {
    std::erase_if(result.causes, [&result](const Cause& cause) {
        return cause.kind == CauseKind::communication || cause.kind == CauseKind::link ||
               cause.kind == CauseKind::routing || result.unseen_ms > Replay::most_unseen * cause.cost_ms;
    });
}

}  // namespace

std::string_view cause_name(CauseKind kind) {
    constexpr std::array<std::string_view, 10> names = {"ranks",         "host", "stage",  "micro_batches", "jitter",
                                                        "communication", "link", "loader", "routing",       "jitter"};
    return names[static_cast<std::size_t>(kind)];
}

Replay replay(const Job& job, std::size_t threads, std::vector<Suspects> suspects) {
    Replay result;
    result.suspects = std::move(suspects);
    const JobRows rows(job);
    result.reason = rows.reason();
    if (!result.reason.empty()) return result;
    const JobModel model = build_model(rows);
    const std::vector<std::uint32_t> steps = chosen_steps(rows);
    std::vector<StepGraph> graphs = build_graphs(rows, steps, model, threads);
    for (const StepGraph& graph : graphs) result.observed_ms += graph.observed_ms;
    result.steps = graphs.size();
    result.all_steps = steps.size() < rows.even_steps().size() ? rows.even_steps().size() : result.steps;
    result.observed_ms /= static_cast<double>(std::max<std::size_t>(1, graphs.size()));
    if (!(result.observed_ms > 0)) {
        result.reason = "the steps take no time";
        return result;
    }
    result.is_possible = true;
    const auto seen = static_cast<double>(job.coverage.ranks_seen);
    const double share_seen = std::min(1.0, seen / static_cast<double>(job.coverage.ranks_expected.value_or(1)));
    result.row_coverage = find_row_coverage(graphs, job);
    result.coverage = result.row_coverage * share_seen;
    result.matched = find_matched(graphs);
    const TypicalWork typical(graphs, model);
    Replayer replayer(graphs, rows.ranks().size(), threads);
    choose_delays(graphs, model, replayer, result);
    find_causes(graphs, model, typical, replayer, result);
    if (!job.coverage.is_whole()) {
        keep_certain_causes(result);
    } else {
        result.unseen_ms = 0;
    }
    return result;
}

}  // namespace cep::tool
