// SPDX-License-Identifier: Apache-2.0
//
// Progress of a long run, on standard error: a bar on a terminal, else a plain line every few seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace cep::tool {

/// The share of all that a command does, so that the bar of one that reads its inputs twice does not go back.
struct WorkRange {
    double from = 0;
    double to = 1;
};

class Progress {
  public:
    /// `total_bytes` 0: not known. `done`: what happens to the bytes, such as "read".
    explicit Progress(std::uint64_t total_bytes, WorkRange range = {}, std::string_view done = "read");
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    /// Cheap: looks at the clock once a megabyte. Shows nothing in the first second. Thread-safe.
    void advance(std::uint64_t bytes);
    /// Removes the bar, before anything else is written to the terminal. Not concurrently with advance().
    void clear();

  private:
    using Clock = std::chrono::steady_clock;
    void show(std::uint64_t done_bytes);

    const std::uint64_t total_bytes_;
    const WorkRange range_;
    const std::string_view done_;
    std::atomic<std::uint64_t> done_bytes_{0};
    std::atomic<std::uint64_t> next_look_bytes_{0};
    const Clock::time_point start_;
    std::mutex mutex_;  // guards what follows
    Clock::time_point next_show_;
    bool terminal_;
    bool bar_shown_ = false;
};

}  // namespace cep::tool
