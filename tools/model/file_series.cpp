// SPDX-License-Identifier: Apache-2.0
#include "model/file_series.hpp"

#include "base/hash.hpp"

namespace cep::tool {

// Another file may have made the choice of steps smaller, too.
void FileSeries::spend(const SeriesBuilder& series) {
    const StepChoice before = meter_.choice();
    meter_.spend(series.step_tally());
    if (meter_.choice() == before) return;
    for (auto& [rank, of_rank] : ranks_)
        for (auto& [run, each] : of_rank) each.series().thin(meter_.choice());
}

// A rank that has only rows that were not asked for is there all the same.
void FileSeries::enter_rank(std::int64_t rank) {
    const auto [found, is_new] = states_.try_emplace(rank);
    if (is_new && options_.filter.accepts_rank(rank)) {
        found->second.left_out = !meter_.budget().admit_rank();
        if (found->second.left_out) {
            ++parts_.left_out_ranks;
        } else {
            ranks_[rank];
        }
    }
    last_state_ = &found->second;
    last_rank_ = rank;
}

void FileSeries::enter_run(RankState& state, std::int64_t rank, int run) {
    state.run = run;
    state.attempt = tracker_.attempt_of(rank, run);
    state.series = nullptr;
    using Mode = AttemptChoice::Mode;
    if (options_.attempt.mode == Mode::one && state.attempt != options_.attempt.attempt) return;
    SeriesByRun& of_rank = ranks_[rank];
    if (!of_rank.contains(run) && !meter_.budget().admit_run()) {
        ++parts_.left_out_runs;
        return;
    }
    // Where all attempts count, the collectives of one are none of another.
    const bool is_apart = options_.attempt.mode == Mode::all;
    const std::uint64_t attempt = is_apart ? mix_bits(static_cast<std::uint64_t>(state.attempt)) : 0;
    state.series = &of_rank.try_emplace(run, options_.keeps_messages, attempt).first->second;
    state.series->series().has_run = run != RunTracker::no_run;
}

void FileSeries::take_mark(const Row& row) {
    MarkCount& mark = parts_.marks[std::string(row.name)];
    mark.ranks.insert(*row.rank);
    mark.steps.insert(*row.step);
    ++mark.count;
}

void FileSeries::take_other(const Row& row, std::uint64_t line) {
    settled_ = nullptr;
    if (!row.rank) return;
    const auto [run, is_new, returning, ignored] = tracker_.observe(row);
    if (last_state_ == nullptr || last_rank_ != *row.rank) enter_rank(*row.rank);
    RankState& state = *last_state_;
    if (state.left_out || !options_.filter.accepts(row)) return;
    if (row.type == RowType::run) parts_.coverage.saw_run(*row.run);
    if (state.run != run) enter_run(state, *row.rank, run);
    if (state.series == nullptr) return;
    if (row.type != RowType::run && tracker_.is_settled() && options_.filter.accepts_all()) settled_ = &state;
    switch (row.type) {
        case RowType::span:
            add(*state.series, row);
            [[fallthrough]];
        case RowType::open:
            return open_spans_.take(row, state.attempt, line);
        case RowType::counter:
            return state.series->add_counter(row);
        case RowType::mark:
            if (row.stride != nullptr) return state.series->add_stride_change(*row.stride);
            return take_mark(row);
        case RowType::stats:
            state.series->series().stats = *row.stats;
            state.series->series().has_stats = true;
            return;
        case RowType::run:
            if (!ignored) state.series->series().run = *row.run;
            // Every rank's run row may list all ranks; the coverage has them once.
            state.series->series().run.listed_ranks.reset();
            return;
        case RowType::unknown:
            return;
    }
}

JobParts FileSeries::finish() {
    for (const auto& [rank, of_rank] : ranks_)
        for (const auto& [run, series] : of_rank) spend(series);
    parts_.choice = meter_.choice();
    while (!ranks_.empty()) {  // one by one, so that few series are there twice
        auto of_rank = ranks_.extract(ranks_.begin());
        parts_.coverage.seen.insert(of_rank.key());
        for (auto& [run, series] : of_rank.mapped()) parts_.ranks[of_rank.key()].push_back(series.finish());
    }
    parts_.open_spans = open_spans_.all();
    return std::move(parts_);
}

}  // namespace cep::tool
