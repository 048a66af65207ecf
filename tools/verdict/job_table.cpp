// SPDX-License-Identifier: Apache-2.0
#include "verdict/job_table.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/parallel.hpp"
#include "model/rank_spans.hpp"
#include "stats/robust.hpp"
#include "verdict/rank_steps.hpp"
#include "verdict/table_quantiles.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t least_thinned = 256;  // steps

// What is known of the spans of a tile stays in a core's cache.
constexpr std::size_t tile_spans = 16384;
// Samples that a tile takes from each list that it begins to read.
constexpr std::size_t tile_samples = 16;
// For which collectives are matched at a time: each takes some 30 bytes, and there may be half as many as spans.
constexpr std::size_t wave_spans = std::size_t{1} << 20;

// Each phase has a cell for each rank and step. So many cells are few for any job, see choose_phases().
constexpr std::size_t few_cells = std::size_t{1} << 24;
constexpr std::size_t max_phases = 4096;
constexpr std::string_view folded_name = "other phases";

std::vector<StepRange> split(StepRange steps, std::size_t length) {
    std::vector<StepRange> parts;
    for (std::size_t first = steps.first; first < steps.last; first += length)
        parts.push_back({static_cast<std::uint32_t>(first),
                         static_cast<std::uint32_t>(std::min<std::size_t>(first + length, steps.last))});
    return parts;
}

class Builder {
  public:
    Builder(const RankSeries& ranks, StepChoice choice, std::size_t threads, std::size_t max_cells)
        : ranks_(ranks), threads_(threads) {
        find_ranks();
        find_step_phase();
        find_steps(choice);
        thin_steps(max_cells);
    }

    JobTable build() {
        make_matrices();
        find_spans();
        Totals all;
        for (const StepRange wave : split({0, static_cast<std::uint32_t>(table_.steps.size())}, steps_of(wave_spans)))
            add_wave(wave, all);
        spans_ = {};
        complete_partial_steps();
        table_.median_step_ms = quantiles_over_ranks(table_.step_ms, 0.5);
        table_.has_comm = all.comm_ms > 0;
        table_.matched_comm = all.comm_ms > 0 ? all.matched_ms / all.comm_ms : 0;
        return std::move(table_);
    }

  private:
    /// By phase of a rank: index into table_.local.
    using LocalPlaces = std::shared_ptr<const std::vector<std::size_t>>;
    /// How many spans of a local phase each rank has in each step.
    using Counts = StepMatrix;

    struct Totals {
        double comm_ms = 0;
        double matched_ms = 0;

        void add(const Totals& other) {
            comm_ms += other.comm_ms;
            matched_ms += other.matched_ms;
        }
    };

    /// All that is done at a time: some steps of some ranks.
    struct Tile {
        StepRange steps;
        std::size_t first_rank;
        std::size_t last_rank;  // behind the last
        const Transfers* transfers;
    };

    void find_ranks() {
        for (const auto& [rank, all_series] : ranks_) {
            if (all_series.empty()) continue;
            series_.push_back(&all_series);
            table_.ranks.push_back(role_of(rank, all_series));
            for (const RunSeries& series : all_series) {
                part_count_ += series.phases.size();
                for (const PhaseSeries& phase : series.phases) span_count_ += phase.samples.size();
            }
        }
    }

    void find_step_phase() {
        const StepPhase step = tool::find_step_phase(all_series(ranks_));
        if (step.total_ms > 0) step_phase_ = step.name;
        table_.has_step_spans = step.total_ms > 0;
    }

    void find_steps(StepChoice choice) {
        std::vector<std::int64_t> steps = all_steps(ranks_);
        table_.all_steps = steps.size();
        erase_uneven(steps);
        if (!choice.keeps_all()) std::erase_if(steps, [choice](std::int64_t step) { return !choice.keeps(step); });
        table_.steps = std::move(steps);
    }

    void erase_uneven(std::vector<std::int64_t>& steps) const {
        const std::vector<bool> is_uneven = find_uneven_steps(ranks_, steps);
        if (is_uneven.empty()) return;
        std::size_t place = 0;
        std::erase_if(steps, [&](std::int64_t) { return is_uneven[place++]; });
    }

