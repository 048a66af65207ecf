// SPDX-License-Identifier: Apache-2.0
#include "ledger/job_table.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/parallel.hpp"
#include "ledger/ledger_collector.hpp"
#include "ledger/step_reading.hpp"
#include "ledger/step_segments.hpp"
#include "ledger/table_quantiles.hpp"
#include "model/job_spans.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t least_thinned = 256;  // steps

// So many tiles of ranks are enough for any machine.
constexpr std::size_t rank_tiles = 16;

// Each phase has a cell for each rank and step. So many cells are few for any job, see choose_phases().
constexpr std::size_t few_cells = std::size_t{1} << 22;
constexpr std::size_t max_phases = 4096;
constexpr std::string_view folded_name = "other phases";

class Builder {
  public:
    Builder(const Job& job, const TimeOptions& options)
        : job_(job),
          threads_(options.threads),
          builder_options_(options),
          all_series_(all_series(job.ranks)),
          spans_(job),
          reading_(read_steps(job, spans_)) {
        find_ranks();
        find_steps();
        table_.has_step_spans = !reading_.step_phase.empty() && reading_.encloses;
    }

    JobTime build() {
        make_matrices();
        find_uses();
        find_launches();
        add_ranks();
        spans_.of_rank = {};
        Ledger ledger = collector_->finish(table_.ranks, builder_options_.peak_flops);
        ledger.other_reading_ms = reading_.other_ms;
        table_.has_comm = ledger.comm_ms > 0;
        complete_partial_steps();
        add_own_work(ledger);
        table_.median_step_ms = quantiles_over_ranks(table_.step_ms, 0.5);
        return {std::move(table_), std::move(ledger)};
    }

  private:
    /// What the phases of a rank are for the table and the ledger. Ranks usually have the same.
    using PhaseUses = std::vector<PhaseUse>;
    /// How many spans of a local phase each rank has in each step.
    using Counts = StepMatrix;

    void find_ranks() {
        for (const auto& [rank, all_series] : job_.ranks) {
            series_.push_back(&all_series);
            table_.ranks.push_back(role_of(rank, all_series));
        }
        for (const SeriesOfRank& of : all_series_)
            for (const PhaseSeries& phase : of.series->phases) span_count_ += phase.samples.size();
    }

    void find_steps() {
        table_.all_steps = job_.steps.count;
        for (const std::uint32_t step : spans_.common) table_.steps.push_back(spans_.steps[step]);
        thin_steps();
        in_table_ = indices_in(spans_.steps, table_.steps);
        collector_.emplace(job_, spans_.steps, series_.size());
    }

    void thin_steps() {
        const std::size_t ranks = std::max<std::size_t>(1, table_.ranks.size());
        // More cells than there are spans to fill them would be empty.
        const std::size_t least = std::min(least_thinned, span_count_ / ranks);
        const std::size_t kept = std::max({std::size_t{1}, builder_options_.max_cells / ranks, least});
        leave_some(table_.steps, kept, [](std::int64_t step) { return step; });
    }

    void make_matrices() {
        make_phases();
        std::vector<StepMatrix*> all = {&table_.uncovered_ms, &table_.step_ms,      &table_.comm_ms,
                                        &table_.wait_ms,      &table_.avoidable_ms, &table_.exposed_ms};
        for (LocalPhase& phase : table_.local) all.push_back(&phase.own_ms);
        counts_.resize(table_.local.size());
        for (Counts& counts : counts_) all.push_back(&counts);
        for_all(all.size(), threads_,
                [&](std::size_t i) { *all[i] = StepMatrix(table_.ranks.size(), table_.steps.size()); });
    }

    void make_phases() {
        const std::vector<const PhaseSeries*> phases = find_local_phases();
        const std::vector<bool> is_kept = choose_phases(phases);
        std::vector<std::size_t> in_table(phases.size());
        for (std::size_t i = 0; i < phases.size(); ++i)
            if (is_kept[i]) in_table[i] = add_phase(phases[i]->name, phases[i]->kind);
        for (std::size_t i = 0; i < phases.size(); ++i) {
            if (is_kept[i]) continue;
            if (table_.folded_phases++ == 0) folded_index_ = add_phase(std::string(folded_name), schema::Kind::other);
            in_table[i] = folded_index_;
        }
        for (auto& [name, local_index] : local_indices_) local_index = in_table[local_index];
    }

    std::size_t add_phase(std::string name, schema::Kind kind) {
        table_.local.push_back(
            {std::move(name), kind, {}, 0, std::vector<std::uint8_t>(table_.ranks.size() * table_.steps.size())});
        return table_.local.size() - 1;
    }

    /// Of each its first series, in the order in which they were seen first; local_indices_ says where each is.
    [[nodiscard]] std::vector<const PhaseSeries*> find_local_phases() {
        std::vector<const PhaseSeries*> phases;
        for (const SeriesOfRank& of : all_series_)
            for (const PhaseSeries& phase : of.series->phases)
                if (phase.kind != schema::Kind::comm && (phase.kind != schema::Kind::step || !reading_.encloses) &&
                    local_indices_.try_emplace(phase.name, phases.size()).second)
                    phases.push_back(&phase);
        return phases;
    }

