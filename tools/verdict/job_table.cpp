// SPDX-License-Identifier: Apache-2.0
#include "job_table.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "rank_steps.hpp"
#include "robust.hpp"

namespace cep::analysis {
namespace {

constexpr double with_start_share = 0.99;

/// The spans of one rank of the table, by step.
class RankSpans {
  public:
    RankSpans(const std::vector<RunSeries>& all_series, const std::vector<std::int64_t>& table_steps) {
        for (const RunSeries& series : all_series) {
            std::vector<std::uint32_t> places;
            for (const std::int64_t step : series.steps) places.push_back(place_of(step, table_steps));
            for (const PhaseSeries& phase : series.phases) add(phase, places);
        }
        std::stable_sort(spans_.begin(), spans_.end(),
                         [](const StepSpan& a, const StepSpan& b) { return a.step < b.step; });
    }

    [[nodiscard]] const std::vector<RankPhase>& phases() const { return phases_; }

    template <typename Take>
    void for_each_step(Take take) const {
        std::vector<StepSpan> of_step;
        for (std::size_t i = 0; i < spans_.size(); ++i) {
            of_step.push_back(spans_[i]);
            if (i + 1 < spans_.size() && spans_[i + 1].step == spans_[i].step) continue;
            take(spans_[i].step, of_step);
            of_step.clear();
        }
    }

    [[nodiscard]] const std::vector<StepSpan>& all() const { return spans_; }

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

    std::vector<RankPhase> phases_;
    std::vector<StepSpan> spans_;
};

class Builder {
  public:
    Builder(const RankSeries& ranks, std::size_t max_cells) : ranks_(ranks) {
        find_ranks();
        find_step_phase();
        find_steps(max_cells);
    }

    JobTable build() {
        match_collectives();
        make_matrices();
        std::size_t rank = 0;
        for (const auto& [number, all_series] : ranks_)
            if (!all_series.empty()) add_rank(rank++, all_series);
        complete_partial_steps();
        table_.has_starts = static_cast<double>(with_start_) >= with_start_share * static_cast<double>(all_spans_);
        table_.has_comm = comm_total_ms_ > 0;
        table_.matched_comm = comm_total_ms_ > 0 ? matched_ms_ / comm_total_ms_ : 0;
        return std::move(table_);
    }

  private:
    /// How many spans of a local phase each rank has in each step.
    using Counts = StepMatrix;

    void find_ranks() {
        for (const auto& [rank, all_series] : ranks_) {
            if (all_series.empty()) continue;
            const RunInfo& run = all_series.back().run;
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
        for (const auto& [rank, all_series] : ranks_) {
            const RankSpans spans(all_series, table_.steps);
            for (const StepSpan& span : spans.all()) {
                const RankPhase& phase = spans.phases()[span.phase];
                if (phase.kind == schema::Kind::comm)
                    transfers_.add(collective_key(span.step, phase.name, *span.sample), span.sample->duration_ms);
            }
        }
        transfers_.finish();
    }

    [[nodiscard]] StepMatrix new_matrix() const { return {table_.ranks.size(), table_.steps.size()}; }

    void make_matrices() {
        for (StepMatrix* matrix :
             {&table_.step_ms, &table_.comm_ms, &table_.wait_ms, &table_.group_wait_ms, &table_.exposed_ms,
              &table_.overlap_ms, &table_.compute_ms, &table_.data_ms, &table_.idle_ms})
            *matrix = new_matrix();
    }

    std::size_t place_of_phase(const RankPhase& phase) {
        const auto [found, is_new] = places_.try_emplace(std::string(phase.name), table_.local.size());
        if (is_new) {
            table_.local.push_back({std::string(phase.name), phase.kind, new_matrix(), new_matrix(), 0});
            counts_.push_back(new_matrix());
        }
        return found->second;
    }

    void add_rank(std::size_t rank, const std::vector<RunSeries>& all_series) {
        const RankSpans spans(all_series, table_.steps);
        all_spans_ += spans.all().size();
        for (const StepSpan& span : spans.all()) with_start_ += span.sample->has_start();
        spans.for_each_step([&](std::size_t step, const std::vector<StepSpan>& of_step) {
            add_step(rank, step, analyse_step(of_step, spans.phases(), step_phase_, transfers_), spans.phases());
        });
    }

    void add_step(std::size_t rank, std::size_t step, const RankStep& of_rank, const std::vector<RankPhase>& phases) {
        for (const LocalTime& time : of_rank.local) {
            const std::size_t place = place_of_phase(phases[time.phase]);
            table_.local[place].own_ms.set(rank, step, time.own_ms);
            table_.local[place].duration_ms.set(rank, step, time.duration_ms);
            counts_[place].set(rank, step, time.spans);
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
        comm_total_ms_ += of_rank.all_comm_ms;
        matched_ms_ += of_rank.matched_ms;
    }

    // A rank that lost one of four micro-batches' rows did not work less: it has the mean of those that are there for
    // it.
    void complete_partial_steps() {
        for (std::size_t place = 0; place < counts_.size(); ++place) {
            std::vector<double> usual_counts;
            for (std::size_t step = 0; step < table_.steps.size(); ++step) {
                const double usual = median_of(counts_[place].of_step(step));
                usual_counts.push_back(usual);
                for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank) {
                    const double count = counts_[place].at(rank, step);
                    if (is_missing(count) || count >= usual) continue;
                    for (StepMatrix* ms : {&table_.local[place].own_ms, &table_.local[place].duration_ms})
                        ms->set(rank, step, ms->at(rank, step) * usual / count);
                }
            }
            table_.local[place].usual_spans = median_of(std::move(usual_counts));
        }
    }

    const RankSeries& ranks_;
    JobTable table_;
    Transfers transfers_;
    std::string step_phase_;
    std::unordered_map<std::string, std::size_t> places_;
    std::vector<Counts> counts_;
    double comm_total_ms_ = 0;
    double matched_ms_ = 0;
    std::size_t all_spans_ = 0;
    std::size_t with_start_ = 0;
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

JobTable make_job_table(const RankSeries& ranks, std::size_t max_cells) {
    return Builder(ranks, max_cells).build();
}

}  // namespace cep::analysis
