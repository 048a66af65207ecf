// SPDX-License-Identifier: Apache-2.0
//
// Rows only: sinks of commands that read rank files and no partial summaries.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/failure.hpp"
#include "read/file_report.hpp"
#include "read/partial_format.hpp"

namespace cep::tool {

/// A sink that throws UsageError when its file turns out to be a partial summary.
template <typename Sink>
class RowsOnly : public Sink {
  public:
    template <typename... Arguments>
    explicit RowsOnly(std::string path, Arguments&&... arguments)
        : Sink(std::forward<Arguments>(arguments)...), path_(std::move(path)) {}

    void take(const Row& row, std::uint64_t line) override {
        if (row.type == RowType::unknown && begins_partial(row.text))
            throw UsageError(path_ + ": a partial summary, which only cep summarize and cep compare read");
        Sink::take(row, line);
    }

  private:
    std::string path_;
};

}  // namespace cep::tool
