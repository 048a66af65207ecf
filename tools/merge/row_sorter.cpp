// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <queue>

namespace cep::tool {
namespace {

// Batches of this size stay in a core's cache while they are filled and sorted.
constexpr std::size_t max_batch_bytes = std::size_t{4} << 20;
constexpr std::size_t min_window_bytes = std::size_t{16} << 10;
constexpr std::size_t max_window_bytes = std::size_t{256} << 10;
constexpr std::size_t min_windows = 16;

/// Reads a run, row by row. A run of a file takes about `window_bytes`, from its first row to its last.
class RunCursor {
  public:
    RunCursor(const RowRun& run, std::size_t window_bytes)
        : run_(run), window_bytes_(window_bytes), next_byte_(run.begin) {
        advance();
    }

    [[nodiscard]] const RowEntry& entry() const { return entry_; }
    /// Valid until advance().
    [[nodiscard]] std::string_view text() const { return text_; }
    /// False at the end of the run. Throws ReadError.
    bool advance() {
        if (run_.file != nullptr) return advance_in_file();
        if (next_row_ == run_.batch.entries().size()) return false;
        entry_ = run_.batch.entries()[next_row_++];
        text_ = run_.batch.text_of(entry_);
        return true;
    }

  private:
    bool advance_in_file() {
        if (in_window_ == window_.size() && next_byte_ == run_.end) return false;
        take(sizeof entry_).copy(reinterpret_cast<char*>(&entry_), sizeof entry_);
        text_ = take(entry_.size);
        return true;
    }

    /// The next bytes of the run.
    std::string_view take(std::size_t size) {
        if (in_window_ + size > window_.size()) move_window(size);
        return std::string_view(window_).substr(std::exchange(in_window_, in_window_ + size), size);
    }

    void move_window(std::size_t least_bytes) {
        window_.erase(0, in_window_);
        in_window_ = 0;
        const std::size_t kept = window_.size();
        const std::uint64_t left = run_.end - next_byte_;
        window_.resize(std::min<std::uint64_t>(std::max(window_bytes_, least_bytes), kept + left));
        run_.file->read(next_byte_, window_.data() + kept, window_.size() - kept);
        next_byte_ += window_.size() - kept;
    }

    const RowRun& run_;
    const std::size_t window_bytes_;
    RowEntry entry_;
    std::string_view text_;
    std::size_t next_row_ = 0;  // of the batch
    std::string window_;        // of the file
    std::size_t in_window_ = 0;
    std::uint64_t next_byte_;  // behind the window
};

/// Whose next row comes later.
struct ComesLater {
    bool operator()(const std::unique_ptr<RunCursor>& a, const std::unique_ptr<RunCursor>& b) const {
        return b->entry() < a->entry();
    }
};

/// Writes rows in order to the end of a file, in large pieces.
RowRun write_run(const std::shared_ptr<SpillFile>& file, const std::function<void(const EmitRow&)>& emit_rows) {
    constexpr std::size_t piece_bytes = std::size_t{256} << 10;
    RowRun run;
    run.file = file;
    run.begin = file->size_bytes();
    std::string piece;
    bool is_first = true;
    emit_rows([&](const RowEntry& entry, std::string_view text) {
        if (std::exchange(is_first, false)) run.first = entry;
        run.last = entry;
        piece.append(reinterpret_cast<const char*>(&entry), sizeof entry).append(text);
        if (piece.size() < piece_bytes) return;
        file->append(piece);
        piece.clear();
    });
    file->append(piece);
    run.end = file->size_bytes();
    return run;
}

/// Orders the runs by their first rows. Returns how many runs of files are read at the same time, at most, when all
/// are merged.
std::size_t order_and_count_windows(std::vector<RowRun>& runs) {
    std::sort(runs.begin(), runs.end(), [](const RowRun& a, const RowRun& b) { return a.first < b.first; });
    const auto ends_later = [](const RowRun* a, const RowRun* b) { return b->last < a->last; };
    std::priority_queue<const RowRun*, std::vector<const RowRun*>, decltype(ends_later)> begun(ends_later);
    std::size_t most = 0;
    for (const RowRun& run : runs) {
        if (run.file == nullptr) continue;
        while (!begun.empty() && begun.top()->last < run.first) begun.pop();
        begun.push(&run);
        most = std::max(most, begun.size());
    }
    return most;
}

/// Emits the rows of `count` runs, which are ordered by their first rows. Throws ReadError.
void merge_runs(const RowRun* runs, std::size_t count, std::size_t window_bytes, const EmitRow& emit) {
    std::vector<std::unique_ptr<RunCursor>> heap;  // of the runs that are being read
    std::size_t next = 0;
    for (;;) {
        while (next < count && (heap.empty() || !(heap.front()->entry() < runs[next].first))) {
            heap.push_back(std::make_unique<RunCursor>(runs[next++], window_bytes));
            std::push_heap(heap.begin(), heap.end(), ComesLater{});
        }
        if (heap.empty()) return;
        std::pop_heap(heap.begin(), heap.end(), ComesLater{});
        RunCursor& cursor = *heap.back();
        emit(cursor.entry(), cursor.text());
        if (cursor.advance())
            std::push_heap(heap.begin(), heap.end(), ComesLater{});
        else
            heap.pop_back();
    }
}

}  // namespace

RowBatch::RowBatch(std::size_t bytes) {
    constexpr std::size_t usual_row_bytes = 200;
    const std::size_t rows = bytes / (usual_row_bytes + sizeof(RowEntry));
    text_.reserve(rows * usual_row_bytes);
    entries_.reserve(rows);
}

void RowBatch::clear() {
    text_.clear();
    entries_.clear();
}

// A quarter of the memory is for batches being filled, half for sorted batches, a quarter for reading runs again.
RowSorter::RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads)
    : batch_bytes_(std::min(max_batch_bytes, memory_bytes / 4 / std::max(threads, 1U))),
      kept_limit_bytes_(memory_bytes / 2),
      windows_limit_bytes_(memory_bytes / 4),
      spill_directory_(std::move(spill_directory)) {}

