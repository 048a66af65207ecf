// SPDX-License-Identifier: Apache-2.0
//
// Formats records as the rows of cep-jsonl(5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/host_clock.hpp"
#include "options/options.hpp"
#include "record/record.hpp"
#include "record/span_slots.hpp"
#include "record/stride_control.hpp"
#include "write/rank_file.hpp"
#include "write/run_facts.hpp"

namespace cep {

/// A span whose times are known.
struct ResolvedSpan {
    const Measurement* measurement;
    std::string_view clock;  ///< schema::clock
    std::int64_t start_ns;   ///< UNIX time
    std::int64_t duration_ns;
    std::int64_t host_ns;                ///< host time from begin to end
    std::optional<std::int64_t> lag_ns;  ///< start on the GPU minus host begin
    std::int32_t device = -1;            ///< −1: none
};

/// Appends rows to a block.
class RowFormatter {
  public:
    explicit RowFormatter(const Config& config);

    void set_unix_anchor(UnixAnchor anchor) noexcept { anchor_ = anchor; }
    [[nodiscard]] const UnixAnchor& unix_anchor() const noexcept { return anchor_; }
    /// Sets the metadata of the run, which every row repeats where there is no run row.
    void set_run_metadata(std::string_view object) { run_metadata_ = object; }

    void span(RowBlock& block, const ResolvedSpan& span) const;
    void counter(RowBlock& block, const Record& record) const;
    void mark(RowBlock& block, const Measurement& measurement) const;
    void open(RowBlock& block, const OpenSpan& span, std::int64_t now_ns) const;
    void stats(RowBlock& block, const Totals& totals, std::int64_t attempt, std::int64_t step, RowKind kind) const;
    void run(RowBlock& block, const RunFacts& facts, const Config& config) const;
    /// The mark of a change of the stride.
    void stride(RowBlock& block, const StrideChange& change, double max_percent) const;

  private:
    /// Begins a row of that type, up to the rank.
    std::string& begin_row(RowBlock& block, std::string_view type, std::string_view quoted_name,
                           std::int64_t step) const;
    void top_level_span(RowBlock& block, const ResolvedSpan& span) const;
    [[nodiscard]] bool only_spans() const noexcept { return layout_ != CEP_LAYOUT_FULL; }

    const std::int32_t layout_;
    const std::string rank_text_;
    UnixAnchor anchor_;
    std::string run_metadata_;
};

}  // namespace cep
