// SPDX-License-Identifier: Apache-2.0
//
// Job reader: joins the inputs of a job, rank files and partial summaries, whatever their order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/file_series.hpp"
#include "model/job.hpp"
#include "model/partial.hpp"
#include "read/coverage.hpp"
#include "read/file_report.hpp"

namespace cep::tool {

/// One input. A partial summary may have others behind it, as cat(1) joins them.
class JobFile final : public RowSink {
  public:
    explicit JobFile(std::unique_ptr<FileSeries> rows) : rows_(std::move(rows)) {}
    void take(const Row& row, std::uint64_t line) override {
        if (!has_rows_ || !partials_.empty() || row.type == RowType::unknown) return take_other(row, line);
        rows_->take(row, line);
    }

  private:
    friend class JobReader;

    void take_other(const Row& row, std::uint64_t line);

    std::unique_ptr<FileSeries> rows_;
    std::vector<std::unique_ptr<PartialReader>> partials_;  // empty: it holds rows
    bool has_rows_ = false;
    std::string misplaced_;  // why it is neither the one nor the other
};

class JobReader {
  public:
    explicit JobReader(const LoadOptions& options);

    [[nodiscard]] std::unique_ptr<JobFile> new_file() const;
    void take(JobFile&& file, FileReport&& report);
    /// All that was read, once, after the last input. The parts are in their order(). Throws UsageError where partial
    /// summaries were saved with another scope.
    [[nodiscard]] PartialSummary finish(const InputSet& set);

  private:
    void add(JobParts&& parts);
    void spend(const JobParts& parts);
    void take_partials(JobFile& file, const FileReport& report);
    void settle_scope();

    const PartialScope asked_for_;
    const bool asked_for_all_;  // so that partial summaries may say what is asked for
    std::shared_ptr<SampleBudget> budget_;
    PartialSummary read_;
    std::shared_ptr<StepNumbers::Numbers> last_steps_;  // of the series that was read last
    bool any_rows_ = false;
    std::map<std::string, std::pair<PartialScope, std::string>> scopes_;  // by description; the first file that has it
};

}  // namespace cep::tool
