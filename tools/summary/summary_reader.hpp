// SPDX-License-Identifier: Apache-2.0
//
// Summary reader: the inputs of a summary, rank files and partial summaries, told apart by what is in them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/partial.hpp"
#include "read/coverage.hpp"
#include "read/file_report.hpp"
#include "summary/summary.hpp"

namespace cep::tool {

/// One input. A partial summary may have others behind it, as cat(1) joins them.
class SummaryInput final : public RowSink {
  public:
    explicit SummaryInput(std::unique_ptr<FileSummary> rows) : rows_(std::move(rows)) {}
    void take(const Row& row, std::uint64_t line) override {
        if (!has_rows_ || !partials_.empty() || row.type == RowType::unknown) return take_slowly(row, line);
        rows_->take(row, line);
    }

  private:
    friend class SummaryReader;

    void take_slowly(const Row& row, std::uint64_t line);

    std::unique_ptr<FileSummary> rows_;
    std::vector<std::unique_ptr<PartialReader>> partials_;  // empty: it holds rows
    bool has_rows_ = false;
    std::string misplaced_;  // why it is neither the one nor the other
};

class SummaryReader {
  public:
    /// `asked`: what the command was asked for; `asked_for_all`: for nothing in particular.
    SummaryReader(JobSummary& job, PartialScope asked, bool asked_for_all)
        : job_(job), asked_(std::move(asked)), asked_for_all_(asked_for_all) {}

    [[nodiscard]] std::unique_ptr<SummaryInput> new_input() const {
        return std::make_unique<SummaryInput>(job_.new_file());
    }
    void take(SummaryInput&& input, FileReport&& report);
    /// Once, after the last input. Throws UsageError where partial summaries were asked for something else.
    [[nodiscard]] InputCounts finish(const InputSet& set);

  private:
    void take_partials(SummaryInput& input, const FileReport& report);
    void settle_scope();

    JobSummary& job_;
    PartialScope asked_;
    bool asked_for_all_;
    bool any_rows_ = false;
    InputCounts counts_;
    std::map<std::string, std::pair<PartialScope, std::string>> scopes_;  // by description; the first file that has it
};

}  // namespace cep::tool
