// SPDX-License-Identifier: Apache-2.0
//
// Reading the rows of one run, each file into a sink of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "read/read_all.hpp"
#include "read/run_choice.hpp"
#include "read/start_notes.hpp"

namespace cep::tool {

namespace detail {

/// The rows of the run in one file.
class RunGate {
  public:
    RunGate(const RunSelection& selection, std::size_t file) : selection_(selection), file_(file) {}

    [[nodiscard]] bool admits(const Row& row) {
        if (!row.rank) return true;
        if (settled_ && row.type != RowType::run && row.rank == last_rank_) return last_admitted_;
        const int run = tracker_.observe(row).run;
        settled_ = row.type != RowType::run && tracker_.is_settled();
        last_rank_ = row.rank;
        return last_admitted_ = selection_.has(file_, *row.rank, run);
    }

  private:
    const RunSelection& selection_;
    std::size_t file_;
    RunTracker tracker_;
    std::optional<std::int64_t> last_rank_;
    bool settled_ = false;  // all rows of the rank belong to one run until the next run row
    bool last_admitted_ = false;
};

/// Passes all rows on, and notes the starts of the trainer.
template <typename Sink>
class NotingSink final : public RowSink {
  public:
    explicit NotingSink(std::unique_ptr<Sink> sink) : sink_(std::move(sink)) {}
    void take(const Row& row, std::uint64_t line) override {
        notes_.take(row);
        sink_->Sink::take(row, line);
    }
    void end() override { sink_->end(); }
    [[nodiscard]] Sink& sink() { return *sink_; }
    [[nodiscard]] StartNotes& notes() { return notes_; }

  private:
    std::unique_ptr<Sink> sink_;
    StartNotes notes_;
};

/// Passes the rows of the run on.
template <typename Sink>
class RunSink final : public RowSink {
  public:
    RunSink(std::unique_ptr<Sink> sink, const RunSelection& selection, std::size_t file)
        : sink_(std::move(sink)), gate_(selection, file), has_all_(selection.has_all_of(file)) {}
    void take(const Row& row, std::uint64_t line) override {
        if (has_all_ || gate_.admits(row)) return sink_->Sink::take(row, line);
        ++left_out_[static_cast<std::size_t>(row.type)];
    }
    void end() override { sink_->end(); }
    void amend(FileReport& report) const override {
        for (std::size_t type = 0; type < row_types; ++type) {
            report.rows -= left_out_[type];
            report.rows_by_type[type] -= left_out_[type];
        }
    }
    [[nodiscard]] Sink& sink() { return *sink_; }

  private:
    std::unique_ptr<Sink> sink_;
    RunGate gate_;
    const bool has_all_;
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
    InputCounts counts;
    ReadOptions rereading = options;
    if (!selection.is_settled()) {
        using Noting = detail::NotingSink<Sink>;
        counts = read_all(
            set, options,
            [&](const InputFile& file, std::size_t index) { return std::make_unique<Noting>(make_sink(file, index)); },
            [&](Noting&& sink, FileReport&& report) {
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
    using OfRun = detail::RunSink<Sink>;
    counts = read_all(
        files.set, rereading,
        [&](const InputFile& file, std::size_t index) {
            return std::make_unique<OfRun>(make_sink(file, index), selection, files.indices[index]);
        },
        [&](OfRun&& sink, FileReport&& report) { take(std::move(sink.sink()), std::move(report)); });
    selection.describe(counts);
    return counts;
}

}  // namespace cep::tool
