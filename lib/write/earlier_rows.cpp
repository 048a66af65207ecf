// SPDX-License-Identifier: Apache-2.0
#include "write/earlier_rows.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

namespace cep {
namespace {

constexpr std::int64_t search_limit_bytes = 2 * stats_interval_bytes;
constexpr std::int64_t block_bytes = 256 * 1024;
constexpr std::int64_t head_bytes = 2048;  ///< the first bytes of a row, which contain its attempt
constexpr std::string_view run_row_start = R"({"type":"run")";
constexpr std::string_view stats_row_start = R"({"type":"stats")";
constexpr std::string_view attempt_key = R"("attempt":)";

/// Reads the attempt from the beginning of a run or stats row; 0 for other rows.
[[nodiscard]] std::int64_t attempt_of(std::string_view line) noexcept {
    if (!line.starts_with(run_row_start) && !line.starts_with(stats_row_start)) return 0;
    const std::size_t at = line.find(attempt_key);
    std::int64_t attempt = 0;
    if (at != std::string_view::npos)
        std::from_chars(line.data() + at + attempt_key.size(), line.data() + line.size(), attempt);
    return attempt;
}

[[nodiscard]] bool read_at(int fd, std::int64_t offset, std::string& text, std::size_t bytes) {
    text.resize(bytes);
    std::size_t done = 0;
    while (done < bytes) {
        const ssize_t size = pread(fd, text.data() + done, bytes - done, offset + static_cast<std::int64_t>(done));
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        done += static_cast<std::size_t>(size);
    }
    text.resize(done);
    return done == bytes;
}

/// Reads the attempt from the last row that has one and begins within the first `begins` bytes of the text.
[[nodiscard]] std::int64_t last_attempt(std::string_view text, std::size_t begins, bool at_file_start) {
    for (std::size_t end = begins; end > 0;) {
        const std::size_t newline = text.rfind('\n', end - 1);
        if (newline == std::string_view::npos) break;
        const std::size_t line_end = text.find('\n', newline + 1);
        const std::string_view line =
            text.substr(newline + 1, std::min<std::size_t>(line_end - newline - 1, head_bytes));
        if (const std::int64_t attempt = attempt_of(line); attempt > 0) return attempt;
        end = newline;
    }
    return at_file_start ? attempt_of(text.substr(0, text.find('\n'))) : 0;
}

}  // namespace

EarlierRows read_earlier_rows(int fd, std::int64_t size_bytes) {
    EarlierRows found;
    std::string text;
    const std::int64_t limit = std::max<std::int64_t>(size_bytes - search_limit_bytes, 0);
    for (std::int64_t end = size_bytes; end > limit && found.attempt == 0;) {
        const std::int64_t begin = std::max(end - block_bytes, limit);
        // A line that begins in this block may end in the block after it.
        const std::int64_t past = std::min(end + head_bytes, size_bytes);
        if (!read_at(fd, begin, text, static_cast<std::size_t>(past - begin))) return found;
        if (end == size_bytes) found.broken_line = text.back() != '\n';
        found.attempt = last_attempt(text, static_cast<std::size_t>(end - begin), begin == 0);
        end = begin;
    }
    // Another program may have written a long file without these rows at its end. Its beginning may have one.
    if (found.attempt == 0 && limit > 0 && read_at(fd, 0, text, static_cast<std::size_t>(block_bytes)))
        found.attempt = last_attempt(text, text.size(), true);
    return found;
}

}  // namespace cep
