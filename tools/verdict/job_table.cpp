// SPDX-License-Identifier: Apache-2.0
#include "job_table.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>

#include "parallel.hpp"
#include "rank_steps.hpp"
#include "robust.hpp"

namespace cep::analysis {
namespace {

constexpr double with_start_share = 0.99;

constexpr std::size_t block_spans = 16384;  // so that what is known of a block of steps stays in a core's cache

/// Steps of the table, without the last.
struct StepRange {
    std::uint32_t first;
    std::uint32_t last;
};

/// The spans of one rank of the table.
class RankSpans {
  public:
    RankSpans(const std::vector<RunSeries>& all_series, const std::vector<std::int64_t>& table_steps) {
        for (const RunSeries& series : all_series) {
            places_.push_back(places_of(series.steps, table_steps));
            for (const PhaseSeries& phase : series.phases) add(series, phase);
        }
    }

    [[nodiscard]] const std::vector<RankPhase>& phases() const { return phases_; }
    [[nodiscard]] std::size_t size() const { return size_; }

    /// Appends the spans of some steps, step by step.
    void collect(StepRange range, std::vector<StepSpan>& spans) const {
        std::vector<StepSpan> unordered;
        std::vector<std::uint32_t> next(range.last - range.first + 1);
        for (const Part& part : parts_) collect(part, range, unordered);
        // A counting sort, which keeps the order within a step.
        for (const StepSpan& span : unordered) ++next[span.step - range.first + 1];
        for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
        const std::size_t begin = spans.size();
        spans.resize(begin + unordered.size());
        for (const StepSpan& span : unordered) spans[begin + next[span.step - range.first]++] = span;
    }

  private:
    /// Twice the place of the first step of the table that is not before a step, plus 1 if it is the step.
    using Places = std::vector<std::uint32_t>;

    /// One phase of one series.
    struct Part {
        const PhaseSeries* phase;
        std::uint32_t index;                  // into phases_
        std::size_t series;                   // index of its places
        std::vector<const Sample*> in_order;  // of a phase whose steps went back; else its samples are
    };

    // In both, steps usually ascend.
    static Places places_of(const std::vector<std::int64_t>& steps, const std::vector<std::int64_t>& table_steps) {
        Places places;
        places.reserve(steps.size());
        auto at = table_steps.begin();
        for (const std::int64_t step : steps) {
            if (at == table_steps.end() || *at != step)
                at = std::lower_bound(table_steps.begin(), table_steps.end(), step);
            const bool found = at != table_steps.end() && *at == step;
            places.push_back(2 * static_cast<std::uint32_t>(at - table_steps.begin()) + found);
            if (found) ++at;
        }
        return places;
    }

    void add(const RunSeries& series, const PhaseSeries& phase) {
        const auto known = std::find_if(phases_.begin(), phases_.end(),
                                        [&](const RankPhase& other) { return other.name == phase.name; });
        const auto index = static_cast<std::uint32_t>(known - phases_.begin());
        if (known == phases_.end()) phases_.push_back({phase.name, phase.kind, phase.clock});
        Part part{&phase, index, places_.size() - 1, {}};
        if (phase.may_repeat || !std::is_sorted(series.steps.begin(), series.steps.end())) {
            for (const Sample& sample : phase.samples) part.in_order.push_back(&sample);
            const Places& places = places_.back();
            std::stable_sort(part.in_order.begin(), part.in_order.end(), [&](const Sample* a, const Sample* b) {
                return places[a->step_index] < places[b->step_index];
            });
        }
        size_ += phase.samples.size();
        parts_.push_back(std::move(part));
    }

    void collect(const Part& part, StepRange range, std::vector<StepSpan>& spans) const {
        const Places& places = places_[part.series];
        const auto collect_from = [&](const auto& samples, const auto& sample_of) {
            const auto place_of = [&](const auto& one) { return places[sample_of(one).step_index]; };
            auto at = std::partition_point(samples.begin(), samples.end(),
                                           [&](const auto& one) { return place_of(one) < 2 * range.first; });
            for (; at != samples.end() && place_of(*at) < 2 * range.last; ++at)
                if (place_of(*at) % 2 != 0) spans.push_back({place_of(*at) / 2, part.index, &sample_of(*at)});
        };
        if (part.in_order.empty()) {
            collect_from(part.phase->samples, [](const Sample& sample) -> const Sample& { return sample; });
        } else {
            collect_from(part.in_order, [](const Sample* sample) -> const Sample& { return *sample; });
        }
    }

    std::vector<RankPhase> phases_;
    std::vector<Places> places_;  // by series, then by index of the step there: the step's place in the table
    std::vector<Part> parts_;
    std::size_t size_ = 0;
};

class Builder {
  public:
    Builder(const RankSeries& ranks, std::size_t threads, std::size_t max_cells) : ranks_(ranks), threads_(threads) {
        find_ranks();
        find_step_phase();
        find_steps(max_cells);
    }

    JobTable build() {
        make_matrices();
        find_spans();
        const std::vector<StepRange> blocks = blocks_of_steps();
        std::vector<Totals> totals(blocks.size());
        for_all(blocks.size(), threads_, [&](std::size_t i) { totals[i] = add_block(blocks[i]); });
        spans_.clear();
        complete_partial_steps();
        Totals all;
        for (const Totals& of_block : totals) {
            all.spans += of_block.spans;
            all.with_start += of_block.with_start;
            all.comm_ms += of_block.comm_ms;
            all.matched_ms += of_block.matched_ms;
        }
        table_.has_starts = static_cast<double>(all.with_start) >= with_start_share * static_cast<double>(all.spans);
        table_.has_comm = all.comm_ms > 0;
        table_.matched_comm = all.comm_ms > 0 ? all.matched_ms / all.comm_ms : 0;
        return std::move(table_);
    }