    void thin_steps(std::size_t max_cells) {
        const std::size_t ranks = std::max<std::size_t>(1, table_.ranks.size());
        // More cells than there are spans to fill them would be empty.
        const std::size_t least = std::min(least_thinned, span_count_ / ranks);
        const std::size_t kept = std::max({std::size_t{1}, max_cells / ranks, least});
        leave_some(table_.steps, kept, [](std::int64_t step) { return step; });
    }

    [[nodiscard]] StepMatrix new_matrix() const { return {table_.ranks.size(), table_.steps.size()}; }

    void make_matrices() {
        for (StepMatrix* matrix :
             {&table_.uncovered_ms, &table_.step_ms, &table_.comm_ms, &table_.wait_ms, &table_.group_wait_ms,
              &table_.exposed_ms, &table_.overlap_ms, &table_.compute_ms, &table_.data_ms, &table_.idle_ms})
            *matrix = new_matrix();
        make_phases();
    }

    void make_phases() {
        const std::vector<const PhaseSeries*> phases = find_local_phases();
        const std::vector<bool> is_kept = choose_phases(phases);
        for (std::size_t i = 0; i < phases.size(); ++i)
            if (is_kept[i]) places_.try_emplace(phases[i]->name, add_phase(phases[i]->name, phases[i]->kind));
        for (std::size_t i = 0; i < phases.size(); ++i) {
            if (is_kept[i]) continue;
            if (table_.folded_phases++ == 0) folded_place_ = add_phase(std::string(folded_name), schema::Kind::other);
            places_.try_emplace(phases[i]->name, folded_place_);
        }
    }

    std::size_t add_phase(std::string name, schema::Kind kind) {
        table_.local.push_back({std::move(name), kind, new_matrix(), new_matrix(), 0,
                                std::vector<std::uint8_t>(table_.ranks.size() * table_.steps.size())});
        counts_.push_back(new_matrix());
        return counts_.size() - 1;
    }

    /// In the order in which they were seen first.
    [[nodiscard]] std::vector<const PhaseSeries*> find_local_phases() const {
        std::vector<const PhaseSeries*> phases;  // of each the first
        std::unordered_set<std::string_view> known;
        for (const auto* all_series : series_)
            for (const RunSeries& series : *all_series)
                for (const PhaseSeries& phase : series.phases)
                    if (phase.kind != schema::Kind::comm && phase.kind != schema::Kind::step &&
                        known.insert(phase.name).second)
                        phases.push_back(&phase);
        return phases;
    }

    /// All, unless they would need far more cells than there are spans: then those that take the most time.
    [[nodiscard]] std::vector<bool> choose_phases(const std::vector<const PhaseSeries*>& phases) const {
        const std::size_t cells = std::max<std::size_t>(1, table_.ranks.size() * table_.steps.size());
        const std::size_t kept = std::clamp<std::size_t>(std::max(few_cells, 4 * span_count_) / cells, 1, max_phases);
        std::vector<bool> is_kept(phases.size(), phases.size() <= kept);
        if (phases.size() <= kept) return is_kept;
        std::unordered_map<std::string_view, std::size_t> places;
        for (std::size_t i = 0; i < phases.size(); ++i) places.try_emplace(phases[i]->name, i);
        std::vector<double> totals_ms(phases.size());
        for (const auto* all_series : series_)
            for (const RunSeries& series : *all_series)
                for (const PhaseSeries& phase : series.phases)
                    if (const auto found = places.find(phase.name); found != places.end())
                        totals_ms[found->second] += totals_of(phase).sum_ms;
        std::vector<std::size_t> by_time(phases.size());
        std::iota(by_time.begin(), by_time.end(), std::size_t{0});
        std::stable_sort(by_time.begin(), by_time.end(),
                         [&](std::size_t a, std::size_t b) { return totals_ms[a] > totals_ms[b]; });
        for (std::size_t i = 0; i < kept; ++i) is_kept[by_time[i]] = true;
        return is_kept;
    }

