// SPDX-License-Identifier: Apache-2.0
#include "read/read_all.hpp"

#include <sched.h>

#include <algorithm>
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

// Starting a thread costs more than reading a small file. The size of a pipe is unknown: it gets all threads.
unsigned threads_for(const InputSet& set, unsigned wanted) {
    std::uint64_t useful = 0;
    for (const InputFile& file : set.files)
        useful += file.size_bytes > 0 ? 1 + file.size_bytes / bytes_worth_a_thread : wanted;
    // Each thread has a file open. Two more are left for what a sink may open.
    const std::uint64_t files = free_descriptors();
    useful = std::min(useful, files > 2 ? files - 2 : 1);
    return static_cast<unsigned>(std::clamp<std::uint64_t>(useful, 1, wanted));
}

/// Threads that read files in order, several at a time. A thread that finds no new file helps with one being read.
class ReadingPool {
  public:
    ReadingPool(const InputSet& set, const ReadOptions& options, const detail::MakeSink& make_sink,
                const detail::TakeSink& take)
        : set_(set),
          threads_(threads_for(set, options.thread_count())),
          sizes_(options.sizes),
          make_sink_(make_sink),
          take_(take),
          progress_(set.size_bytes, options.part) {}

    InputCounts read() {
        counts_.add(set_);
        {
            const auto helpers = start_threads(threads_ - 1, [this] { work(); });
            work();
        }
        progress_.clear();
        if (failure_) std::rethrow_exception(failure_);
        return std::move(counts_);
    }

  private:
    struct Task {
        Task(std::size_t file_index, const InputFile& file, std::unique_ptr<RowSink> own_sink, Progress& progress,
             const BlockSizes& sizes)
            : index(file_index), sink(std::move(own_sink)), reader(std::in_place, file, *sink, progress, sizes) {}

        std::size_t index;
        std::unique_ptr<RowSink> sink;
        std::optional<FileReader> reader;  // empty once the file is read
        FileReport report;
        unsigned threads = 0;
        bool has_work = true;
    };

    void work();
    Task* next_task(std::unique_lock<std::mutex>& lock);
    Task* start_file();
    Task* task_to_help();
    void read(Task& task, ReadingThread& thread);
    void leave(Task& task, std::unique_lock<std::mutex>& lock);
    void finish(Task& task);
    void take_finished();
    void fail(std::size_t index);

    const InputSet& set_;
    unsigned threads_;
    const BlockSizes sizes_;
    const detail::MakeSink& make_sink_;
    const detail::TakeSink& take_;
    Progress progress_;
    InputCounts counts_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t next_file_ = 0;
    std::size_t next_taken_ = 0;
    std::map<std::size_t, Task> tasks_;  // by index of the file: started and not taken
    std::exception_ptr failure_;
    std::size_t end_ = set_.files.size();  // files from here on are not read: past the last, or the first that failed
};

void ReadingPool::work() {
    ReadingThread thread;
    std::unique_lock lock(mutex_);
    while (Task* task = next_task(lock)) {
        ++task->threads;
        lock.unlock();
        read(*task, thread);
        lock.lock();
        leave(*task, lock);
    }
}

void ReadingPool::read(Task& task, ReadingThread& thread) {
    try {
        task.reader->work(thread);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        fail(task.index);
    }
}

ReadingPool::Task* ReadingPool::next_task(std::unique_lock<std::mutex>& lock) {
    // Limits memory: finished files wait for slower ones before them.
    const std::size_t max_tasks = 4 * static_cast<std::size_t>(threads_);
    for (;;) {
        if (next_file_ < end_ && tasks_.size() < max_tasks)
            if (Task* task = start_file()) return task;
        if (Task* task = task_to_help()) return task;
        if (next_file_ >= end_) return nullptr;
        changed_.wait(lock);
    }
}

ReadingPool::Task* ReadingPool::start_file() {
    const std::size_t index = next_file_++;
    const InputFile& file = set_.files[index];
    try {
        return &tasks_.try_emplace(index, index, file, make_sink_(file, index), progress_, sizes_).first->second;
    } catch (...) {
        fail(index);
        return nullptr;
    }
}

// The file with the fewest threads; of those, the one that others wait for.
ReadingPool::Task* ReadingPool::task_to_help() {
    Task* chosen = nullptr;
    for (auto& [index, task] : tasks_)
        if (task.has_work && (chosen == nullptr || task.threads < chosen->threads)) chosen = &task;
    return chosen;
}

void ReadingPool::leave(Task& task, std::unique_lock<std::mutex>& lock) {
    task.has_work = false;
    if (--task.threads > 0) return;
    if (task.index < end_) {
        lock.unlock();
        finish(task);
        lock.lock();
    }
    task.reader.reset();
    take_finished();
    changed_.notify_all();
}

void ReadingPool::finish(Task& task) {
    try {
        task.report = task.reader->finish();
        task.sink->end();
        task.sink->amend(task.report);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        fail(task.index);
    }
}

void ReadingPool::take_finished() {
    while (!tasks_.empty() && !tasks_.begin()->second.reader) {
        Task& task = tasks_.begin()->second;
        if (task.index >= end_ || task.index != next_taken_) return;
        try {
            counts_.add(task.report);
            take_(*task.sink, std::move(task.report));
        } catch (...) {
            return fail(task.index);
        }
        tasks_.erase(tasks_.begin());
        ++next_taken_;
    }
}

// Still reads the files before the one that failed: the failure that is reported is always the first in the order of
// the files.
void ReadingPool::fail(std::size_t index) {
    if (index >= end_ && failure_) return;
    failure_ = std::current_exception();
    end_ = index;
    for (auto& [other, task] : tasks_) {
        if (other < end_) continue;
        task.has_work = false;
        if (task.reader) task.reader->abandon();
    }
    changed_.notify_all();
}

}  // namespace

unsigned usable_cores() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    const unsigned count = ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<unsigned>(CPU_COUNT(&cores))
                                                                             : std::thread::hardware_concurrency();
    return std::clamp(count, 1U, max_default_threads);
}

InputCounts detail::read_all(const InputSet& set, const ReadOptions& options, const MakeSink& make_sink,
                             const TakeSink& take) {
    return ReadingPool(set, options, make_sink, take).read();
}

}  // namespace cep::tool
