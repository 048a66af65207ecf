// SPDX-License-Identifier: Apache-2.0
//
// The results of reading a file: rows go to a sink, damage to a report.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "read/row.hpp"
#include "read/run_tracker.hpp"

namespace cep::tool {

/// Takes the rows of one file, in the file's order. Calls come from one thread at a time, but not always from the same.
class RowSink {
  public:
    virtual ~RowSink() = default;
    /// `line` counts from 1. The row is valid during the call.
    virtual void take(const Row& row, RunOfRow run, std::uint64_t line) = 0;
    /// After the last row. Files may end at the same time, each in a thread of its own. The runs are valid until the
    /// sink is taken.
    virtual void end(const RunTracker& /*runs*/) {}
};

struct Damage {
    std::uint64_t line = 0;
    std::string why;
};

/// The report of one file.
struct FileReport {
    static constexpr std::size_t max_damages = 100;  // that are located; all are counted

    std::string path;
    std::string unreadable;    // why it could not be opened or read to its end, or is no rank file; else ""
    bool is_rank_file = true;  // false: no line of it is a row, and it is not named like a rank file
    std::uint64_t bytes = 0;
    std::uint64_t lines = 0;
    std::uint64_t rows = 0;
    std::array<std::uint64_t, row_types> rows_by_type{};
    std::uint64_t skipped_rows = 0;
    bool cut_off = false;  // the last row, the compressed stream or a NUL-filled tail is incomplete
    std::uint64_t damage_count = 0;
    std::vector<Damage> damages;  // the first max_damages

    void add_damage(std::uint64_t line, std::string why) {
        ++damage_count;
        if (damages.size() < max_damages) damages.push_back({line, std::move(why)});
    }
    /// Its lines are no damaged rows then.
    void set_no_rank_file();
    /// The file's stream ended too early. If its last line is cut off too, that is the same loss, and `why` says why.
    void end_early(const std::string& why);
};

}  // namespace cep::tool