    void find_spans() {
        spans_.reserve(series_.size());
        for (const auto* all_series : series_) {
            const RankSpans* before = spans_.empty() ? nullptr : &spans_.back();
            const RankSpans& spans = spans_.emplace_back(*all_series, table_.steps, before);
            const bool same = spans_.size() > 1 && spans.shares_phases_with(spans_[spans_.size() - 2]);
            local_places_.push_back(same ? local_places_.back() : places_of(spans.phases()));
        }
    }

    [[nodiscard]] LocalPlaces places_of(const std::vector<RankPhase>& phases) const {
        auto places = std::make_shared<std::vector<std::size_t>>();
        for (const RankPhase& phase : phases) {
            const auto found = places_.find(phase.name);
            places->push_back(found == places_.end() ? 0 : found->second);
        }
        return places;
    }

    /// How many steps of all ranks have so many spans; at least one.
    [[nodiscard]] std::size_t steps_of(std::size_t spans) const {
        return std::max<std::size_t>(1, spans * table_.steps.size() / std::max<std::size_t>(1, span_count_));
    }

    // Waiting in a collective is known once all ranks' spans of the step were seen. Tiles go from wave to wave, however
    // many threads there are, so that sums are the same.
    void add_wave(StepRange wave, Totals& all) {
        const std::vector<StepRange> blocks =
            split(wave, std::max(steps_of(tile_spans), steps_of(tile_samples * part_count_)));
        std::vector<Transfers> transfers(blocks.size());
        for_all(blocks.size(), threads_, [&](std::size_t i) { match_collectives(blocks[i], transfers[i]); });
        std::vector<Tile> tiles;
        for (std::size_t i = 0; i < blocks.size(); ++i) add_tiles(blocks[i], transfers[i], tiles);
        std::vector<Totals> totals(tiles.size());
        for_all(tiles.size(), threads_, [&](std::size_t i) { totals[i] = add_tile(tiles[i]); });
        for (const Totals& of_tile : totals) all.add(of_tile);
    }

    void match_collectives(StepRange steps, Transfers& transfers) const {
        std::vector<Transfers::Guess> guesses;  // by phase
        for (const RankSpans& spans : spans_) {
            if (guesses.size() < spans.phases().size()) guesses.resize(spans.phases().size());
            spans.for_each_part(schema::Kind::comm, steps.first, [&](std::uint32_t phase, PartWalk walk) {
                for (; walk.place() < 2 * steps.last; walk.advance())
                    if (walk.place() % 2 != 0)
                        transfers.add(collective_key(walk.place() / 2, spans.phases()[phase], walk.sample()),
                                      walk.sample().duration_ms, guesses[phase]);
            });
        }
    }

    void add_tiles(StepRange steps, const Transfers& transfers, std::vector<Tile>& tiles) const {
        const std::size_t of_a_step = std::max<std::size_t>(1, span_count_ / table_.steps.size());
        const std::size_t ranks = std::max<std::size_t>(1, tile_spans * spans_.size() / (of_a_step * steps.length()));
        for (std::size_t first = 0; first < spans_.size(); first += ranks)
            tiles.push_back({steps, first, std::min(first + ranks, spans_.size()), &transfers});
    }

    Totals add_tile(const Tile& tile) {
        StepWalk walk(tile.steps);
        StepAnalyser analyser(step_phase_, *tile.transfers);
        Totals totals;
        for (std::size_t rank = tile.first_rank; rank < tile.last_rank; ++rank) {
            walk.start(spans_[rank]);
            std::int64_t step_before = 0;
            std::int64_t end_before_ns = 0;  // 0: not known
            for (std::span<const StepSpan> spans = walk.next(); !spans.empty(); spans = walk.next()) {
                const RankStep& of_rank = analyser.analyse(spans, spans_[rank].phases());
                const std::size_t cell = rank * table_.steps.size() + spans.front().step;
                const std::int64_t step = table_.steps[spans.front().step];
                add_step(cell, of_rank, *local_places_[rank]);
                const bool follows = end_before_ns != 0 && step == step_before + 1;
                const std::int64_t gap_ns = follows ? of_rank.extent.begin_ns - end_before_ns : 0;
                if (gap_ns > 0) table_.uncovered_ms.add_to_cell(cell, static_cast<double>(gap_ns) * 1e-6);
                step_before = step;
                end_before_ns = of_rank.extent.end_ns;
                totals.comm_ms += of_rank.all_comm_ms;
                totals.matched_ms += of_rank.matched_ms;
            }
        }
        return totals;
    }

