// SPDX-License-Identifier: Apache-2.0
#include "job_table.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <unordered_map>

#include "parallel.hpp"
#include "rank_steps.hpp"
#include "robust.hpp"

namespace cep::analysis {
namespace {

constexpr double with_start_share = 0.99;

/// The spans of one rank of the table, by step.
class RankSpans {
  public:
    RankSpans(const std::vector<RunSeries>& all_series, const std::vector<std::int64_t>& table_steps) {
        std::size_t size = 0;
        for (const RunSeries& series : all_series)
            for (const PhaseSeries& phase : series.phases) size += phase.samples.size();
        spans_.reserve(size);
        for (const RunSeries& series : all_series) {
            std::vector<std::uint32_t> places;
            places.reserve(series.steps.size());
            for (const std::int64_t step : series.steps) places.push_back(place_of(step, table_steps));
            for (const PhaseSeries& phase : series.phases) add(phase, places);
        }
        order_by_step(table_steps.size());
    }

    [[nodiscard]] const std::vector<RankPhase>& phases() const { return phases_; }
    [[nodiscard]] const std::vector<StepSpan>& all() const { return spans_; }

    template <typename Take>
    void for_each_step(Take take) const {
        for (std::size_t first = 0; first < spans_.size();) {
            std::size_t last = first;
            while (last < spans_.size() && spans_[last].step == spans_[first].step) ++last;
            take(spans_[first].step, spans_.data() + first, spans_.data() + last);
            first = last;
        }
    }

  private:
    static constexpr std::uint32_t left_out = UINT32_MAX;

    static std::uint32_t place_of(std::int64_t step, const std::vector<std::int64_t>& steps) {
        const auto found = std::lower_bound(steps.begin(), steps.end(), step);
        if (found == steps.end() || *found != step) return left_out;
        return static_cast<std::uint32_t>(found - steps.begin());
    }

    void add(const PhaseSeries& phase, const std::vector<std::uint32_t>& places) {
        const auto known = std::find_if(phases_.begin(), phases_.end(),
                                        [&](const RankPhase& other) { return other.name == phase.name; });
        const auto index = static_cast<std::uint32_t>(known - phases_.begin());
        if (known == phases_.end()) phases_.push_back({phase.name, phase.kind, phase.clock});
        for (const Sample& sample : phase.samples)
            if (places[sample.step_index] != left_out) spans_.push_back({places[sample.step_index], index, &sample});
    }

    // A counting sort, which keeps the order within a step.
    void order_by_step(std::size_t steps) {
        std::vector<std::uint32_t> next(steps + 1);
        for (const StepSpan& span : spans_) ++next[span.step + 1];
        for (std::size_t step = 1; step < next.size(); ++step) next[step] += next[step - 1];
        std::vector<StepSpan> ordered(spans_.size());
        for (const StepSpan& span : spans_) ordered[next[span.step]++] = span;
        spans_ = std::move(ordered);
    }

    std::vector<RankPhase> phases_;
    std::vector<StepSpan> spans_;
};

class Builder {
  public:
    Builder(const RankSeries& ranks, std::size_t threads, std::size_t max_cells) : ranks_(ranks), threads_(threads) {
        find_ranks();
        find_step_phase();
        find_steps(max_cells);
    }

    JobTable build() {
        match_collectives();
        make_matrices();
        std::vector<RankTotals> totals(table_.ranks.size());
        for_all(totals.size(), threads_, [&](std::size_t rank) { totals[rank] = add_rank(rank); });
        complete_partial_steps();
        RankTotals all;
        for (const RankTotals& of_rank : totals) {
            all.spans += of_rank.spans;
            all.with_start += of_rank.with_start;
            all.comm_ms += of_rank.comm_ms;
            all.matched_ms += of_rank.matched_ms;
        }
        table_.has_starts = static_cast<double>(all.with_start) >= with_start_share * static_cast<double>(all.spans);
        table_.has_comm = all.comm_ms > 0;
        table_.matched_comm = all.comm_ms > 0 ? all.matched_ms / all.comm_ms : 0;
        return std::move(table_);
    }

