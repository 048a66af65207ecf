// SPDX-License-Identifier: Apache-2.0
#include "rank_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "error.hpp"
#include "schema.hpp"

namespace cep {
namespace {

constexpr std::string_view run_row_start = R"({"type":"run")";
constexpr std::string_view attempt_key = R"("attempt":)";

/// The attempt that a line's beginning speaks of, if it is a run row; else 0.
[[nodiscard]] std::int64_t attempt_of(std::string_view line) noexcept {
    if (!line.starts_with(run_row_start)) return 0;
    const std::size_t at = line.find(attempt_key);
    std::int64_t attempt = 0;
    if (at != std::string_view::npos)
        std::from_chars(line.data() + at + attempt_key.size(), line.data() + line.size(), attempt);
    return attempt;
}

/// Follows the lines of a file block by block; only the first bytes of a line matter.
class AttemptScan {
  public:
    void feed(std::string_view block) {
        while (!block.empty()) {
            const std::size_t newline = block.find('\n');
            const std::string_view piece = block.substr(0, newline);
            if (head_.size() < head_bytes) head_ += piece.substr(0, head_bytes - head_.size());
            if (newline == std::string_view::npos) return;
            latest_ = std::max(latest_, attempt_of(head_));
            head_.clear();
            block.remove_prefix(newline + 1);
        }
    }
    [[nodiscard]] std::int64_t latest() const noexcept { return latest_; }
    [[nodiscard]] bool in_line() const noexcept { return !head_.empty(); }

  private:
    static constexpr std::size_t head_bytes = 1024;
    std::string head_;
    std::int64_t latest_ = 0;
};

}  // namespace

void RowBlock::erase_front(std::size_t count) {
    if (count == 0) return;
    const std::size_t bytes = rows[count - 1].end;
    text.erase(0, bytes);
    rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
    for (Row& row : rows) row.end -= bytes;
}

std::int32_t RankFile::open(const Config& config) {
    std::error_code error;
    std::filesystem::create_directories(config.directory, error);
    if (error && !std::filesystem::is_directory(config.directory))
        return fail(CEP_EIO, "directory: %s: %s", config.directory.c_str(), error.message().c_str());
    path_ = config.directory + "/" + std::string(schema::file_prefix) + std::to_string(config.rank) +
            std::string(schema::file_suffix);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) return fail(CEP_EIO, "directory: %s: %s", path_.c_str(), std::strerror(errno));
    struct stat status {};
    if (fstat(fd_, &status) == 0) size_bytes_ = status.st_size;
    limit_bytes_ = config.max_file_bytes;
    return CEP_OK;
}

void RankFile::close() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

std::int64_t RankFile::find_attempt() {
    if (size_bytes_ == 0) return 1;
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 1;
    AttemptScan scan;
    std::string block(std::size_t{1} << 20, '\0');
    for (ssize_t size; (size = ::read(fd, block.data(), block.size())) > 0 || (size < 0 && errno == EINTR);)
        if (size > 0) scan.feed({block.data(), static_cast<std::size_t>(size)});
    ::close(fd);
    broken_line_ = scan.in_line();
    return scan.latest() + 1;
}

bool RankFile::write_some(const std::string& text, std::size_t& done) {
    while (done < text.size()) {
        const ssize_t size = ::write(fd_, text.data() + done, text.size() - done);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return false;
        done += static_cast<std::size_t>(size);
        size_bytes_ += size;
        bytes_written_.add(static_cast<std::uint64_t>(size));
    }
    return true;
}

void RankFile::account(RowBlock& block, std::size_t done) {
    std::size_t whole = 0;
    std::size_t bytes = 0;
    for (; whole < block.rows.size() && block.rows[whole].end <= done; ++whole) {
        written_.add(block.rows[whole].measurement);
        bytes = block.rows[whole].end;
    }
    partial_bytes_ = done - bytes;
    block.erase_front(whole);
}

void RankFile::drop_past_limit(RowBlock& block) {
    if (limit_bytes_ == 0) return;
    std::size_t begin = 0;
    std::size_t kept_bytes = 0;
    std::size_t kept = 0;
    for (const RowBlock::Row row : block.rows) {
        const std::size_t size = row.end - begin;
        const bool fits = size_bytes_ + static_cast<std::int64_t>(kept_bytes + size) <= limit_bytes_;
        if (fits || !row.measurement) {
            std::memmove(block.text.data() + kept_bytes, block.text.data() + begin, size);
            kept_bytes += size;
            block.rows[kept++] = {kept_bytes, row.measurement};
        } else {
            dropped_file_.add();
        }
        begin = row.end;
    }
    block.text.resize(kept_bytes);
    block.rows.resize(kept);
}

void RankFile::discard(RowBlock& block) {
    dropped_io_.add(block.measurements());
    broken_line_ = broken_line_ || partial_bytes_ > 0;
    partial_bytes_ = 0;
    block.clear();
}

bool RankFile::append(RowBlock& block, bool last_try) {
    if (partial_bytes_ == 0) drop_past_limit(block);
    if (block.empty()) return true;
    if (broken_line_) {
        std::size_t done = 0;
        broken_line_ = !write_some("\n", done);
    }
    std::size_t done = partial_bytes_;
    const bool all = !broken_line_ && write_some(block.text, done);
    account(block, done);
    if (!all && (last_try || block.text.size() > backlog_limit_bytes)) discard(block);
    return all;
}

}  // namespace cep
