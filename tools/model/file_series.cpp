// SPDX-License-Identifier: Apache-2.0
#include "model/file_series.hpp"

#include "base/hash.hpp"

namespace cep::tool {

// Another file may have made the choice of steps smaller, too.
void FileSeries::spend(const RunSeries& series) {
    const StepChoice before = meter_.choice();
    meter_.spend(series.step_tally());
    if (meter_.choice() == before) return;
    for (auto& [rank, of_rank] : ranks_)
        for (auto& [run, each] : of_rank) each.thin(meter_.choice());
}

// A rank that has only rows that were not asked for is there all the same.
void FileSeries::enter_rank(std::int64_t rank) {
    const auto [found, is_new] = places_.try_emplace(rank);
    if (is_new && scope_.filter.accepts_rank(rank)) {
        found->second.left_out = !meter_.budget().admit_rank();
        if (found->second.left_out) {
            ++parts_.left_out_ranks;
        } else {
            ranks_[rank];
        }
    }
    last_place_ = &found->second;
    last_rank_ = rank;
}

void FileSeries::enter_run(RankPlace& place, std::int64_t rank, int run) {
    place.run = run;
    place.attempt = tracker_.attempt_of(rank, run);
    place.series = nullptr;
    if (scope_.attempt && place.attempt != *scope_.attempt) return;
    SeriesByRun& of_rank = ranks_[rank];
    if (!of_rank.contains(run) && !meter_.budget().admit_run()) {
        ++parts_.left_out_runs;
        return;
    }
    place.series = &of_rank[run];
    place.series->has_run = run != RunTracker::no_run;
    const std::uint64_t attempt = scope_.attempts_are_apart ? mix_bits(static_cast<std::uint64_t>(place.attempt)) : 0;
    if ((scope_.keeps_messages || scope_.attempts_are_apart) && place.series->comm == nullptr)
        place.series->comm = std::make_shared<CommSeries>(scope_.keeps_messages, attempt);
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
    if (last_place_ == nullptr || last_rank_ != *row.rank) enter_rank(*row.rank);
    RankPlace& place = *last_place_;
    if (place.left_out || !scope_.filter.accepts(row)) return;
    if (row.type == RowType::run) parts_.coverage.saw_run(*row.run);
    if (place.run != run) enter_run(place, *row.rank, run);
    if (place.series == nullptr) return;
    if (row.type != RowType::run && tracker_.is_settled() && scope_.filter.accepts_all()) settled_ = &place;
    switch (row.type) {
        case RowType::span:
            add(*place.series, row);
            [[fallthrough]];
        case RowType::open:
            return open_spans_.take(row, place.attempt, line);
        case RowType::counter:
            return place.series->add_counter(row);
        case RowType::mark:
            if (row.stride != nullptr) return place.series->add_stride_change(*row.stride);
            return take_mark(row);
        case RowType::stats:
            place.series->stats = *row.stats;
            place.series->has_stats = true;
            return;
        case RowType::run:
            if (!ignored) place.series->run = *row.run;
            // Every rank's run row may list all ranks; the coverage has them once.
            place.series->run.listed_ranks.reset();
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
        for (auto& [run, series] : of_rank.mapped()) {
            series.seal();
            parts_.ranks[of_rank.key()].push_back(std::move(series));
        }
    }
    parts_.open_spans = open_spans_.all();
    return std::move(parts_);
}

}  // namespace cep::tool
