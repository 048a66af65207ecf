// SPDX-License-Identifier: Apache-2.0
#include "merge/merger.hpp"

#include <algorithm>

namespace cep::tool {
namespace {

void set_key(RowEntry& entry, Section section, std::int64_t first, std::int64_t second, std::int64_t third) {
    entry.section_bits = static_cast<std::uint32_t>(section) & 3U;
    entry.first = first;
    entry.second = second;
    entry.third = third;
}

void set_key(RowEntry& entry, const Row& row, std::int64_t attempt) {
    const std::int64_t rank = row.rank.value_or(INT64_MIN);
    const std::int64_t start_ns = row.start_ns.value_or(INT64_MIN);
    if (row.type == RowType::run) {
        set_key(entry, Section::run_rows, rank, row.run->start_unix_ns.value_or(INT64_MIN), attempt);
    } else if (row.type == RowType::stats) {
        set_key(entry, Section::stats_rows, rank, start_ns, attempt);
    } else if (row.step) {
        set_key(entry, Section::step_rows, *row.step, start_ns, rank);
    } else {
        set_key(entry, Section::other_rows, 0, 0, 0);
    }
}

}  // namespace

std::uint32_t RunIndex::index_of(const RunOrder& run) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = indices_.try_emplace(run, static_cast<std::uint32_t>(runs_.size()));
    if (is_new) runs_.push_back(run);
    return known->second;
}

void FileMerge::note_run(const Row& row, RunOfRow run) {
    // A run row may add to what is known about its run.
    if (run.index == last_run_.run && *row.rank == last_run_.rank && row.type != RowType::run) return;
    const std::uint32_t index = run.start == nullptr ? 0 : runs_.index_of(order_of(*run.start));
    last_run_ = {*row.rank, run.index, index & RowEntry::max_run};
}

void FileMerge::take(const Row& row, RunOfRow run, std::uint64_t) {
    if (row.rank) {
        if (options_.filter.accepts_rank(*row.rank)) coverage_.take(row);
        note_run(row, run);
    }
    if (!options_.filter.accepts(row)) return;
    if (options_.attempt.mode == AttemptChoice::Mode::one && run.attempt() != options_.attempt.attempt) return;
    RowEntry entry;
    set_key(entry, row, run.attempt());
    if (row.rank) entry.run = last_run_.index & RowEntry::max_run;
    entry.is_span = row.type == RowType::span;
    text_bytes_ += row.text.size();
    collector_.add(entry, row.text);
}

void RowWriter::note_progress(std::size_t bytes) {
    constexpr std::size_t note_every_bytes = std::size_t{64} << 10;
    bytes_taken_ += bytes;
    if (bytes_taken_ >= note_every_bytes) progress_.advance(std::exchange(bytes_taken_, 0));
}

void RowWriter::take(const RowEntry& row, std::string_view text) {
    note_progress(text.size());
    if (!last_attempt_only_) return write(text);
    if (row.section() != Section::step_rows) {
        flush_step();
        return write(text);
    }
    if (step_ != row.first) flush_step();
    step_ = row.first;
    rows_of_step_.emplace_back(row, text);
    if (row.is_span == 0) return;
    const RunOrder& run = runs_[row.run];
    const auto [last, is_new] = last_runs_.try_emplace(row.third, run);
    if (!is_new) last->second = std::max(last->second, run);
}

void RowWriter::write(std::string_view text) {
    output_.write_line(text);
    ++rows_;
}

void RowWriter::flush_step() {
    for (const auto& [row, text] : rows_of_step_) {
        const auto last = last_runs_.find(row.third);
        if (last == last_runs_.end() || last->second <= runs_[row.run]) write(text);
    }
    rows_of_step_.clear();
    last_runs_.clear();
    step_.reset();
}

}  // namespace cep::tool
