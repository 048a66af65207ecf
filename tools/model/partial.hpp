// SPDX-License-Identifier: Apache-2.0
//
// Partial summaries: what `cep summarize --save` writes, in the format of cep-partial(5).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/output.hpp"
#include "model/job_parts.hpp"
#include "read/coverage.hpp"
#include "read/filter.hpp"

namespace cep::tool {

/// What a partial summary was asked for. All that are summarised together must have been asked for the same.
struct PartialScope {
    Filter filter;
    std::optional<std::int64_t> attempt;  // only this one; otherwise all are in it

    /// As options of the command; "no filter" where there are none.
    [[nodiscard]] std::string describe() const;
    friend bool operator==(const PartialScope&, const PartialScope&) = default;
};

struct PartialSummary {
    PartialScope scope;
    InputCounts inputs;
    JobParts parts;
};

/// Throws as Output does. The parts are written in their order().
void write_partial(Output& output, const PartialSummary& partial);

/// One series as its lines in a partial summary.
[[nodiscard]] std::string series_text(std::int64_t rank, const RunSeries& series);

/// Takes the lines of one partial summary. What is wrong with them comes out at the end.
class PartialReader {
  public:
    PartialReader();
    ~PartialReader();
    PartialReader(const PartialReader&) = delete;
    PartialReader& operator=(const PartialReader&) = delete;

    /// A line without its newline, number `number` of the file.
    void take(std::string_view line, std::uint64_t number);
    /// Throws ReadError, which says "line N: why", if the lines are not a whole partial summary.
    [[nodiscard]] PartialSummary finish();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cep::tool
