// SPDX-License-Identifier: Apache-2.0
//
// Formats records as the rows of cep-jsonl(5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host_clock.hpp"
#include "options.hpp"
#include "rank_file.hpp"
#include "record.hpp"
#include "run_facts.hpp"
#include "span_slots.hpp"
#include "stride_control.hpp"

namespace cep {

/// A span whose times are known.
struct ResolvedSpan {
    const Record* record;
    std::string_view clock;  ///< schema::clock
    std::int64_t start_ns;   ///< UNIX time
    std::int64_t duration_ns;
    std::int64_t host_ns;                ///< host time from begin to end
    std::optional<std::int64_t> lag_ns;  ///< start on the GPU minus host begin
    std::int32_t device = -1;            ///< −1: none
    std::string_view meta;
};

/// Appends rows to a block.
class RowFormatter {
  public:
    explicit RowFormatter(const Config& config);

    void set_unix_anchor(UnixAnchor anchor) noexcept { anchor_ = anchor; }
    [[nodiscard]] const UnixAnchor& unix_anchor() const noexcept { return anchor_; }
    /// Sets the metadata of the run, which every flat row repeats.
    void set_flat_metadata(std::string_view object) { flat_metadata_ = object; }

    void span(RowBlock& block, const ResolvedSpan& span) const;
    void counter(RowBlock& block, const Record& record) const;
    void mark(RowBlock& block, const Record& record, std::string_view meta) const;
    void open(RowBlock& block, const OpenSpan& span, std::int64_t now_ns) const;
    void stats(RowBlock& block, const Totals& totals, std::int64_t attempt, std::int64_t step, RowKind kind) const;
    void run(RowBlock& block, const RunFacts& facts, const Config& config) const;
    /// The mark of a change of the stride.
    void stride(RowBlock& block, const StrideChange& change, double max_percent) const;

  private:
    void flat_span(RowBlock& block, const ResolvedSpan& span) const;
    [[nodiscard]] bool flat() const noexcept { return flat_; }

    const bool flat_;
    const std::string rank_text_;
    UnixAnchor anchor_;
    std::string flat_metadata_;
};

}  // namespace cep
