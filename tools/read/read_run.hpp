// SPDX-License-Identifier: Apache-2.0
//
// Reading the rows of one run, each file into a sink of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "read/read_all.hpp"
#include "read/run_choice.hpp"
#include "read/run_tracker.hpp"

namespace cep::tool {

/// Takes the starts of the trainer in one file while it is read.
class StartNotes {
  public:
    void take(const Row& row) {
        if (has_too_many_ || !row.rank || (row.type != RowType::run && is_noted(*row.rank))) return;
        note(row);
    }
    /// Once, after the last row.
    [[nodiscard]] std::vector<TrainerStart> finish();
    /// More than max_starts of one rank: none are kept.
    [[nodiscard]] bool has_too_many() const { return has_too_many_; }

    static constexpr std::size_t max_starts = std::size_t{1} << 16;  // of one rank

  private:
    struct RankStarts {
        std::vector<TrainerStart> starts;    // by index
        std::optional<TrainerStart> before;  // any run row
        std::size_t without_step = 0;        // of starts
        bool in_turn = false;                // a start goes on behind a later one
    };

    [[nodiscard]] bool is_noted(std::int64_t rank) const {
        return rank >= 0 && static_cast<std::uint64_t>(rank) < noted_.size() && noted_[static_cast<std::size_t>(rank)];
    }
    void note(const Row& row);
    void note_run(const RunInfo& run, const RunTracker::Assignment& assigned, RankStarts& rank);
    static void note_step(const Row& row, int run, RankStarts& rank);
    void set_noted(std::int64_t rank, bool is_noted);

    RunTracker tracker_;
    std::unordered_map<std::int64_t, RankStarts> ranks_;
    std::vector<bool> noted_;  // by rank: nothing is missing until the next run row
    bool has_too_many_ = false;
};

namespace detail {

/// Passes rows on: all, and notes the starts of the trainer; or with a selection those of its run.
template <typename Sink>
class RunSink final : public RowSink {
  public:
    RunSink(std::unique_ptr<Sink> sink, const RunSelection* selection, std::size_t file)
        : sink_(std::move(sink)),
          selection_(selection),
          file_(file),
          has_all_(selection != nullptr && selection->has_all_of(file)) {}
    void take(const Row& row, std::uint64_t line) override {
        if (selection_ == nullptr) {
            notes_.take(row);
        } else if (!has_all_ && !admits(row)) {
            ++left_out_[static_cast<std::size_t>(row.type)];
            return;
        }
        sink_->Sink::take(row, line);
    }
    void end() override { sink_->end(); }
    void amend(FileReport& report) const override {
        for (std::size_t type = 0; type < row_types; ++type) {
            report.rows -= left_out_[type];
            report.rows_by_type[type] -= left_out_[type];
        }
    }
    [[nodiscard]] Sink& sink() { return *sink_; }
    [[nodiscard]] StartNotes& notes() { return notes_; }

  private:
    [[nodiscard]] bool admits(const Row& row) {
        if (!row.rank) return true;
        if (settled_ && row.type != RowType::run && row.rank == last_rank_) return last_admitted_;
        const int run = tracker_.observe(row).run;
        settled_ = row.type != RowType::run && tracker_.is_settled();
        last_rank_ = row.rank;
        return last_admitted_ = selection_->has(file_, *row.rank, run);
    }

    std::unique_ptr<Sink> sink_;
    const RunSelection* selection_;  // nullptr: it is not known yet
    const std::size_t file_;
    const bool has_all_;
    StartNotes notes_;
    RunTracker tracker_;
    std::optional<std::int64_t> last_rank_;
    bool settled_ = false;  // all rows of the rank belong to one run until the next run row
    bool last_admitted_ = false;
    std::array<std::uint64_t, row_types> left_out_{};
};

/// The files that have rows of the run, or of no run, and their indices in `all`. Throws UsageError for one that can be
/// read only once.
struct FilesOfRun {
    InputSet set;
    std::vector<std::size_t> indices;

    FilesOfRun(const InputSet& all, const RunSelection& selection);
};

}  // namespace detail

/// As read_all(), but sinks get the rows of one run only. The first reading with a selection settles it; where it turns
/// out to have other runs too, `restart` is called and the files of the run are read again: what sinks and `take` did
/// until then must be undone. Throws UsageError, too: see RunSelection::settle() and FilesOfRun.
template <typename Restart, typename MakeSink, typename Take>
InputCounts read_run(const InputSet& set, const ReadOptions& options, RunSelection& selection, Restart restart,
                     MakeSink make_sink, Take take) {
    using Sink = typename decltype(make_sink(set.files.front(), std::size_t{}))::element_type;
    using OfRun = detail::RunSink<Sink>;
    InputCounts counts;
    ReadOptions rereading = options;
    if (!selection.is_settled()) {
        counts = read_all(
            set, options,
            [&](const InputFile& file, std::size_t index) {
                return std::make_unique<OfRun>(make_sink(file, index), nullptr, index);
            },
            [&](OfRun&& sink, FileReport&& report) {
                selection.add(sink.notes());
                take(std::move(sink.sink()), std::move(report));
            });
        selection.settle();
        if (selection.has_all()) return counts;
        rereading.range.from = rereading.range.to;
        restart();
    } else if (selection.has_all()) {
        return read_all(set, options, make_sink, take);
    }
    const detail::FilesOfRun files(set, selection);
    counts = read_all(
        files.set, rereading,
        [&](const InputFile& file, std::size_t index) {
            return std::make_unique<OfRun>(make_sink(file, index), &selection, files.indices[index]);
        },
        [&](OfRun&& sink, FileReport&& report) { take(std::move(sink.sink()), std::move(report)); });
    selection.describe(counts);
    return counts;
}

}  // namespace cep::tool
