// SPDX-License-Identifier: Apache-2.0
#include "write/rank_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "base/host_clock.hpp"
#include "base/system_call.hpp"
#include "schema.hpp"
#include "write/earlier_rows.hpp"

namespace cep {
namespace {

constexpr int lock_attempts = 10;
constexpr int first_own_descriptor = 3;  // 0 to 2 are the standard streams, even if the trainer has closed them

[[nodiscard]] std::string message_of(int error) {
    return std::generic_category().message(error);
}

/// Why open() failed, in clearer words than those of errno where possible.
[[nodiscard]] std::string open_error(int error) {
    if (error == ELOOP) return "is a symbolic link, which is not followed";
    if (error == ENXIO) return "is a FIFO or a device that nobody reads";
    return message_of(error);
}

/// Locks the file. True also if the file system has no locks; then nothing prevents a second writer. Tries for a short
/// while, because a process that was just killed, or its child that is just being forked, may still hold the lock.
[[nodiscard]] bool lock(int fd) noexcept {
    const timespec pause{0, 10 * ns_per_ms};
    for (int attempt = 0;;) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return true;
        if (attempt++ == lock_attempts) return false;
        nanosleep(&pause, nullptr);
    }
}

}  // namespace

void RankDescriptor::set(int number, const struct stat& status) noexcept {
    file_system_ = status.st_dev;
    file_number_ = status.st_ino;
    number_.store(number, std::memory_order_release);
}

bool RankDescriptor::is_of(const struct stat& status) const noexcept {
    return status.st_dev == file_system_ && status.st_ino == file_number_;
}

bool RankDescriptor::read_status(struct stat& status) const noexcept {
    return fstat(number(), &status) == 0 && is_of(status);
}

void RankDescriptor::close(bool unlock) noexcept {
    struct stat status {};
    const int number = number_.exchange(-1, std::memory_order_acq_rel);
    if (number < 0 || fstat(number, &status) != 0 || !is_of(status)) return;
    if (unlock) (void)flock(number, LOCK_UN);
    ::close(number);
}

std::int32_t RankFile::open(const Config& config, bool& busy) {
    // An absolute path: the trainer may change its working directory before the file is opened again.
    std::error_code ignored;
    directory_ = std::filesystem::absolute(config.directory, ignored);
    if (directory_.empty()) directory_ = config.directory;
    path_ = config.directory + "/" + std::string(schema::file_prefix) + std::to_string(config.rank) +
            std::string(schema::file_suffix);
    absolute_path_ = directory_ + path_.substr(config.directory.size());
    limit_bytes_ = config.max_file_bytes;
    std::string why;
    if (!make_directory(why)) return fail(CEP_EIO, "directory: %s: %s", config.directory.c_str(), why.c_str());
    if (!open_path(why, busy)) return fail(CEP_EIO, "directory: %s: %s", path_.c_str(), why.c_str());
    return CEP_OK;
}

bool RankFile::make_directory(std::string& why) const {
    std::error_code error;
    std::error_code ignored;
    std::filesystem::create_directories(directory_, error);
    if (!error || std::filesystem::is_directory(directory_, ignored)) return true;
    why = error.message();
    return false;
}

bool RankFile::open_path(std::string& why, bool& busy) {
    constexpr int flags = O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open_file(absolute_path_.c_str(), O_RDWR | flags, 0666);
    if (fd < 0 && errno == EACCES) fd = open_file(absolute_path_.c_str(), O_WRONLY | flags, 0666);
    if (fd >= 0 && fd < first_own_descriptor) {
        const int higher = fcntl(fd, F_DUPFD_CLOEXEC, first_own_descriptor);
        ::close(fd);
        fd = higher;
    }
    why = fd < 0 ? open_error(errno) : refuse(fd);
    busy = why.empty() && !lock(fd);
    if (why.empty() && !busy) {
        adopt(fd, monotonic_ns());
        return true;
    }
    if (fd >= 0) ::close(fd);
    return why.empty();
}

