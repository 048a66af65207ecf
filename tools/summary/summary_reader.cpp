// SPDX-License-Identifier: Apache-2.0
#include "summary/summary_reader.hpp"

#include <fmt/format.h>

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

}  // namespace

void SummaryInput::take_slowly(const Row& row, std::uint64_t line) {
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

void SummaryReader::take(SummaryInput&& input, FileReport&& report) {
    if (input.partials_.empty() && input.misplaced_.empty()) {
        any_rows_ |= report.rows > 0;
        counts_.add(report);
        job_.add(std::move(*input.rows_));
        return;
    }
    try {
        take_partials(input, report);
    } catch (const ReadError& error) {
        counts_.add_unreadable(why_unreadable(report, error.what()));
    }
}

// All of an input or nothing of it.
void SummaryReader::take_partials(SummaryInput& input, const FileReport& report) {
    if (!input.misplaced_.empty()) throw ReadError(input.misplaced_);
    std::vector<PartialSummary> partials;
    for (const auto& reader : input.partials_) partials.push_back(reader->finish());
    if (!report.unreadable.empty() || report.damage_count > 0) throw ReadError("something behind the end");
    for (PartialSummary& partial : partials) {
        counts_.merge(partial.inputs);
        scopes_.try_emplace(partial.scope.describe(), partial.scope, report.path);
        job_.add(std::move(partial.parts));
    }
}

void SummaryReader::settle_scope() {
    if (scopes_.empty()) return;
    const PartialScope wanted = asked_for_all_ && !any_rows_ ? scopes_.begin()->second.first : asked_;
    for (const auto& [description, scope] : scopes_)
        if (!(scope.first == wanted))
            throw UsageError(fmt::format("{}: saved with {}, but the others are read with {}: they cannot be joined",
                                         scope.second, description, wanted.describe()));
    job_.adopt(wanted);
}

InputCounts SummaryReader::finish(const InputSet& set) {
    settle_scope();
    counts_.add(set);
    return std::move(counts_);
}

}  // namespace cep::tool