    /// All, unless they would need far more cells than there are spans: then those that take the most time.
    [[nodiscard]] std::vector<bool> choose_phases(const std::vector<const PhaseSeries*>& phases) const {
        const std::size_t cells = std::max<std::size_t>(1, table_.ranks.size() * table_.steps.size());
        const std::size_t kept = std::clamp<std::size_t>(std::max(few_cells, 4 * span_count_) / cells, 1, max_phases);
        std::vector<bool> is_kept(phases.size(), phases.size() <= kept);
        if (phases.size() <= kept) return is_kept;
        std::vector<double> totals_ms(phases.size());
        for (const SeriesOfRank& of : all_series_)
            for (const PhaseSeries& phase : of.series->phases)
                if (const auto found = local_indices_.find(phase.name); found != local_indices_.end())
                    totals_ms[found->second] += totals_of(phase).sum_ms;
        std::vector<std::size_t> by_time(phases.size());
        std::iota(by_time.begin(), by_time.end(), std::size_t{0});
        std::stable_sort(by_time.begin(), by_time.end(),
                         [&](std::size_t a, std::size_t b) { return totals_ms[a] > totals_ms[b]; });
        for (std::size_t i = 0; i < kept; ++i) is_kept[by_time[i]] = true;
        return is_kept;
    }

    void find_uses() {
        for (const RankSpans& spans : spans_.of_rank) {
            const bool same = !uses_.empty() && spans.shares_phases_with(spans_.of_rank[uses_.size() - 1]);
            uses_.push_back(same ? uses_.back() : uses_of(spans.phases()));
        }
    }

    void find_launches() {
        LaunchCollector launches;
        SegmentBuilder builder(reading_, job_.collectives, &launches);
        for_some_steps(spans_.of_rank, spans_.steps.size(), [&](std::size_t rank, auto spans, const auto& phases) {
            launches.enter_rank(rank);
            builder.build(spans, phases, *uses_[rank]);
        });
        launches_ = launches.find();
        for (const std::shared_ptr<PhaseUses>& uses : uses_)
            for (PhaseUse& use : *uses)
                if (const auto found = launches_.find(use.number); found != launches_.end())
                    use.launches = &found->second;
    }

    [[nodiscard]] std::shared_ptr<PhaseUses> uses_of(const std::vector<RankPhase>& phases) {
        auto uses = std::make_shared<PhaseUses>();
        for (const RankPhase& phase : phases) {
            const bool is_pair = phase.kind == schema::Kind::comm && is_between_two(phase.name);
            PhaseUse& use = uses->emplace_back(is_pair ? PhaseUse{TimeKind::bubble, transfer_ms_of(phase.name)}
                                                       : PhaseUse{piece_of(phase.name, phase.kind)});
            use.number = collector_->index_of(phase, use.piece);
            if (const auto found = local_indices_.find(phase.name); found != local_indices_.end())
                use.local_index = found->second;
        }
        return uses;
    }

    // A pipeline's neighbour that comes last waits for nobody.
    double transfer_ms_of(std::string_view pair) {
        constexpr double transfer_quantile = 0.1;
        constexpr std::size_t most_samples = 1 << 16;
        const auto [known, is_new] = transfers_ms_.try_emplace(pair, 0);
        if (!is_new) return known->second;
        std::vector<double> durations_ms;
        std::size_t seen = 0;
        for (const SeriesOfRank& of : all_series_)
            for (const PhaseSeries& phase : of.series->phases) {
                if (phase.name != pair) continue;
                for (const Sample sample : phase.samples) {
                    if (++seen > most_samples) break;
                    if (sample.collective == 0) durations_ms.push_back(sample.duration_ms);
                }
            }
        if (!durations_ms.empty()) known->second = quantile_of(durations_ms, transfer_quantile);
        return known->second;
    }

    // A rank goes through the steps in their order, as an iteration ends where the next one begins.
    void add_ranks() {
        const std::size_t ranks = std::max<std::size_t>(1, (series_.size() + rank_tiles - 1) / rank_tiles);
        for_all((series_.size() + ranks - 1) / ranks, threads_,
                [&](std::size_t tile) { add_ranks(tile * ranks, std::min((tile + 1) * ranks, series_.size())); });
    }

    void add_ranks(std::size_t first, std::size_t behind_last) {
        SegmentBuilder builder(reading_, job_.collectives);
        PieceCutter cutter;
        StepWalk walk(spans_.steps.size());
        for (std::size_t rank = first; rank < behind_last; ++rank) {
            const PhaseUses& uses = *uses_[rank];
            RankCollector of_ledger(*collector_, rank, *series_[rank], uses, cutter,
                                    [this, rank](std::uint32_t step, const SeenTime& seen) {
                                        if (in_table_[step] != nowhere)
                                            add_seen(rank * table_.steps.size() + in_table_[step], seen, *uses_[rank]);
                                    });
            walk.start(spans_.of_rank[rank]);
            std::optional<std::int64_t> before;
            for (std::span<const StepSpan> spans = walk.next(); !spans.empty(); spans = walk.next()) {
                const std::int64_t number = spans_.steps[spans.front().step];
                const bool follows = before && *before == number - 1;
                before = number;
                const StepSegments& of_rank = builder.build(spans, spans_.of_rank[rank].phases(), uses, follows);
                if (const std::uint32_t step = in_table_[spans.front().step]; step != nowhere)
                    add_step(rank * table_.steps.size() + step, of_rank, uses);
                of_ledger.add_step(of_rank);
            }
            of_ledger.finish();
        }
    }

