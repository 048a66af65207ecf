// SPDX-License-Identifier: Apache-2.0
//
// Rows of cep-jsonl(5) as every command sees them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "read/run_info.hpp"

namespace cep::tool {

/// `unknown` is a row whose "type" this version does not know; it is no error.
enum class RowType : std::uint8_t { span, run, stats, counter, mark, open, unknown };
inline constexpr std::size_t row_types = 7;
inline constexpr std::array<std::string_view, row_types> row_type_names = {"span", "run",  "stats",  "counter",
                                                                           "mark", "open", "unknown"};

/// One row. Views point into the line and the parser: valid until the parser's next row.
struct Row {
    RowType type = RowType::span;
    std::string_view text;  // the bytes of the JSON object as they are in the file
    std::string_view name;
    std::optional<std::int64_t> step;  // set in every span, counter, mark and open row
    std::optional<std::int64_t> rank;  // set in every row of a known type
    double duration_ms = 0;            // span
    double elapsed_ms = 0;             // open
    double value = 0;                  // counter
    std::optional<std::int64_t> start_ns;
    std::optional<double> lag_ms;
    std::optional<double> host_ms;
    std::optional<std::int64_t> seq;
    std::optional<std::int64_t> depth;
    std::optional<std::int64_t> stream;
    std::optional<std::int64_t> bytes;
    std::string_view group;  // of a collective; empty where none is given
    std::optional<std::int64_t> coll;
    schema::Kind kind = schema::Kind::other;  // as given, else inferred from the name
    Clock clock = Clock::none;
    bool is_unfinished = false;            // span: something else ended it, as a script's exit ends its last step
    std::string_view odd_key;              // a known optional key whose value has another type; it was ignored
    const RunInfo* run = nullptr;          // run
    const StatsRow* stats = nullptr;       // stats
    const StrideChange* stride = nullptr;  // mark: the library's own, about its stride
};

/// Parses rows. One parser a thread.
class RowParser {
  public:
    static constexpr std::size_t padding_bytes = 1024;  // more than simdjson and RowReader may read behind a row

    RowParser();
    ~RowParser();
    RowParser(const RowParser&) = delete;
    RowParser& operator=(const RowParser&) = delete;

    /// Parses one JSON object; padding_bytes must be readable behind the text. Returns nullptr and says
    /// why() when it is not a valid row.
    const Row* parse(std::string_view text);
    [[nodiscard]] const std::string& why() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cep::tool