    void add_step(std::size_t cell, const RankStep& of_rank, const std::vector<std::size_t>& places) {
        for (const LocalTime& time : of_rank.local) {
            const std::size_t place = places[time.phase];
            if (place == folded_place_) {
                add_folded(cell, time);
                continue;
            }
            table_.local[place].own_ms.set_cell(cell, time.own_ms);
            table_.local[place].duration_ms.set_cell(cell, time.duration_ms);
            table_.local[place].is_host_late[cell] = time.is_host_late;
            counts_[place].set_cell(cell, time.spans);
        }
        table_.step_ms.set_cell(cell, of_rank.step_ms);
        table_.comm_ms.set_cell(cell, of_rank.comm_ms);
        table_.wait_ms.set_cell(cell, of_rank.wait_ms);
        table_.group_wait_ms.set_cell(cell, of_rank.group_wait_ms);
        table_.exposed_ms.set_cell(cell, of_rank.exposed_ms);
        table_.overlap_ms.set_cell(cell, of_rank.overlap_ms);
        table_.compute_ms.set_cell(cell, of_rank.compute_ms);
        table_.data_ms.set_cell(cell, of_rank.data_ms);
        table_.idle_ms.set_cell(cell, of_rank.idle_ms);
        table_.uncovered_ms.set_cell(cell, of_rank.uncovered_ms);
    }

    // Several phases share these cells.
    void add_folded(std::size_t cell, const LocalTime& time) {
        LocalPhase& folded = table_.local[folded_place_];
        folded.own_ms.add_to_cell(cell, time.own_ms);
        folded.duration_ms.add_to_cell(cell, time.duration_ms);
        counts_[folded_place_].add_to_cell(cell, time.spans);
    }

    // A rank that lost one of four micro-batches' rows did not work less: it has the mean of those that are there for
    // it.
    void complete_partial_steps() {
        for_all(counts_.size(), threads_, [&](std::size_t place) {
            const Counts counts = std::move(counts_[place]);
            std::vector<double> usual = quantiles_over_ranks(counts, 0.5);
            for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank)
                for (std::size_t step = 0; step < usual.size(); ++step)
                    if (const double count = counts.at(rank, step); count < usual[step])
                        complete(table_.local[place], rank, step, usual[step], count);
            table_.local[place].usual_spans = median_of(std::move(usual));
            std::vector<std::uint8_t>& is_late = table_.local[place].is_host_late;
            if (std::find(is_late.begin(), is_late.end(), 1) == is_late.end()) is_late = {};
        });
    }

    static void complete(LocalPhase& phase, std::size_t rank, std::size_t step, double usual, double count) {
        for (StepMatrix* ms : {&phase.own_ms, &phase.duration_ms})
            ms->set(rank, step, ms->at(rank, step) * usual / count);
    }

    const RankSeries& ranks_;
    const std::size_t threads_;
    JobTable table_;
    std::vector<const std::vector<RunSeries>*> series_;  // by rank of the table
    std::vector<RankSpans> spans_;                       // by rank of the table
    std::vector<LocalPlaces> local_places_;              // by rank of the table
    std::size_t span_count_ = 0;
    std::size_t part_count_ = 0;  // phases of series
    std::string step_phase_;
    std::unordered_map<std::string_view, std::size_t> places_;            // by phase: index into table_.local
    std::size_t folded_place_ = std::numeric_limits<std::size_t>::max();  // of the phases that were not kept
    std::vector<Counts> counts_;
};

}  // namespace

JobTable make_job_table(const RankSeries& ranks, StepChoice choice, std::size_t threads, std::size_t max_cells) {
    return Builder(ranks, choice, threads, max_cells).build();
}

}  // namespace cep::tool