std::string RankFile::refuse(int fd) const {
    struct stat status {};
    if (fstat(fd, &status) != 0) return message_of(errno);
    if (S_ISFIFO(status.st_mode)) return "is a FIFO, not a regular file";
    if (!S_ISREG(status.st_mode)) return "is not a regular file";
    if (status.st_nlink > 1) return "has more than one link";
    return {};
}

void RankFile::adopt(int fd, std::int64_t now_ns) {
    struct stat status {};
    (void)fstat(fd, &status);
    size_bytes_ = status.st_size;
    partial_bytes_ = 0;
    checked_ns_ = now_ns;
    full_ = false;
    const EarlierRows earlier = size_bytes_ > 0 ? read_earlier_rows(fd, size_bytes_) : EarlierRows{};
    broken_line_ = earlier.broken_line;
    if (attempt_ == 0) attempt_ = earlier.attempt + 1;  // later files belong to the same start
    descriptor_.set(fd, status);
}

void RankFile::close() noexcept {
    descriptor_.close(true);
}

/// What has become of the open file, for a message; empty: nothing.
std::string RankFile::find_loss(struct stat& status, bool looks_at_path) const {
    if (!descriptor_.read_status(status))
        return "the program has closed its descriptor, which is not the library's to close; it is opened anew";
    struct stat at_path {};
    const bool is_there =
        status.st_nlink > 0 &&
        (!looks_at_path || (lstat(absolute_path_.c_str(), &at_path) == 0 && descriptor_.is_of(at_path)));
    return is_there ? "" : "was removed or renamed; rows continue in a new file";
}

RankFile::Change RankFile::check(std::int64_t now_ns, bool at_once, bool closing) {
    if (!descriptor_.is_open()) {
        const bool due = at_once || now_ns >= next_try_ns_;
        return due && reopen(now_ns) ? Change::replaced : Change::none;
    }
    const bool looks_at_path = closing || now_ns - checked_ns_ >= check_interval_ns;
    if (looks_at_path) checked_ns_ = now_ns;
    struct stat status {};
    if (const std::string loss = find_loss(status, looks_at_path); !loss.empty()) {
        notice_ = path_ + ": " + loss;
        close();
        return reopen(now_ns) ? Change::replaced : Change::none;
    }
    const bool shrunk = status.st_size < size_bytes_;
    size_bytes_ = status.st_size;
    if (!shrunk) return Change::none;
    notice_ = path_ + ": another program cut it to " + std::to_string(size_bytes_) + " bytes; rows continue after them";
    adopt(descriptor_.number(), now_ns);
    return Change::shrunk;
}

bool RankFile::reopen(std::int64_t now_ns) {
    bool busy = false;
    if (make_directory(reopen_error_) && open_path(reopen_error_, busy) && !busy) return true;
    if (busy) reopen_error_ = "another profiler is writing this file";
    last_error_ = EIO;
    failed(now_ns);
    return false;
}

std::int64_t RankFile::limit_for(RowKind kind) const noexcept {
    // Room is reserved for the rows that report the loss: some stats rows, and the last one.
    const std::int64_t reserve_bytes = std::min<std::int64_t>(limit_bytes_ / 4, 2048);
    if (kind == RowKind::closing) return limit_bytes_;
    return limit_bytes_ - (kind == RowKind::measurement ? reserve_bytes : reserve_bytes / 2);
}

