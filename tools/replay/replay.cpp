// SPDX-License-Identifier: Apache-2.0
#include "replay/replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "replay/job_replay.hpp"
#include "replay/priced_steps.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double enough_steps = 0.1;  // to stand for all

// What a rank does between its rows of one step and of the next delays that step.
void add_gaps(const JobRows& rows, std::vector<StepGraph>& graphs) {
    std::vector<double> ended_ms(rows.ranks().size(), NAN);  // the step before
    std::vector<float> gaps_ms(ended_ms.size());
    std::int64_t last_step = std::numeric_limits<std::int64_t>::min();
    for (StepGraph& graph : graphs) {
        const std::int64_t step = rows.steps()[graph.step];
        if (step - 1 != last_step) std::fill(ended_ms.begin(), ended_ms.end(), NAN);
        std::vector<double> all_ms;
        std::vector<double> ends_ms(ended_ms.size(), NAN);
        for (std::size_t i = 0; i < graph.ends.size(); ++i) {
            const auto& [first_ms, last_ms] = graph.times_ms[i];
            const std::uint32_t rank = graph.ends[i].first;
            gaps_ms[rank] = static_cast<float>(std::fmax(0.0, first_ms - ended_ms[rank]));
            all_ms.push_back(gaps_ms[rank] + last_ms - first_ms);
            ends_ms[rank] = last_ms;
        }
        ended_ms = std::move(ends_ms);
        std::erase_if(all_ms, is_missing);
        if (!all_ms.empty()) graph.observed_ms = median_of(all_ms);
        for (GraphEdge& edge : graph.edges)
            if (edge.from < gaps_ms.size()) edge.delay_ms += gaps_ms[edge.from];
        graph.times_ms = {};
        last_step = step;
    }
}

/// And of the steps before them only when they ended. Rows are read step by step, and are there no longer than their
/// graph takes.
std::vector<StepGraph> build_graphs(const JobRows& rows, const std::vector<PricedStep>& priced, const JobModel& model,
                                    std::size_t threads) {
    std::vector<std::uint32_t> steps;
    for (const PricedStep& one : priced) {
        if (one.step > 0 && (steps.empty() || steps.back() + 1 < one.step)) steps.push_back(one.step - 1);
        steps.push_back(one.step);
    }
    std::vector<StepGraph> graphs(steps.size());
    read_each(rows, steps, threads, [&](std::size_t i, StepRows& step) {
        const auto found = std::lower_bound(priced.begin(), priced.end(), step.step,
                                            [](const PricedStep& one, std::uint32_t of) { return one.step < of; });
        const bool is_priced = found != priced.end() && found->step == step.step;
        if (is_priced) graphs[i] = build_step_graph(step, model);
        // Those of a step that did not finish, too.
        if (graphs[i].recorded_pieces <= graphs[i].lost_pieces) graphs[i] = read_step_ends(step, model);
        if (graphs[i].size() == 0) return;
        graphs[i].weight = found->weight;
        graphs[i].is_long = found->is_long;
    });
    add_gaps(rows, graphs);
    std::erase_if(graphs, [](const StepGraph& graph) { return graph.size() == 0; });
    return graphs;
}

/// Gives the weight of those steps to the others, if there are any.
template <typename IsLeftOut>
void leave_out(std::vector<StepGraph>& graphs, double least_kept, IsLeftOut is_left_out) {
    double all = 0;
    double kept = 0;
    for (const StepGraph& graph : graphs) {
        all += graph.weight;
        if (!is_left_out(graph)) kept += graph.weight;
    }
    if (!(kept > least_kept * all) || kept == all) return;
    for (StepGraph& graph : graphs) graph.weight *= is_left_out(graph) ? 0 : all / kept;
}

/// Whether a step shows for whom the others wait: it has rows of all slow ranks, and of half of all.
bool shows(const StepGraph& graph, std::span<const Finding> findings, const std::vector<JobRank>& ranks) {
    const auto has_rows = [&](std::int64_t rank) {
        return std::any_of(graph.ends.begin(), graph.ends.end(),
                           [&](const auto& end) { return ranks[end.first].rank == rank; });
    };
    if (graph.ends.size() == ranks.size()) return true;
    return 2 * graph.ends.size() >= ranks.size() &&
           std::all_of(findings.begin(), findings.end(), [&](const Finding& one) {
               return !is_of_slow_ranks(one) || std::all_of(one.ranks.begin(), one.ranks.end(), has_rows);
           });
}

/// The shares of the rows that the recorded ranks should have, and of the communication whose other ends are known.
void find_coverage(const std::vector<StepGraph>& graphs, const Job& job, Replay& facts) {
    double recorded = 0;
    double lost = 0;
    double comm = 0;
    double matched = 0;
    for (const StepGraph& graph : graphs) {
        if (graph.weight == 0) continue;
        recorded += graph.recorded_pieces;
        lost += graph.lost_pieces;
        comm += graph.comm_pieces;
        matched += graph.matched_comm;
    }
    // Where most instances of a piece are lost, nothing in the graphs stands for it.
    facts.row_coverage = std::min(1 - lost_share(job.loss), recorded / std::max(1.0, recorded + lost));
    facts.matched = matched / std::max(1.0, comm);
}