  private:
    /// How many spans of a local phase each rank has in each step.
    using Counts = StepMatrix;

    struct Totals {
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
        const std::vector<std::int64_t>* last = nullptr;  // ranks usually have the same steps
        for (const auto& [rank, all_series] : ranks_)
            for (const RunSeries& series : all_series) {
                const bool known = last != nullptr && *last == series.steps;
                if (!known) std::copy(series.steps.begin(), series.steps.end(), std::inserter(steps, steps.end()));
                last = &series.steps;
            }
        const std::size_t width = std::max<std::size_t>(1, table_.ranks.size());
        std::size_t stride = 1;
        while (steps.size() / stride * width > max_cells) stride *= 2;
        std::size_t i = 0;
        for (const std::int64_t step : steps)
            if (i++ % stride == 0) table_.steps.push_back(step);
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

    void find_spans() {
        spans_.resize(series_.size());
        local_places_.resize(series_.size());
        for_all(series_.size(), threads_, [&](std::size_t rank) {
            spans_[rank].emplace(*series_[rank], table_.steps);
            for (const RankPhase& phase : spans_[rank]->phases()) {
                const auto found = places_.find(std::string(phase.name));
                local_places_[rank].push_back(found == places_.end() ? 0 : found->second);
            }
        });
    }

    [[nodiscard]] std::vector<StepRange> blocks_of_steps() const {
        std::size_t spans = 0;
        for (const auto& of_rank : spans_) spans += of_rank->size();
        const std::size_t steps = table_.steps.size();
        const std::size_t length = std::max<std::size_t>(1, block_spans * steps / std::max<std::size_t>(1, spans));
        std::vector<StepRange> blocks;
        for (std::size_t first = 0; first < steps; first += length)
            blocks.push_back(
                {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(std::min(first + length, steps))});
        return blocks;
    }

    Totals add_block(StepRange range) {
        std::vector<StepSpan> spans;
        std::vector<std::size_t> ends;  // by rank
        for (const auto& of_rank : spans_) {
            of_rank->collect(range, spans);
            ends.push_back(spans.size());
        }
        const Transfers transfers = match_collectives(spans, ends);
        StepAnalyser analyser(step_phase_, transfers);
        Totals totals;
        std::size_t first = 0;
        for (std::size_t rank = 0; rank < ends.size(); ++rank)
            while (first < ends[rank]) {
                std::size_t last = first;
                for (; last < ends[rank] && spans[last].step == spans[first].step; ++last)
                    totals.with_start += spans[last].sample->has_start();
                const RankStep& of_rank = analyser.analyse(&spans[first], spans.data() + last, spans_[rank]->phases());
                add_step(rank, spans[first].step, of_rank, local_places_[rank]);
                totals.spans += last - first;
                totals.comm_ms += of_rank.all_comm_ms;
                totals.matched_ms += of_rank.matched_ms;
                first = last;
            }
        return totals;
    }

    [[nodiscard]] Transfers match_collectives(const std::vector<StepSpan>& spans,
                                              const std::vector<std::size_t>& ends) const {
        Transfers transfers;
        std::size_t i = 0;
        for (std::size_t rank = 0; rank < ends.size(); ++rank)
            for (; i < ends[rank]; ++i) {
                const RankPhase& phase = spans_[rank]->phases()[spans[i].phase];
                if (phase.kind == schema::Kind::comm)
                    transfers.add(collective_key(spans[i].step, phase.name, *spans[i].sample),
                                  spans[i].sample->duration_ms);
            }
        return transfers;
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
            usual_counts.reserve(table_.steps.size());
            for (std::size_t step = 0; step < table_.steps.size(); ++step)
                usual_counts.push_back(complete(table_.local[place], counts_[place], step));
            table_.local[place].usual_spans = median_of(std::move(usual_counts));
        });
    }

    /// Returns the usual count of spans.
    double complete(LocalPhase& phase, const Counts& counts, std::size_t step) {
        const std::vector<double> of_step = counts.of_step(step);
        const double usual = all_equal(of_step) ? of_step.front() : median_of(of_step);
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
    std::vector<const std::vector<RunSeries>*> series_;   // by rank of the table
    std::vector<std::optional<RankSpans>> spans_;         // by rank of the table
    std::vector<std::vector<std::size_t>> local_places_;  // by rank, then by phase of it: index into table_.local
    std::string step_phase_;
    std::unordered_map<std::string, std::size_t> places_;  // by phase: index into table_.local
    std::vector<Counts> counts_;
};

}  // namespace

std::vector<double> StepMatrix::of_step(std::size_t step) const {
    std::vector<double> values;
    if (steps_ > 0) values.reserve(values_.size() / steps_);
    for (std::size_t at = step; at < values_.size(); at += steps_) values.push_back(values_[at]);
    return values;
}

std::vector<double> StepMatrix::of_step(std::size_t step, const std::vector<std::size_t>& ranks) const {
    std::vector<double> values;
    of_step(step, ranks, values);
    return values;
}

void StepMatrix::of_step(std::size_t step, const std::vector<std::size_t>& ranks, std::vector<double>& values) const {
    values.resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) values[i] = at(ranks[i], step);
}

JobTable make_job_table(const RankSeries& ranks, std::size_t threads, std::size_t max_cells) {
    return Builder(ranks, threads, max_cells).build();
}

}  // namespace cep::analysis
