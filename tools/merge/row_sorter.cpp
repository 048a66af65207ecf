// SPDX-License-Identifier: Apache-2.0
#include "merge/row_sorter.hpp"

#include <fcntl.h>

#include <algorithm>
#include <queue>
#include <span>
#include <utility>

#include "base/descriptors.hpp"

namespace cep::tool {
namespace {

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
        if (!run_.needs_window()) return {run_.batch.texts() + entry().offset, entry().size};
        const std::uint64_t begin = offset_of(entry(), next_text_);
        next_text_ = begin + entry().size;
        if (begin < window_begin_ || next_text_ > window_begin_ + window_.size()) fill_texts(begin);
        const std::string_view text(window_.data() + (begin - window_begin_), entry().size);
        if (run_.file != nullptr) run_.file->check_text(text, entry().offset);
        return text;
    }
    /// False at the end of the run.
    bool advance() {
        entries_ = entries_.subspan(1);
        if (entries_.empty()) fill_entries();
        return !entries_.empty();
    }

  private:
    [[nodiscard]] std::uint64_t offset_of(const RowEntry& entry, std::uint64_t behind_last) const {
        return run_.file != nullptr ? entry.position : behind_last;
    }

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

    // In a rank file a span comes after the spans inside it, so the texts of consecutive rows are not always
    // consecutive. One read gets the texts of as many of the next rows as fit.
    void fill_texts(std::uint64_t begin) {
        std::uint64_t end = begin + entry().size;
        std::uint64_t next = end;
        for (const RowEntry& other : entries_.subspan(1)) {
            const std::uint64_t offset = offset_of(other, next);
            next = offset + other.size;
            const std::uint64_t wider_begin = std::min(begin, offset);
            const std::uint64_t wider_end = std::max(end, next);
            if (wider_end - wider_begin > text_window_bytes_) break;
            begin = wider_begin;
            end = wider_end;
        }
        window_.resize(end - begin);
        if (run_.file != nullptr)
            run_.file->read(begin, window_.data(), window_.size());
        else
            run_.spill->texts.read(begin, window_.data(), window_.size());
        window_begin_ = begin;
    }

    const RowRun& run_;
    const std::size_t window_rows_;
    const std::size_t text_window_bytes_;
    std::span<const RowEntry> entries_;
    std::vector<RowEntry> own_entries_;
    std::string window_;  // texts
    std::uint64_t window_begin_ = 0;
    std::uint64_t next_text_;
    std::size_t rows_left_;
};

/// The runs that are being read, as a heap. The standard heap cannot replace its top, which a merge does for each row.
class CursorHeap {
  public:
    [[nodiscard]] bool empty() const { return nodes_.empty(); }
    [[nodiscard]] RunCursor& top() { return *nodes_.front().cursor; }

    void push(std::unique_ptr<RunCursor> cursor) {
        nodes_.push_back(node_of(std::move(cursor)));
        for (std::size_t child = nodes_.size() - 1; child > 0; child = (child - 1) / 2) {
            if (!(nodes_[child] < nodes_[(child - 1) / 2])) return;
            std::swap(nodes_[child], nodes_[(child - 1) / 2]);
        }
    }

    void advance_top() {
        Node moved = std::move(nodes_.front());
        if (moved.cursor->advance()) {
            moved = node_of(std::move(moved.cursor));
        } else {
            moved = std::move(nodes_.back());
            nodes_.pop_back();
            if (nodes_.empty()) return;
        }
        std::size_t hole = 0;
        for (std::size_t child = 1; child < nodes_.size(); child = 2 * hole + 1) {
            if (child + 1 < nodes_.size() && nodes_[child + 1] < nodes_[child]) ++child;
            if (!(nodes_[child] < moved)) break;
            nodes_[hole] = std::move(nodes_[child]);
            hole = child;
        }
        nodes_[hole] = std::move(moved);
    }

