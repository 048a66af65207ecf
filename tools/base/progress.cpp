// SPDX-License-Identifier: Apache-2.0
#include "base/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include "base/say.hpp"
#include "base/terminal.hpp"
#include "base/units.hpp"

namespace cep::tool {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t look_every_bytes = std::uint64_t{1} << 20;
constexpr milliseconds quiet_time{1000};
constexpr milliseconds bar_period{100};
constexpr milliseconds line_period{5000};
constexpr int bar_width = 30;

std::string bar(double fraction) {
    const int filled = static_cast<int>(fraction * bar_width);
    return fmt::format("[{:=<{}}{: <{}}]", "", filled, "", bar_width - filled);
}

}  // namespace

Progress::Progress(std::uint64_t total_bytes, WorkRange range, std::string_view done)
    : total_bytes_(total_bytes),
      range_(range),
      done_(done),
      start_(Clock::now()),
      next_show_(start_ + quiet_time),
      terminal_(is_terminal(STDERR_FILENO)) {}

Progress::~Progress() {
    clear();
}

void Progress::advance(std::uint64_t bytes) {
    const std::uint64_t done_bytes = done_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (done_bytes < next_look_bytes_.load(std::memory_order_relaxed)) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    next_look_bytes_.store(done_bytes + look_every_bytes, std::memory_order_relaxed);
    const Clock::time_point now = Clock::now();
    if (now < next_show_) return;
    next_show_ = now + (terminal_ ? bar_period : line_period);
    show(done_bytes);
}

void Progress::show(std::uint64_t done_bytes) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const auto done = static_cast<double>(done_bytes);
    std::string text = fmt::format("{} at {}/s", format_bytes(done), format_bytes(seconds > 0 ? done / seconds : 0));
    if (total_bytes_ > 0) {
        const double of_range = std::min(1.0, done / static_cast<double>(total_bytes_));
        const double fraction = range_.from + of_range * (range_.to - range_.from);
        const std::string percent = fmt::format("{:3.0f} %", 100 * fraction);
        text = terminal_ ? fmt::format("{} {}  {}", bar(fraction), percent, text)
                         : fmt::format("{} {}, {}", percent, done_, text);
    }
    show_status(fmt::format("{}{}{}", terminal_ ? "\r" : "cep: ", text, terminal_ ? "\033[K" : "\n"));
    bar_shown_ = terminal_;
}

void Progress::clear() {
    if (!bar_shown_) return;
    show_status("\r\033[K");
    bar_shown_ = false;
}

}  // namespace cep::tool
