// SPDX-License-Identifier: Apache-2.0
#include "read/read_run.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/descriptors.hpp"
#include "base/parallel.hpp"

namespace cep::tool {
namespace {

constexpr unsigned max_default_threads = 16;
constexpr std::uint64_t bytes_worth_a_thread = std::uint64_t{1} << 20;

/// Threads that read files in order, each one at a time.
class ReadingPool {
  public:
    ReadingPool(const InputSet& set, const ReadOptions& options, RunSelection& selection,
                const detail::SinkCalls& calls)
        : set_(set), selection_(selection), is_settled_(selection.is_settled()), calls_(calls) {
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < set.files.size(); ++i) {
            if (is_settled_ && selection.of_file(i).has_none()) continue;
            files_.push_back(i);
            bytes += set.files[i].size_bytes;
        }
        end_ = files_.size();
        threads_ = useful_threads(options.thread_count());
        progress_.emplace(bytes, options.range);
    }

    InputCounts read() {
        counts_.add(set_);
        {
            const auto helpers = start_threads(threads_ - 1, [this] { work(); });
            work();
        }
        progress_->clear();
        if (failure_) std::rethrow_exception(failure_);
        return std::move(counts_);
    }

  private:
    struct Task {
        std::unique_ptr<RowSink> sink;
        RunTracker runs;
        FileReport report;
        std::atomic<bool> abandoned{false};
        bool is_read = false;
    };

    // Starting a thread costs more than reading small files. The size of a pipe is unknown.
    [[nodiscard]] unsigned useful_threads(unsigned wanted) const {
        std::uint64_t bytes = 0;
        for (const std::size_t i : files_)
            bytes += set_.files[i].size_bytes > 0 ? set_.files[i].size_bytes : bytes_worth_a_thread;
        // Each thread has a file open. Two more are left for what a sink may open.
        const std::uint64_t descriptors = free_descriptors();
        const std::uint64_t useful = std::min(
            {1 + bytes / bytes_worth_a_thread, std::uint64_t{files_.size()}, descriptors > 2 ? descriptors - 2 : 1});
        return static_cast<unsigned>(std::clamp<std::uint64_t>(useful, 1, wanted));
    }

    void work() {
        RowReader reader;
        std::unique_lock lock(mutex_);
        for (std::size_t index = 0; start_file(lock, index);) {
            Task& task = tasks_[index];
            try {
                task.sink = calls_.make(set_.files[files_[index]], index);
                lock.unlock();
                read(index, task, reader);
                lock.lock();
            } catch (...) {
                if (!lock.owns_lock()) lock.lock();
                fail(index);
            }
            task.is_read = true;
            take_finished();
            changed_.notify_all();
        }
    }

    // False if there is none left.
    bool start_file(std::unique_lock<std::mutex>& lock, std::size_t& index) {
        // Limits memory: finished files wait for slower ones before them.
        const std::size_t max_tasks = 4 * static_cast<std::size_t>(threads_);
        changed_.wait(lock, [&] { return next_file_ >= end_ || tasks_.size() < max_tasks; });
        index = next_file_;
        return next_file_ < end_ && ++next_file_ > 0;
    }

    void read(std::size_t index, Task& task, RowReader& reader) {
        const std::size_t file = files_[index];
        const FileSelection* const selection = is_settled_ ? &selection_.of_file(file) : nullptr;
        task.report =
            read_file({set_.files[file], *task.sink, task.runs, selection}, reader, *progress_, task.abandoned);
        if (!task.abandoned) task.sink->end(task.runs);
    }

    void take_finished() {
        for (auto task = tasks_.begin(); task != tasks_.end() && task->first < end_ && task->second.is_read;) {
            try {
                counts_.add(task->second.report);
                calls_.take(*task->second.sink, std::move(task->second.report));
                if (!is_settled_) selection_.add(std::move(task->second.runs));
            } catch (...) {
                return fail(task->first);
            }
            task = tasks_.erase(task);
        }
    }

    // Still reads the files before the one that failed: the failure that is reported is always the first in the order
    // of the files.
    void fail(std::size_t index) {
        if (index >= end_ && failure_) return;
        failure_ = std::current_exception();
        end_ = index;
        for (auto task = tasks_.lower_bound(index); task != tasks_.end(); ++task) task->second.abandoned = true;
    }

    const InputSet& set_;
    RunSelection& selection_;
    const bool is_settled_;
    const detail::SinkCalls& calls_;
    std::vector<std::size_t> files_;  // of the set, that are read
    unsigned threads_ = 1;
    std::optional<Progress> progress_;
    InputCounts counts_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t next_file_ = 0;
    std::map<std::size_t, Task> tasks_;  // by index in files_: started and not taken
    std::exception_ptr failure_;
    std::size_t end_ = 0;  // files from here on are not read: past the last, or the first that failed
};

}  // namespace

unsigned usable_cores() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    const unsigned count = ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<unsigned>(CPU_COUNT(&cores))
                                                                             : std::thread::hardware_concurrency();
    return std::clamp(count, 1U, max_default_threads);
}

InputCounts detail::read_run(const InputSet& set, const ReadOptions& options, RunSelection& selection,
                             const SinkCalls& calls) {
    ReadOptions last = options;
    if (!selection.is_settled()) {
        InputCounts counts = ReadingPool(set, options, selection, calls).read();
        selection.settle();
        if (selection.has_all()) return counts;
        last.range.from = last.range.to;
        calls.restart();
    }
    if (!selection.has_all()) selection.check_reading_again(set);
    InputCounts counts = ReadingPool(set, last, selection, calls).read();
    if (!selection.has_all()) selection.describe(counts);
    return counts;
}

}  // namespace cep::tool