  private:
    /// Comparing needs the cursor only where these are equal, which is rare.
    struct Node {
        std::int64_t first;
        std::int64_t second;
        std::uint32_t section;
        std::unique_ptr<RunCursor> cursor;

        friend bool operator<(const Node& a, const Node& b) {
            if (a.section != b.section) return a.section < b.section;
            if (a.first != b.first) return a.first < b.first;
            if (a.second != b.second) return a.second < b.second;
            return a.cursor->entry() < b.cursor->entry();
        }
    };
    static Node node_of(std::unique_ptr<RunCursor> cursor) {
        const RowEntry& entry = cursor->entry();
        return {entry.first, entry.second, entry.section_bits, std::move(cursor)};
    }

    std::vector<Node> nodes_;
};

/// Writes entries and texts in large pieces.
class RunWriter {
  public:
    explicit RunWriter(Spill& spill) : spill_(spill) {}
    void add(const RowEntry& entry, std::string_view text) {
        entries_.push_back(entry);
        texts_.append(text);
        if (entries_.size() * sizeof(RowEntry) + texts_.size() > piece_bytes) flush();
    }
    void flush() {
        spill_.entries.append(bytes_of(entries_));
        spill_.texts.append(texts_);
        entries_.clear();
        texts_.clear();
    }

  private:
    static constexpr std::size_t piece_bytes = std::size_t{256} << 10;
    Spill& spill_;
    std::vector<RowEntry> entries_;
    std::string texts_;
};

}  // namespace

RowRun::RowRun(RowBatch&& sorted, const PlainFile* plain_file)
    : first(sorted.entries().front()),
      last(sorted.entries().back()),
      rows(sorted.entries().size()),
      file(plain_file),
      batch(std::move(sorted)) {}

RowRun::RowRun(RowBatch& sorted, const PlainFile* plain_file, std::shared_ptr<Spill> to)
    : first(sorted.entries().front()),
      last(sorted.entries().back()),
      rows(sorted.entries().size()),
      file(plain_file),
      spill(std::move(to)) {
    entries_begin = spill->entries.append(bytes_of(sorted.entries()));
    if (file == nullptr) texts_begin = spill->texts.append(sorted.texts_in_order());
    sorted.clear();
}

std::size_t order_and_count_windows(std::vector<RowRun>& runs) {
    std::sort(runs.begin(), runs.end(), [](const RowRun& a, const RowRun& b) { return a.first < b.first; });
    const auto ends_later = [](const RowRun* a, const RowRun* b) { return b->last < a->last; };
    std::priority_queue<const RowRun*, std::vector<const RowRun*>, decltype(ends_later)> begun(ends_later);
    std::size_t most = 0;
    for (const RowRun& run : runs) {
        if (!run.needs_window()) continue;
        while (!begun.empty() && begun.top()->last < run.first) begun.pop();
        begun.push(&run);
        most = std::max(most, begun.size());
    }
    return most;
}

void merge_runs(const RowRun* runs, std::size_t count, std::size_t window_bytes, const EmitRow& emit) {
    CursorHeap heap;
    std::size_t next = 0;
    for (;;) {
        while (next < count && (heap.empty() || !(heap.top().entry() < runs[next].first)))
            heap.push(std::make_unique<RunCursor>(runs[next++], window_bytes));
        if (heap.empty()) return;
        RunCursor& top = heap.top();
        emit(top.entry(), top.text());
        heap.advance_top();
    }
}

RowRun merge_into_one(const RowRun* runs, std::size_t count, std::size_t window_bytes,
                      const std::shared_ptr<Spill>& spill) {
    RowRun merged(runs[0].first, spill);
    merged.entries_begin = spill->entries.size_bytes();
    merged.texts_begin = spill->texts.size_bytes();
    RunWriter writer(*spill);
    merge_runs(runs, count, window_bytes, [&](const RowEntry& entry, std::string_view text) {
        writer.add(entry, text);
        merged.last = entry;
        ++merged.rows;
    });
    writer.flush();
    return merged;
}

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
