// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/descriptors.hpp"

namespace cep::tool {
namespace {

// Batches of this size stay in a core's cache while they are filled and sorted.
constexpr std::size_t max_batch_bytes = std::size_t{4} << 20;
constexpr std::size_t min_window_bytes = std::size_t{16} << 10;
constexpr std::size_t max_window_bytes = std::size_t{256} << 10;
constexpr std::size_t min_windows = 16;
constexpr std::size_t max_kept_files = 512;

// Each thread needs one of the files that may still be opened to read, and two spills need two each.
std::size_t files_to_keep(unsigned threads) {
    const std::size_t needed = threads + 4;
    const std::size_t free = free_descriptors();
    return free > needed ? std::min(max_kept_files, free - needed) : 0;
}

}  // namespace

// A quarter of the memory is for batches being filled, half for sorted batches, a quarter for reading runs again.
RowSorter::RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads)
    : batch_bytes_(std::min(max_batch_bytes, memory_bytes / 4 / std::max(threads, 1U))),
      kept_limit_bytes_(memory_bytes / 2),
      windows_limit_bytes_(memory_bytes / 4),
      spill_directory_(std::move(spill_directory)),
      max_files_(files_to_keep(threads)) {}

// Used batches first: new memory is slow to touch.
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
    if (!take_from(spare_, batch)) batch.reserve_references(batch_bytes_ + sizeof(RowEntry));
    return batch;
}

void RowSorter::give_back(RowBatch&& batch) {
    const std::lock_guard lock(mutex_);
    unfinished_.push_back(std::move(batch));
}

const PlainFile* RowSorter::keep_file(int descriptor, const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (files_.size() >= max_files_) return nullptr;
    const int duplicate = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0) return nullptr;
    return files_.emplace_back(std::make_unique<PlainFile>(duplicate, path)).get();
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

void RowSorter::add(RowBatch&& batch, const PlainFile* file) {
    if (batch.entries().empty()) return;
    batch.sort();
    const bool is_mostly_empty = batch.room_bytes() > 2 * batch.used_bytes();
    if (!take_room(batch.used_bytes())) {
        add_run(RowRun(batch, file, spill()));
    } else if (is_mostly_empty) {
        add_run(RowRun(RowBatch(batch), file));  // the copy has no unused memory
    } else {
        return add_run(RowRun(std::move(batch), file));
    }
    batch.clear();
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(batch));
}

std::size_t RowSorter::window_bytes(std::size_t windows) const {
    return std::clamp(windows_limit_bytes_ / std::max<std::size_t>(windows, 1), min_window_bytes, max_window_bytes);
}

// Neighbouring runs are merged, so that the merged runs overlap less.
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
    for (const std::unique_ptr<PlainFile>& file : files_) file->check_unchanged();
}

void RowCollector::begin_block(const BlockLocation& location) {
    block_ = location;
    if (!file_) file_ = location.descriptor >= 0 ? sorter_.keep_file(location.descriptor, path_) : nullptr;
}

void RowCollector::add(RowEntry& entry, std::string_view text) {
    if (!batch_) batch_ = copies() ? sorter_.take_batch() : sorter_.take_empty_batch();
    entry.file = index_;
    entry.position = block_.position + static_cast<std::uint64_t>(text.data() - block_.begin);
    if (copies()) {
        batch_->add(entry, text);
    } else {
        batch_->add_reference(entry, text);
    }
    if (batch_->used_bytes() < sorter_.batch_bytes()) return;
    sorter_.add(std::move(*batch_), *file_);
    batch_.reset();
}

void RowCollector::end() {
    if (!batch_) return;
    if (copies()) {
        sorter_.give_back(std::move(*batch_));
    } else {
        sorter_.add(std::move(*batch_), *file_);
    }
    batch_.reset();
}

}  // namespace cep::tool
