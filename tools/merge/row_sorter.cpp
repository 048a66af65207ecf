// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <queue>
#include <span>

namespace cep::tool {
namespace {

// Batches of this size stay in a core's cache while they are filled and sorted.
constexpr std::size_t max_batch_bytes = std::size_t{4} << 20;
constexpr std::size_t min_window_bytes = std::size_t{16} << 10;
constexpr std::size_t max_window_bytes = std::size_t{256} << 10;
constexpr std::size_t min_windows = 16;

std::string_view bytes_of(std::span<const RowEntry> entries) {
    return {reinterpret_cast<const char*>(entries.data()), entries.size_bytes()};
}

/// Reads a run, row by row.
class RunCursor {
  public:
    RunCursor(const RowRun& run, std::size_t window_bytes)
        : run_(run),
          window_rows_(std::max<std::size_t>(1, window_bytes / 4 / sizeof(RowEntry))),
          text_window_bytes_(window_bytes / 4 * 3),
          next_text_(run.texts_begin),
          rows_left_(run.rows) {
        fill_entries();
    }

    [[nodiscard]] const RowEntry& entry() const { return entries_.front(); }
    /// Valid until advance(). Call once for each row.
    [[nodiscard]] std::string_view text() {
        if (run_.spill == nullptr) return run_.batch.text_of(entry());
        if (in_window_ + entry().size > window_.size()) fill_texts();
        return std::string_view(window_).substr(std::exchange(in_window_, in_window_ + entry().size), entry().size);
    }
    /// False at the end of the run.
    bool advance() {
        entries_ = entries_.subspan(1);
        if (entries_.empty()) fill_entries();
        return !entries_.empty();
    }

  private:
    void fill_entries() {
        if (run_.spill == nullptr) {
            entries_ = rows_left_ > 0 ? std::span(run_.batch.entries()) : std::span<const RowEntry>();
            rows_left_ = 0;
            return;
        }
        own_entries_.resize(std::min(window_rows_, rows_left_));
        entries_ = own_entries_;
        const std::uint64_t begin = run_.entries_begin + (run_.rows - rows_left_) * sizeof(RowEntry);
        run_.spill->entries.read(begin, reinterpret_cast<char*>(own_entries_.data()), entries_.size_bytes());
        rows_left_ -= entries_.size();
    }

    // As many of the next texts as fit, at least one.
    void fill_texts() {
        std::size_t size = 0;
        for (const RowEntry& next : entries_) {
            if (size > 0 && size + next.size > text_window_bytes_) break;
            size += next.size;
        }
        window_.resize(size);
        run_.spill->texts.read(next_text_, window_.data(), size);
        next_text_ += size;
        in_window_ = 0;
    }

    const RowRun& run_;
    const std::size_t window_rows_;
    const std::size_t text_window_bytes_;
    std::span<const RowEntry> entries_;
    std::vector<RowEntry> own_entries_;
    std::string window_;         // texts
    std::size_t in_window_ = 0;  // of the next text
    std::uint64_t next_text_;    // behind the window
    std::size_t rows_left_;
};

/// Whose next row comes later.
struct ComesLater {
    bool operator()(const std::unique_ptr<RunCursor>& a, const std::unique_ptr<RunCursor>& b) const {
        return b->entry() < a->entry();
    }
};

/// Writes a run to a spill, in large pieces.
class RunWriter {
  public:
    explicit RunWriter(std::shared_ptr<Spill> spill) : run_(std::move(spill)) {}
    void add(const RowEntry& entry, std::string_view text) {
        if (run_.rows++ == 0) run_.first = entry;
        run_.last = entry;
        entries_.push_back(entry);
        texts_.append(text);
        if (entries_.size() * sizeof(RowEntry) + texts_.size() > piece_bytes) flush();
    }
    RowRun finish() {
        flush();
        return std::move(run_);
    }

  private:
    static constexpr std::size_t piece_bytes = std::size_t{256} << 10;

