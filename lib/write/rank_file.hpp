// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/counts.hpp"
#include "base/host_clock.hpp"
#include "options/options.hpp"
#include "write/row_block.hpp"

namespace cep {

/// The descriptor of the rank file. A program may close descriptors that it does not know, and its next file then gets
/// the number: so this remembers which file it is, and leaves any other alone.
class RankDescriptor {
  public:
    RankDescriptor() = default;
    RankDescriptor(const RankDescriptor&) = delete;
    RankDescriptor& operator=(const RankDescriptor&) = delete;

    [[nodiscard]] bool is_open() const noexcept { return number() >= 0; }
    [[nodiscard]] int number() const noexcept { return number_.load(std::memory_order_relaxed); }
    void set(int number, const struct stat& status) noexcept;
    /// Reads the status of the open file. False if the descriptor is no longer that of the rank file.
    [[nodiscard]] bool read_status(struct stat& status) const noexcept;
    [[nodiscard]] bool is_of(const struct stat& status) const noexcept;
    /// Closes the descriptor if it is still the rank file's. `unlock`: children that were just forked may have copies
    /// of it, which would keep the file locked. A forked child must not unlock its parent's file.
    void close(bool unlock) noexcept;

  private:
    std::atomic<int> number_{-1};
    dev_t file_system_ = 0;
    ino_t file_number_ = 0;
};

/// The rank file: opened for append, never truncated, made of whole lines, written by one profiler at a time. One
/// thread at a time uses it; any thread may read the counts.
class RankFile {
  public:
    /// Limit of the rows that wait while the file cannot be written.
    static constexpr std::size_t backlog_limit_bytes = std::size_t{4} << 20;
    static constexpr std::int64_t check_interval_ns = 5 * ns_per_s;
    static constexpr std::int64_t first_retry_ns = ns_per_s / 10;
    static constexpr std::int64_t longest_retry_ns = 5 * ns_per_s;

    /// What happened to the file at its path since the last check.
    enum class Change : std::uint8_t {
        none,
        replaced,  ///< it was removed or renamed, or the program closed it: it is open anew
        shrunk,    ///< another program cut it (logrotate's copytruncate)
    };

    /// `descriptor` outlives this, so that a forked child can close its copy: else the lock would outlive the parent.
    explicit RankFile(RankDescriptor& descriptor) noexcept : descriptor_(descriptor) {}
    RankFile(const RankFile&) = delete;
    RankFile& operator=(const RankFile&) = delete;
    ~RankFile() { close(); }

    /// Makes the directory, then opens and locks the file. If another profiler is writing it, returns CEP_OK and sets
    /// `busy`.
    [[nodiscard]] std::int32_t open(const Config& config, bool& busy);
    void close() noexcept;
    /// The number of this start: one more than the last in the file.
    [[nodiscard]] std::int64_t attempt() const noexcept { return attempt_; }

    /// Whether the open file is still the rank file, and has a name. Compares it with the one at its path every
    /// check_interval_ns, or if the profiler is `closing`. If no file is open, tries to open it when a retry is due or
    /// `at_once`. After a change, the caller must write a run row before other rows.
    [[nodiscard]] Change check(std::int64_t now_ns, bool at_once, bool closing);

    /// Appends the block and empties it. Rows that cannot be written stay in it for a later call; beyond
    /// backlog_limit_bytes the newest rows are lost and counted. After a failure the next try waits 0.1 to 5 s, unless
    /// `at_once`. False while rows wait.
    bool append(RowBlock& block, std::int64_t now_ns, bool at_once);
    /// Empties the block without writing it, and counts its measurements as lost.
    void give_up(RowBlock& block) noexcept;

    [[nodiscard]] bool failing() const noexcept { return retry_ns_ > 0; }
    [[nodiscard]] std::int64_t next_try_ns() const noexcept { return next_try_ns_; }
    /// Whether the last failure may soon pass by itself.
    [[nodiscard]] bool failure_is_transient() const noexcept;
    /// Whether bookkeeping rows have been lost since the last call.
    [[nodiscard]] bool take_bookkeeping_lost() noexcept { return std::exchange(bookkeeping_lost_, false); }
    /// A message for the user, once; else empty.
    [[nodiscard]] std::string take_notice() { return std::exchange(notice_, {}); }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::uint64_t written() const noexcept { return written_.get(); }
    [[nodiscard]] std::uint64_t dropped_file() const noexcept { return dropped_file_.get(); }
    [[nodiscard]] std::uint64_t dropped_io() const noexcept { return dropped_io_.get(); }
    [[nodiscard]] std::uint64_t bytes_written() const noexcept { return bytes_written_.get(); }

  private:
    [[nodiscard]] bool open_path(std::string& why, bool& busy);
    [[nodiscard]] bool make_directory(std::string& why) const;
    [[nodiscard]] std::string refuse(int fd) const;
    void adopt(int fd, std::int64_t now_ns);
    [[nodiscard]] bool reopen(std::int64_t now_ns);
    [[nodiscard]] std::string find_loss(struct stat& status, bool looks_at_path) const;
    void drop_past_limit(RowBlock& block);
    [[nodiscard]] std::int64_t limit_for(RowKind kind) const noexcept;
    void drop_past_backlog(RowBlock& block);
    void drop_last(RowBlock& block);
    [[nodiscard]] bool write_rows(RowBlock& block);
    [[nodiscard]] bool write_some(std::string_view text, std::size_t& done);
    void account(RowBlock& block, std::size_t done);
    void failed(std::int64_t now_ns);
    void recovered();

    RankDescriptor& descriptor_;
    std::string directory_;  ///< absolute
    std::string path_;       ///< for messages
    std::string absolute_path_;
    std::int64_t size_bytes_ = 0;
    std::int64_t limit_bytes_ = 0;
    std::int64_t attempt_ = 0;
    std::size_t partial_bytes_ = 0;  ///< bytes of the block's first row that are already in the file
    bool broken_line_ = false;       ///< the file ends with an incomplete line that will never be finished
    bool full_ = false;              ///< limit_bytes_ has been reached and reported
    bool bookkeeping_lost_ = false;
    std::int64_t checked_ns_ = 0;
    std::int64_t retry_ns_ = 0;  ///< pause before the next try; 0: the last one succeeded
    std::int64_t next_try_ns_ = 0;
    int last_error_ = 0;
    std::uint64_t dropped_before_failing_ = 0;
    std::string reopen_error_;
    std::string notice_;
    Count written_;
    Count dropped_file_;
    Count dropped_io_;
    Count bytes_written_;
};

}  // namespace cep
