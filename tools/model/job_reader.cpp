// SPDX-License-Identifier: Apache-2.0
#include "model/job_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/failure.hpp"
#include "read/partial_format.hpp"

namespace cep::tool {
namespace {

// Lines that no rank file has: those of a partial summary that has lost its first.
bool belongs_to_partial(std::string_view line) {
    return line.starts_with(R"({"type":"series","rank":)") || line.starts_with(R"({"type":"end","lines":)");
}

std::string why_unreadable(const FileReport& report, const std::string& why) {
    if (!report.unreadable.empty()) return report.unreadable;
    if (report.damages.empty()) return fmt::format("{}: not a whole partial summary: {}", report.path, why);
    const Damage& damage = report.damages.front();
    return fmt::format("{}: not a whole partial summary: line {}: {}", report.path, damage.line, damage.why);
}

PartialScope scope_of(const LoadOptions& options) {
    PartialScope scope{options.filter, {}};
    if (options.attempt && options.attempt->mode == AttemptChoice::Mode::one) scope.attempt = options.attempt->attempt;
    return scope;
}

}  // namespace

void JobFile::take_other(const Row& row, std::uint64_t line) {
    const bool may_be_partial = row.type == RowType::unknown;
    if (may_be_partial && begins_partial(row.text)) {
        if (has_rows_) misplaced_ = fmt::format("line {}: it begins behind rows", line);
        partials_.push_back(std::make_unique<PartialReader>());
    }
    if (!partials_.empty()) return partials_.back()->take(row.text, line);
    has_rows_ = true;
    if (!may_be_partial || !belongs_to_partial(row.text)) return rows_->take(row, line);
    misplaced_ = fmt::format("line {}: its first line is missing", line);
}

JobReader::JobReader(const LoadOptions& options)
    : asked_for_(scope_of(options)),
      asked_for_all_(!options.attempt && options.filter == Filter{}),
      budget_(std::make_shared<SampleBudget>(options.max_samples)) {}

std::unique_ptr<JobFile> JobReader::new_file() const {
    return std::make_unique<JobFile>(std::make_unique<FileSeries>(asked_for_, budget_));
}

void JobReader::take(JobFile&& file, FileReport&& report) {
    if (file.partials_.empty() && file.misplaced_.empty()) {
        any_rows_ |= report.rows > 0;
        read_.inputs.add(report);
        add(file.rows_->finish());
        return;
    }
    try {
        take_partials(file, report);
    } catch (const ReadError& error) {
        read_.inputs.add_unreadable(why_unreadable(report, error.what()));
    }
}

// What the files hold has been spent.
void JobReader::add(JobParts&& parts) {
    const StepChoice choice = std::max({read_.parts.choice, parts.choice, budget_->choice()});
    read_.parts.thin(choice);
    parts.thin(choice);
    for (auto& [rank, of_rank] : parts.ranks)
        for (RunSeries& series : of_rank) series.steps.share(last_steps_);
    read_.parts.merge(std::move(parts));
}

void JobReader::spend(const JobParts& parts) {
    for (const SeriesOfRank& of : all_series(parts.ranks)) {
        StepTally steps;
        StepTally samples;
        for (const std::int64_t step : of.series->steps) steps.add(StepChoice::halvings_of(step));
        for (const PhaseSeries& phase : of.series->phases)
            for (const Sample sample : phase.samples)
                samples.add(StepChoice::halvings_of(of.series->steps[sample.step_index]));
        budget_->spend(samples, steps);
    }
}

// All of an input or nothing of it.
void JobReader::take_partials(JobFile& file, const FileReport& report) {
    if (!file.misplaced_.empty()) throw ReadError(file.misplaced_);
    std::vector<PartialSummary> partials;
    for (const auto& reader : file.partials_) partials.push_back(reader->finish());
    if (!report.unreadable.empty() || report.damage_count > 0) throw ReadError("something behind the end");
    std::uint64_t listed = read_.parts.listed();
    for (const PartialSummary& partial : partials) listed += partial.parts.listed();
    if (listed > 2 * JobParts::max_listed) throw ReadError("too many ranks or marked steps in all partial summaries");
    for (PartialSummary& partial : partials) {
        read_.inputs.merge(partial.inputs);
        scopes_.try_emplace(partial.scope.describe(), partial.scope, report.path);
        spend(partial.parts);
        add(std::move(partial.parts));
    }
}

void JobReader::settle_scope() {
    read_.scope = asked_for_;
    if (scopes_.empty()) return;
    if (asked_for_all_ && !any_rows_) read_.scope = scopes_.begin()->second.first;
    for (const auto& [description, scope] : scopes_)
        if (!(scope.first == read_.scope))
            throw UsageError(fmt::format("{}: saved with {}, but the others are read with {}: they cannot be joined",
                                         scope.second, description, read_.scope.describe()));
}

PartialSummary JobReader::finish(const InputSet& set) {
    settle_scope();
    read_.inputs.add(set);
    read_.parts.thin(budget_->choice());
    read_.parts.order();
    return std::move(read_);
}

}  // namespace cep::tool
