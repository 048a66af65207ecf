// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "counts.hpp"
#include "options.hpp"

namespace cep {

/// Rows on their way to the file, each a whole line.
struct RowBlock {
    struct Row {
        std::size_t end;   ///< offset past its newline
        bool measurement;  ///< a span, counter or mark, as opposed to the profiler's own rows
    };
    std::string text;
    std::vector<Row> rows;

    /// The text appended since the last row is one row.
    void finish_row(bool measurement) { rows.push_back({text.size(), measurement}); }
    [[nodiscard]] bool empty() const noexcept { return rows.empty(); }
    [[nodiscard]] std::uint64_t measurements() const noexcept {
        std::uint64_t count = 0;
        for (const Row& row : rows) count += row.measurement;
        return count;
    }
    void erase_front(std::size_t count);
    void clear() noexcept {
        text.clear();
        rows.clear();
    }
};

/// The rank file: opened for append, never truncated, whole lines only. One thread at a time uses it.
class RankFile {
  public:
    /// Rows kept for another try while the file cannot be written.
    static constexpr std::size_t backlog_limit_bytes = std::size_t{4} << 20;

    RankFile() = default;
    RankFile(const RankFile&) = delete;
    RankFile& operator=(const RankFile&) = delete;
    ~RankFile() { close(); }

    /// Makes the directory and opens the file.
    [[nodiscard]] std::int32_t open(const Config& config);
    void close() noexcept;

    /// Reads what earlier starts left: the next attempt's number, and whether the last line was cut off.
    /// Reads the whole file once; not for the trainer's thread.
    [[nodiscard]] std::int64_t find_attempt();

    /// Appends the block and empties it. What cannot be written now stays in it for the next call, up to
    /// backlog_limit_bytes; `last_try` keeps nothing. What is lost is counted. False if the file refused.
    bool append(RowBlock& block, bool last_try);

    /// Gives the block up; its measurements are counted as lost.
    void discard(RowBlock& block);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::uint64_t written() const noexcept { return written_.get(); }
    [[nodiscard]] std::uint64_t dropped_file() const noexcept { return dropped_file_.get(); }
    [[nodiscard]] std::uint64_t dropped_io() const noexcept { return dropped_io_.get(); }
    [[nodiscard]] std::uint64_t bytes_written() const noexcept { return bytes_written_.get(); }

  private:
    void drop_past_limit(RowBlock& block);
    [[nodiscard]] bool write_some(const std::string& text, std::size_t& done);
    void account(RowBlock& block, std::size_t done);

    std::string path_;
    int fd_ = -1;
    std::int64_t size_bytes_ = 0;
    std::int64_t limit_bytes_ = 0;
    std::size_t partial_bytes_ = 0;  ///< of the block's first row, already in the file
    bool broken_line_ = false;       ///< the file ends in the middle of a line that nobody will finish
    Count written_;
    Count dropped_file_;
    Count dropped_io_;
    Count bytes_written_;
};

}  // namespace cep