// Used batches first: new memory is slow to touch.
RowBatch RowSorter::take_batch() {
    const std::lock_guard lock(mutex_);
    if (batches_.empty()) return RowBatch(batch_bytes_);
    RowBatch batch = std::move(batches_.back());
    batches_.pop_back();
    return batch;
}

void RowSorter::give_back(RowBatch&& batch) {
    const std::lock_guard lock(mutex_);
    batches_.push_back(std::move(batch));
}

bool RowSorter::take_room(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + bytes > kept_limit_bytes_) return false;
    kept_bytes_ += bytes;
    return true;
}

RowRun RowSorter::write_to_disk(const RowBatch& sorted) {
    const std::lock_guard lock(spill_mutex_);
    if (spill_ == nullptr) spill_ = std::make_shared<SpillFile>(spill_directory_);
    return write_run(spill_, [&](const EmitRow& emit) {
        for (const RowEntry& entry : sorted.entries()) emit(entry, sorted.text_of(entry));
    });
}

void RowSorter::add(RowBatch&& batch) {
    if (batch.entries().empty()) return;
    batch.sort();
    const RowEntry first = batch.entries().front();
    const RowEntry last = batch.entries().back();
    if (take_room(batch.used_bytes())) return add_run({first, last, std::move(batch)});
    add_run(write_to_disk(batch));
    batch.clear();
    give_back(std::move(batch));
}

void RowSorter::add_run(RowRun&& run) {
    const std::lock_guard lock(mutex_);
    runs_.push_back(std::move(run));
}

std::size_t RowSorter::window_bytes(std::size_t windows) const {
    return std::clamp(windows_limit_bytes_ / std::max<std::size_t>(windows, 1), min_window_bytes, max_window_bytes);
}

// Neighbouring runs are merged, so that the merged runs overlap less.
void RowSorter::merge_into_fewer() {
    const std::size_t group_runs = std::max(min_windows, windows_limit_bytes_ / min_window_bytes);
    while (order_and_count_windows(runs_) > group_runs) {
        const auto file = std::make_shared<SpillFile>(spill_directory_);
        std::vector<RowRun> merged;
        for (std::size_t begin = 0; begin < runs_.size(); begin += group_runs)
            merged.push_back(write_run(file, [&](const EmitRow& emit) {
                merge_runs(runs_.data() + begin, std::min(group_runs, runs_.size() - begin), min_window_bytes, emit);
            }));
        runs_ = std::move(merged);
        spill_ = nullptr;
    }
}

void RowSorter::finish(const EmitRow& emit) {
    for (RowBatch& batch : std::exchange(batches_, {})) add(std::move(batch));
    batches_.clear();
    merge_into_fewer();
    merge_runs(runs_.data(), runs_.size(), window_bytes(order_and_count_windows(runs_)), emit);
}

void RowCollector::add(RowEntry& entry, std::string_view text) {
    if (!batch_) batch_ = sorter_.take_batch();
    entry.file = file_;
    entry.index = rows_++;
    batch_->add(entry, text);
    if (batch_->used_bytes() < sorter_.batch_bytes()) return;
    sorter_.add(std::move(*batch_));
    batch_.reset();
}

void RowCollector::end() {
    if (batch_) sorter_.give_back(std::move(*batch_));
    batch_.reset();
}

}  // namespace cep::tool
