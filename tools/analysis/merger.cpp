// SPDX-License-Identifier: Apache-2.0
#include "merger.hpp"

#include <algorithm>
#include <utility>

namespace cep::analysis {
namespace {

SortKey key_of(const Row& row, std::int64_t attempt) {
    const std::int64_t rank = row.rank.value_or(INT64_MIN);
    const std::int64_t start_ns = row.start_ns.value_or(INT64_MIN);
    SortKey key;
    if (row.type == RowType::run) {
        key.section = SortKey::run_rows;
        key.first = rank;
        key.second = row.run->start_unix_ns.value_or(INT64_MIN);
        key.third = attempt;
    } else if (row.type == RowType::stats) {
        key.section = SortKey::stats_rows;
        key.first = rank;
        key.second = start_ns;
        key.third = attempt;
    } else if (!row.step) {
        key.section = SortKey::other_rows;
    } else {
        key.section = SortKey::step_rows;
        key.first = *row.step;
        key.second = start_ns;
        key.third = rank;
    }
    return key;
}

}  // namespace

void FileMerge::note_coverage(const Row& row) {
    if (!options_.filter.accepts_rank(*row.rank)) return;
    if (row.type == RowType::run) coverage_.saw_run(*row.run);
    if (row.rank != last_rank_) coverage_.saw_rank(*row.rank);
    last_rank_ = row.rank;
}

void FileMerge::take(const Row& row, std::uint64_t line) {
    SortedRow sorted;
    sorted.attempt = 1;
    sorted.run_start_ns = INT64_MIN;
    if (row.rank) {
        note_coverage(row);
        const RunTracker::Place place = tracker_.observe(row);
        if (place.run != RunTracker::no_run) {
            const RunInfo& run = tracker_.runs(*row.rank)[static_cast<std::size_t>(place.run)];
            sorted.attempt = run.attempt;
            sorted.run_start_ns = run.start_unix_ns.value_or(INT64_MIN);
        }
    }
    if (!options_.filter.accepts(row)) return;
    if (options_.attempt.mode == AttemptChoice::Mode::one && sorted.attempt != options_.attempt.attempt) return;
    sorted.key = key_of(row, sorted.attempt);
    sorted.key.file = file_;
    sorted.key.line = line;
    sorted.rank = row.rank.value_or(0);
    sorted.is_span = row.type == RowType::span;
    add(sorted, row.text);
}

void FileMerge::add(const SortedRow& row, std::string_view text) {
    if (!batch_) batch_ = sorter_.take_batch();
    batch_->add(row, text);
    if (batch_->used_bytes() < sorter_.batch_bytes()) return;
    sorter_.add(std::move(*batch_));
    batch_.reset();
}

void FileMerge::end() {
    if (batch_) sorter_.give_back(std::move(*batch_));
    batch_.reset();
}

void RowWriter::write(std::string_view text) {
    output_.write(text);
    output_.write("\n");
}

void RowWriter::take(const SortedRow& row, std::string_view text) {
    if (!last_attempt_only_) return write(text);
    if (row.key.section != SortKey::step_rows) {
        flush_step();
        return write(text);
    }
    if (step_ != row.key.first) flush_step();
    step_ = row.key.first;
    rows_of_step_.emplace_back(row, text);
    if (row.is_span == 0) return;
    const RunKey run(row.run_start_ns, row.attempt);
    const auto [last, is_new] = last_runs_.try_emplace(row.rank, run);
    if (!is_new) last->second = std::max(last->second, run);
}

void RowWriter::flush_step() {
    for (const auto& [row, text] : rows_of_step_) {
        const auto last = last_runs_.find(row.rank);
        if (last == last_runs_.end() || last->second <= RunKey(row.run_start_ns, row.attempt)) write(text);
    }
    rows_of_step_.clear();
    last_runs_.clear();
    step_.reset();
}

}  // namespace cep::analysis