/// Marks the steps that took much longer than their replay: their delays stay as they were.
void keep_delays(const Replayer& replayer, std::vector<StepGraph>& graphs) {
    const std::vector<double> steps_ms = replayer.steps_ms(std::span(&as_it_was, 1)).front();
    for (std::size_t i = 0; i < graphs.size(); ++i)
        graphs[i].keeps_delays = steps_ms[i] < (1 - Replay::most_error_at_all) * graphs[i].observed_ms;
}

// Chooses the fewest delays with which the replay takes the observed time: a piece may wait for something that no row
// shows, and a delay stays when the cause of that wait is gone. First usual delays, then all of the steps that took
// much longer than their replay, then all.
void choose_delays(std::vector<StepGraph>& graphs, const JobModel& model, Replayer& replayer, Replay& result) {
    Delays best;
    Delays usual;
    double best_ms = replayer.mean_step_ms(as_it_was);
    const auto error_of = [&result](double ms) { return std::abs(ms / result.observed_ms - 1); };
    for (int i = 0; i < 3 && best_ms < (1 - Replay::most_error) * result.observed_ms; ++i) {
        if (i == 0) usual = usual_delays(graphs, model);
        if (i == 1) keep_delays(replayer, graphs);
        Delays next = i < 2 ? usual : Delays(model.keys.size(), INFINITY);
        replayer.set_delays(next, usual);
        const double next_ms = replayer.mean_step_ms(as_it_was);
        const bool is_better = error_of(next_ms) < error_of(best_ms);
        if (i == 1 && !is_better)
            for (StepGraph& graph : graphs) graph.keeps_delays = false;
        if (!is_better) continue;
        // What comes late in some steps may have waited for work whose rows were lost.
        if (i > 0 && !result.has_nearly_all_rows())
            result.hidden = std::max(0.0, next_ms - best_ms) / result.observed_ms;
        best = std::move(next);
        best_ms = next_ms;
        result.keeps_all_delays = i == 2;
    }
    replayer.set_delays(std::move(best), std::move(usual));
    result.replayed_ms = best_ms;
    result.error = best_ms / result.observed_ms - 1;
}

// A rank that was not recorded can only be slower than those that were if these wait for it in their transfers. Where
// that may be a large part of what a cause costs, it is not certain what the job would gain.
bool is_certain(const Replay& result, bool is_whole, const Finding& cause) {
    if (!result.is_usable()) return false;
    return is_whole || (cause.kind != FindingKind::communication && cause.kind != FindingKind::link &&
                        cause.kind != FindingKind::routing &&
                        result.unseen_ms <= Replay::most_unseen * result.observed_ms * *cause.cost_share);
}

}  // namespace

JobReplay::JobReplay(const Job& job, std::size_t threads, std::span<const std::int64_t> left_out,
                     std::span<const Finding> findings)
    : rows_(job, threads, true) {
    facts_.reason = rows_.reason();
    if (!facts_.reason.empty()) return;
    model_.emplace(build_model(rows_, threads));
    if (rows_.are_placed() && !model_->leave_together) {
        facts_.reason = "spans have no start times";
        return;
    }
    const std::vector<PricedStep> priced = choose_priced_steps(rows_);
    graphs_ = build_graphs(rows_, priced, *model_, threads);
    leave_out(graphs_, 0, [&](const StepGraph& graph) {
        return std::binary_search(left_out.begin(), left_out.end(), rows_.steps()[graph.step]);
    });
    leave_out(graphs_, enough_steps, [&](const StepGraph& graph) { return !shows(graph, findings, rows_.ranks()); });
    for (const StepGraph& graph : graphs_) facts_.observed_ms += graph.weight * graph.observed_ms;
    facts_.steps = graphs_.size();
    facts_.all_steps = priced.size() < rows_.common_steps().size() ? rows_.common_steps().size() : facts_.steps;
    facts_.observed_ms /= static_cast<double>(std::max<std::size_t>(1, graphs_.size()));
    if (!(facts_.observed_ms > 0)) {
        facts_.reason = "the steps take no time";
        return;
    }
    facts_.is_possible = true;
    const auto seen = static_cast<double>(job.coverage.ranks_seen);
    const double share_seen = std::min(1.0, seen / static_cast<double>(job.coverage.ranks_expected.value_or(1)));
    find_coverage(graphs_, job, facts_);
    facts_.coverage = facts_.row_coverage * share_seen;
    facts_.has_stops = std::any_of(model_->templates.begin(), model_->templates.end(),
                                   [](const RoleTemplate& role) { return role.has_stops(); });
    typical_.emplace(graphs_, *model_);
    replayer_.emplace(graphs_, model_->keys, rows_.ranks().size(), threads);
    choose_delays(graphs_, *model_, *replayer_, facts_);
}

Replay replay(const Job& job, std::size_t threads, std::span<const std::int64_t> left_out,
              std::vector<Finding>& findings) {
    const JobReplay of_job(job, threads, left_out, findings);
    Replay result = of_job.facts();
    if (!result.is_possible) return result;
    find_causes(of_job, result, findings);
    const bool is_whole = job.coverage.is_whole();
    if (is_whole) result.unseen_ms = 0;
    for (Finding& one : findings)
        if (is_cause(one) && !is_certain(result, is_whole, one)) one.cost_share.reset();
    std::erase_if(findings, [](const Finding& one) {
        const bool is_measured = one.kind == FindingKind::stage && one.slow_ms;
        return one.kind >= FindingKind::ranks && !one.cost_share && !is_measured;
    });
    return result;
}

}  // namespace cep::tool