  private:
    /// How many spans of a local phase each rank has in each step.
    using Counts = StepMatrix;

    struct RankTotals {
        std::size_t spans = 0;
        std::size_t with_start = 0;
        double comm_ms = 0;
        double matched_ms = 0;
    };

    void find_ranks() {
        for (const auto& [rank, all_series] : ranks_) {
            if (all_series.empty()) continue;
            const RunInfo& run = all_series.back().run;
            series_.push_back(&all_series);
            table_.ranks.push_back({rank, run.host, run.tp, run.pp, run.flops_per_step, run.hardware_flops_per_step,
                                    run.peak_flops, run.tokens_per_step, run.device_name});
        }
    }

    // Of step spans inside step spans, the outermost: the longest in all.
    void find_step_phase() {
        std::map<std::string, double> totals_ms;
        for (const auto& [rank, all_series] : ranks_)
            for (const RunSeries& series : all_series)
                for (const PhaseSeries& phase : series.phases)
                    if (phase.kind == schema::Kind::step)
                        for (const Sample& sample : phase.samples) totals_ms[phase.name] += sample.duration_ms;
        double longest_ms = 0;
        for (const auto& [name, total_ms] : totals_ms)
            if (total_ms > longest_ms) {
                longest_ms = total_ms;
                step_phase_ = name;
            }
        table_.has_step_spans = longest_ms > 0;
    }

    void find_steps(std::size_t max_cells) {
        std::set<std::int64_t> steps;
        for (const auto& [rank, all_series] : ranks_)
            for (const RunSeries& series : all_series) steps.insert(series.steps.begin(), series.steps.end());
        const std::size_t width = std::max<std::size_t>(1, table_.ranks.size());
        std::size_t stride = 1;
        while (steps.size() / stride * width > max_cells) stride *= 2;
        std::size_t i = 0;
        for (const std::int64_t step : steps)
            if (i++ % stride == 0) table_.steps.push_back(step);
    }

    void match_collectives() {
        std::mutex lock;
        for_all(series_.size(), threads_, [&](std::size_t rank) {
            const RankSpans spans(*series_[rank], table_.steps);
            Transfers of_rank;
            for (const StepSpan& span : spans.all()) {
                const RankPhase& phase = spans.phases()[span.phase];
                if (phase.kind == schema::Kind::comm)
                    of_rank.add(collective_key(span.step, phase.name, *span.sample), span.sample->duration_ms);
            }
            const std::lock_guard guard(lock);
            transfers_.merge(of_rank);
        });
    }

    [[nodiscard]] StepMatrix new_matrix() const { return {table_.ranks.size(), table_.steps.size()}; }

    void make_matrices() {
        for (StepMatrix* matrix :
             {&table_.step_ms, &table_.comm_ms, &table_.wait_ms, &table_.group_wait_ms, &table_.exposed_ms,
              &table_.overlap_ms, &table_.compute_ms, &table_.data_ms, &table_.idle_ms})
            *matrix = new_matrix();
        make_phases();
    }

    void make_phases() {
        for (const auto* all_series : series_)
            for (const RunSeries& series : *all_series)
                for (const PhaseSeries& phase : series.phases) {
                    if (phase.kind == schema::Kind::comm || phase.kind == schema::Kind::step) continue;
                    if (!places_.try_emplace(phase.name, table_.local.size()).second) continue;
                    table_.local.push_back({phase.name, phase.kind, new_matrix(), new_matrix(), 0});
                    counts_.push_back(new_matrix());
                }
    }

