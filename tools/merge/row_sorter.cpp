// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace cep::tool {
namespace {

// Small batches stay in a core's cache while they are filled and sorted.
constexpr std::size_t max_batch_bytes = std::size_t{4} << 20;
constexpr std::size_t min_window_bytes = std::size_t{16} << 10;
constexpr std::size_t max_window_bytes = std::size_t{256} << 10;
constexpr std::size_t min_windows = 16;
constexpr std::size_t max_kept_inputs = 512;

// Half of the files that may be open are left to everything else.
std::size_t inputs_that_may_be_kept() {
    struct rlimit limit {};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    return std::min<std::size_t>(max_kept_inputs, limit.rlim_cur / 2);
}

}  // namespace

// A quarter of the memory is for batches that are filled, half for those that are kept, a quarter for reading again.
RowSorter::RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads)
    : batch_bytes_(std::min(max_batch_bytes, memory_bytes / 4 / std::max(threads, 1U))),
      kept_limit_bytes_(memory_bytes / 2),
      windows_limit_bytes_(memory_bytes / 4),
      spill_directory_(std::move(spill_directory)),
      max_inputs_(inputs_that_may_be_kept()) {}

RowSorter::~RowSorter() {
    for (const int input : inputs_) ::close(input);
}

// Memory that is there is taken first: new memory is slow to touch.
bool RowSorter::take_from(std::vector<RowBatch>& batches, RowBatch& batch) {
    const std::lock_guard lock(mutex_);
    if (batches.empty()) return false;
    batch = std::move(batches.back());
    batches.pop_back();
    return true;
}

RowBatch RowSorter::take_batch() {
    RowBatch batch;
    if (!take_from(unfinished_, batch) && !take_from(spare_, batch)) batch.reserve_rows(batch_bytes_);
    return batch;
}

RowBatch RowSorter::take_empty_batch() {
    RowBatch batch;
    if (!take_from(spare_, batch)) batch.reserve_places(batch_bytes_ + sizeof(RowEntry));
    return batch;
}

void RowSorter::give_back(RowBatch&& batch) {
    const std::lock_guard lock(mutex_);
    unfinished_.push_back(std::move(batch));
}

int RowSorter::keep_input(int descriptor) {
    const std::lock_guard lock(mutex_);
    if (inputs_.size() >= max_inputs_) return -1;
    const int input = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (input >= 0) inputs_.push_back(input);
    return input;
}

bool RowSorter::take_room(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + bytes > kept_limit_bytes_) return false;
    kept_bytes_ += bytes;
    return true;
}

std::shared_ptr<Spill> RowSorter::spill() {
    const std::lock_guard lock(mutex_);
    if (spill_ == nullptr) spill_ = std::make_shared<Spill>(spill_directory_);
    return spill_;
}

void RowSorter::add_run(RowRun&& run) {
    const std::lock_guard lock(mutex_);
    runs_.push_back(std::move(run));
}

void RowSorter::add(RowBatch&& batch, int kept_input) {
    if (batch.entries().empty()) return;
    batch.sort();
    const bool roomy = batch.room_bytes() > 2 * batch.used_bytes();
    if (!take_room(batch.used_bytes())) {
        add_run(RowRun(batch, kept_input, spill()));
    } else if (roomy) {
        add_run(RowRun(RowBatch(batch), kept_input));  // a copy has no more room than it needs
    } else {
        return add_run(RowRun(std::move(batch), kept_input));
    }
    batch.clear();
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(batch));
}

std::size_t RowSorter::window_bytes(std::size_t windows) const {
    return std::clamp(windows_limit_bytes_ / std::max<std::size_t>(windows, 1), min_window_bytes, max_window_bytes);
}

// Runs that lie beside each other go together, so that the merged ones overlap less.
void RowSorter::merge_into_fewer() {
    const std::size_t group_runs = std::max(min_windows, windows_limit_bytes_ / min_window_bytes);
    while (order_and_count_windows(runs_) > group_runs) {
        const auto spill = std::make_shared<Spill>(spill_directory_);
        std::vector<RowRun> merged;
        for (std::size_t begin = 0; begin < runs_.size(); begin += group_runs)
            merged.push_back(merge_into_one(runs_.data() + begin, std::min(group_runs, runs_.size() - begin),
                                            min_window_bytes, spill));
        runs_ = std::move(merged);
        spill_ = nullptr;
    }
}

void RowSorter::finish(const EmitRow& emit) {
    for (RowBatch& batch : std::exchange(unfinished_, {})) add(std::move(batch));
    spare_.clear();
    merge_into_fewer();
    merge_runs(runs_.data(), runs_.size(), window_bytes(order_and_count_windows(runs_)), emit);
}

}  // namespace cep::tool