    void add_seen(std::size_t cell, const SeenTime& seen, const PhaseUses& uses) {
        table_.exposed_ms.set_cell(cell, seen.comm_ms);
        table_.wait_ms.set_cell(cell, seen.wait_ms);
        table_.avoidable_ms.set_cell(cell, seen.avoidable_ms);
        table_.uncovered_ms.set_cell(cell, seen.uncovered_ms);
        for (const std::uint32_t phase : seen.launch_bound)
            if (const std::size_t local_index = uses[phase].local_index; local_index != folded_index_)
                table_.local[local_index].is_launch_bound[cell] = 1;
    }

    void add_step(std::size_t cell, const StepSegments& of_rank, const PhaseUses& uses) {
        for (const LocalTime& time : of_rank.local) {
            if (time.spans == 0) continue;
            const std::size_t local_index = uses[time.phase].local_index;
            const double all = time.all_spans();
            const double own_ms = time.own_ms * all / time.spans;
            if (local_index == folded_index_) {  // several phases share these cells
                table_.local[local_index].own_ms.add_to_cell(cell, own_ms);
                counts_[local_index].add_to_cell(cell, all);
                continue;
            }
            table_.local[local_index].own_ms.set_cell(cell, own_ms);
            counts_[local_index].set_cell(cell, all);
        }
        table_.step_ms.set_cell(cell, of_rank.step_ms);
        table_.comm_ms.set_cell(cell, of_rank.comm_ms);
    }

    // A rank that lost one of four micro-batches' rows did not work less: it has the mean of those that are there for
    // it.
    void complete_partial_steps() {
        for_all(counts_.size(), threads_, [&](std::size_t local_index) {
            const Counts counts = std::move(counts_[local_index]);
            LocalPhase& phase = table_.local[local_index];
            if (counts.is_uniform()) {
                phase.usual_spans = counts.at(0, 0);
            } else {
                complete(counts, phase);
            }
            std::vector<std::uint8_t>& is_bound = phase.is_launch_bound;
            if (std::find(is_bound.begin(), is_bound.end(), 1) == is_bound.end()) is_bound = {};
        });
    }

    void add_own_work(Ledger& ledger) const {
        for_all(ledger.phases.size(), threads_, [&](std::size_t i) {
            PhaseLedger& phase = ledger.phases[i];
            const auto found = local_indices_.find(phase.name);
            if (found == local_indices_.end() || found->second == folded_index_) return;
            const StepMatrix& own_ms = table_.local[found->second].own_ms;
            for (std::size_t rank = 0; rank < own_ms.ranks(); ++rank) {
                const std::span<const float> of_rank = own_ms.of_rank(rank);
                phase.own_ms.push_back(
                    static_cast<float>(mean_of(std::vector<double>(of_rank.begin(), of_rank.end()))));
            }
        });
    }

    static void complete(const Counts& counts, LocalPhase& phase) {
        const std::vector<double> usual = quantiles_over_ranks(counts, 0.5);
        for (std::size_t rank = 0; rank < counts.ranks(); ++rank)
            for (std::size_t step = 0; step < usual.size(); ++step)
                if (const double count = counts.at(rank, step); count < usual[step])
                    phase.own_ms.set(rank, step, phase.own_ms.at(rank, step) * usual[step] / count);
        phase.usual_spans = median_of(usual);
    }

    const Job& job_;
    const std::size_t threads_;
    const TimeOptions& builder_options_;
    const std::vector<SeriesOfRank> all_series_;
    JobSpans spans_;
    StepReading reading_;
    JobTable table_;
    std::vector<std::uint32_t> in_table_;  // by step: its index in the table, or nowhere
    std::optional<LedgerCollector> collector_;
    std::vector<const std::vector<RunSeries>*> series_;          // by rank of the table
    std::vector<std::shared_ptr<PhaseUses>> uses_;               // by rank of the table
    std::map<std::uint32_t, LaunchFacts> launches_;              // by number of the phase
    std::unordered_map<std::string_view, double> transfers_ms_;  // by phase: of spans that no other rank's belong to
    std::size_t span_count_ = 0;
    std::unordered_map<std::string_view, std::size_t> local_indices_;     // by phase: index into table_.local
    std::size_t folded_index_ = std::numeric_limits<std::size_t>::max();  // of the phases that were not kept
    std::vector<Counts> counts_;
};

}  // namespace

JobTime find_job_time(const Job& job, const TimeOptions& options) {
    return Builder(job, options).build();
}

bool is_next_recorded(const std::vector<std::int64_t>& steps, std::size_t step) {
    return step + 1 < steps.size() && steps[step + 1] == steps[step] + 1;
}

}  // namespace cep::tool