    void flush() {
        run_.spill->entries.append(bytes_of(entries_));
        run_.spill->texts.append(texts_);
        entries_.clear();
        texts_.clear();
    }

    RowRun run_;
    std::vector<RowEntry> entries_;
    std::string texts_;
};

}  // namespace

void RowBatch::reserve(std::size_t bytes) {
    constexpr std::size_t usual_row_bytes = 200;
    const std::size_t rows = bytes / (usual_row_bytes + sizeof(RowEntry));
    text_.reserve(rows * usual_row_bytes);
    entries_.reserve(rows);
}

void RowBatch::clear() {
    text_.clear();
    entries_.clear();
}

RowRun::RowRun(RowBatch&& sorted)
    : first(sorted.entries().front()),
      last(sorted.entries().back()),
      rows(sorted.entries().size()),
      batch(std::move(sorted)) {}

RowRun::RowRun(std::shared_ptr<Spill> to)
    : spill(std::move(to)), entries_begin(spill->entries.size_bytes()), texts_begin(spill->texts.size_bytes()) {}

std::size_t order_and_count_windows(std::vector<RowRun>& runs) {
    std::sort(runs.begin(), runs.end(), [](const RowRun& a, const RowRun& b) { return a.first < b.first; });
    const auto ends_later = [](const RowRun* a, const RowRun* b) { return b->last < a->last; };
    std::priority_queue<const RowRun*, std::vector<const RowRun*>, decltype(ends_later)> begun(ends_later);
    std::size_t most = 0;
    for (const RowRun& run : runs) {
        if (run.spill == nullptr) continue;
        while (!begun.empty() && begun.top()->last < run.first) begun.pop();
        begun.push(&run);
        most = std::max(most, begun.size());
    }
    return most;
}

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

RowRun merge_into_one(const RowRun* runs, std::size_t count, std::size_t window_bytes,
                      const std::shared_ptr<Spill>& spill) {
    RunWriter writer(spill);
    merge_runs(runs, count, window_bytes,
               [&](const RowEntry& entry, std::string_view text) { writer.add(entry, text); });
    return writer.finish();
}

// A quarter of the memory is for batches being filled, half for sorted batches, a quarter for reading runs again.
RowSorter::RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads)
    : batch_bytes_(std::min(max_batch_bytes, memory_bytes / 4 / std::max(threads, 1U))),
      kept_limit_bytes_(memory_bytes / 2),
      windows_limit_bytes_(memory_bytes / 4),
      spill_directory_(std::move(spill_directory)) {}

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
    if (!take_from(unfinished_, batch) && !take_from(spare_, batch)) batch.reserve(batch_bytes_);
    return batch;
}

void RowSorter::give_back(RowBatch&& batch) {
    const std::lock_guard lock(mutex_);
    unfinished_.push_back(std::move(batch));
}

bool RowSorter::take_room(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + bytes > kept_limit_bytes_) return false;
    kept_bytes_ += bytes;
    return true;
}

RowRun RowSorter::write_to_disk(const RowBatch& sorted) {
    const std::lock_guard lock(spill_mutex_);
    if (spill_ == nullptr) spill_ = std::make_shared<Spill>(spill_directory_);
    RunWriter writer(spill_);
    for (const RowEntry& entry : sorted.entries()) writer.add(entry, sorted.text_of(entry));
    return writer.finish();
}

void RowSorter::add(RowBatch&& batch) {
    if (batch.entries().empty()) return;
    batch.sort();
    const bool is_kept = take_room(batch.used_bytes());
    const bool is_mostly_empty = batch.room_bytes() > 2 * batch.used_bytes();
    if (is_kept && !is_mostly_empty) return add_run(RowRun(std::move(batch)));
    add_run(is_kept ? RowRun(RowBatch(batch)) : write_to_disk(batch));  // a copy has no unused memory
    batch.clear();
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(batch));
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