void RankFile::drop_past_limit(RowBlock& block) {
    if (limit_bytes_ == 0) return;
    const std::int64_t size_bytes = size_bytes_ + (broken_line_ ? 1 : 0);
    std::size_t begin = 0;
    std::size_t kept_bytes = 0;
    std::size_t kept = 0;
    for (const RowBlock::Row row : block.rows) {
        const std::size_t size = row.end - begin;
        if (size_bytes + static_cast<std::int64_t>(kept_bytes + size) <= limit_for(row.kind)) {
            std::memmove(block.text.data() + kept_bytes, block.text.data() + begin, size);
            kept_bytes += size;
            block.rows[kept++] = {kept_bytes, row.kind};
        } else if (row.kind == RowKind::measurement) {
            dropped_file_.add();
            if (!std::exchange(full_, true))
                notice_ = path_ + ": has reached max_file_bytes (" + std::to_string(limit_bytes_) +
                          "); further rows are dropped and counted";
        }
        begin = row.end;
    }
    block.text.resize(kept_bytes);
    block.rows.resize(kept);
}

bool RankFile::append(RowBlock& block, std::int64_t now_ns, bool at_once) {
    if (failing() && !at_once && now_ns < next_try_ns_) {
        drop_past_backlog(block);
        return false;
    }
    if (partial_bytes_ == 0) drop_past_limit(block);
    if (block.empty()) return !failing();
    if (!descriptor_.is_open()) {
        drop_past_backlog(block);
        return false;
    }
    if (write_rows(block)) {
        if (failing()) recovered();
        return true;
    }
    failed(now_ns);
    drop_past_backlog(block);
    return false;
}

bool RankFile::write_rows(RowBlock& block) {
    if (broken_line_) {
        std::size_t done = 0;
        broken_line_ = !write_some("\n", done);
    }
    std::size_t done = partial_bytes_;
    const bool all = !broken_line_ && write_some(block.text, done);
    account(block, done);
    return all;
}

bool RankFile::write_some(std::string_view text, std::size_t& done) {
    const int fd = descriptor_.number();
    while (done < text.size()) {
        const ssize_t size = ::write(fd, text.data() + done, text.size() - done);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) {
            last_error_ = size < 0 ? errno : EIO;
            return false;
        }
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
        written_.add(block.rows[whole].kind == RowKind::measurement);
        bytes = block.rows[whole].end;
    }
    partial_bytes_ = done - bytes;
    block.erase_front(whole);
}

void RankFile::failed(std::int64_t now_ns) {
    if (!failing()) {
        const bool reopening = !descriptor_.is_open();
        notice_ = path_ + ": cannot be written (" + (reopening ? reopen_error_ : message_of(last_error_)) +
                  "): rows wait for the next try; beyond " + std::to_string(backlog_limit_bytes >> 20) +
                  " MiB they are lost";
        dropped_before_failing_ = dropped_io_.get();
    }
    retry_ns_ = std::clamp(retry_ns_ * 2, first_retry_ns, longest_retry_ns);
    next_try_ns_ = now_ns + retry_ns_;
    if (last_error_ == ESTALE) close();  // the server no longer has the file
}

void RankFile::recovered() {
    retry_ns_ = 0;
    notice_ = path_ + ": can be written again; " + std::to_string(dropped_io_.get() - dropped_before_failing_) +
              " rows were lost";
}

bool RankFile::failure_is_transient() const noexcept {
    switch (last_error_) {
        case EAGAIN:
        case EINTR:
        case EIO:
        case ESTALE:
        case ENOMEM:
        case ENOBUFS:
        case ETIMEDOUT:
            return true;
        default:
            return false;
    }
}

void RankFile::drop_last(RowBlock& block) {
    if (block.rows.back().kind == RowKind::measurement)
        dropped_io_.add();
    else
        bookkeeping_lost_ = true;
    block.erase_last();
}

void RankFile::drop_past_backlog(RowBlock& block) {
    while (block.text.size() > backlog_limit_bytes && block.rows.size() > 1) drop_last(block);
}

void RankFile::give_up(RowBlock& block) noexcept {
    dropped_io_.add(block.measurements());
    broken_line_ = broken_line_ || partial_bytes_ > 0;
    partial_bytes_ = 0;
    block.clear();
}

}  // namespace cep