    RankTotals add_rank(std::size_t rank) {
        const RankSpans spans(*series_[rank], table_.steps);
        StepAnalyser analyser(step_phase_, transfers_);
        RankTotals totals;
        totals.spans = spans.all().size();
        for (const StepSpan& span : spans.all()) totals.with_start += span.sample->has_start();
        std::vector<std::size_t> places;
        for (const RankPhase& phase : spans.phases()) {
            const auto found = places_.find(std::string(phase.name));
            places.push_back(found == places_.end() ? 0 : found->second);
        }
        spans.for_each_step([&](std::size_t step, const StepSpan* first, const StepSpan* last) {
            const RankStep& of_rank = analyser.analyse(first, last, spans.phases());
            add_step(rank, step, of_rank, places);
            totals.comm_ms += of_rank.all_comm_ms;
            totals.matched_ms += of_rank.matched_ms;
        });
        return totals;
    }

    void add_step(std::size_t rank, std::size_t step, const RankStep& of_rank, const std::vector<std::size_t>& places) {
        for (const LocalTime& time : of_rank.local) {
            LocalPhase& phase = table_.local[places[time.phase]];
            phase.own_ms.set(rank, step, time.own_ms);
            phase.duration_ms.set(rank, step, time.duration_ms);
            counts_[places[time.phase]].set(rank, step, time.spans);
        }
        table_.step_ms.set(rank, step, of_rank.step_ms);
        table_.comm_ms.set(rank, step, of_rank.comm_ms);
        table_.wait_ms.set(rank, step, of_rank.wait_ms);
        table_.group_wait_ms.set(rank, step, of_rank.group_wait_ms);
        table_.exposed_ms.set(rank, step, of_rank.exposed_ms);
        table_.overlap_ms.set(rank, step, of_rank.overlap_ms);
        table_.compute_ms.set(rank, step, of_rank.compute_ms);
        table_.data_ms.set(rank, step, of_rank.data_ms);
        table_.idle_ms.set(rank, step, of_rank.idle_ms);
    }

    // A rank that lost one of four micro-batches' rows did not work less: it has the mean of those that are there for
    // it.
    void complete_partial_steps() {
        for_all(counts_.size(), threads_, [&](std::size_t place) {
            std::vector<double> usual_counts;
            for (std::size_t step = 0; step < table_.steps.size(); ++step)
                usual_counts.push_back(complete(table_.local[place], counts_[place], step));
            table_.local[place].usual_spans = median_of(std::move(usual_counts));
        });
    }

    /// Returns the usual count of spans.
    double complete(LocalPhase& phase, const Counts& counts, std::size_t step) {
        std::vector<double> of_step = counts.of_step(step);
        const double usual = all_equal(of_step) ? of_step.front() : median_of(std::move(of_step));
        for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank) {
            const double count = counts.at(rank, step);
            if (is_missing(count) || count >= usual) continue;
            for (StepMatrix* ms : {&phase.own_ms, &phase.duration_ms})
                ms->set(rank, step, ms->at(rank, step) * usual / count);
        }
        return usual;
    }

    [[nodiscard]] static bool all_equal(const std::vector<double>& values) {
        return std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); });
    }

    const RankSeries& ranks_;
    const std::size_t threads_;
    JobTable table_;
    std::vector<const std::vector<RunSeries>*> series_;  // by rank of the table
    Transfers transfers_;
    std::string step_phase_;
    std::unordered_map<std::string, std::size_t> places_;
    std::vector<Counts> counts_;
};

}  // namespace

std::vector<double> StepMatrix::of_step(std::size_t step) const {
    std::vector<double> values;
    for (std::size_t at = step; at < values_.size(); at += steps_) values.push_back(values_[at]);
    return values;
}

std::vector<double> StepMatrix::of_step(std::size_t step, const std::vector<std::size_t>& ranks) const {
    std::vector<double> values;
    values.reserve(ranks.size());
    for (const std::size_t rank : ranks) values.push_back(at(rank, step));
    return values;
}

JobTable make_job_table(const RankSeries& ranks, std::size_t threads, std::size_t max_cells) {
    return Builder(ranks, threads, max_cells).build();
}

}  // namespace cep::analysis
