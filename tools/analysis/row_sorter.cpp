// SPDX-License-Identifier: Apache-2.0
#include "row_sorter.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "failure.hpp"

namespace cep::analysis {
namespace {

// More spill files than this are merged in several rounds, so that open files and their buffers stay bounded.
constexpr std::size_t max_fan_in = 128;
constexpr std::size_t max_batch_bytes = std::size_t{4} << 20;
constexpr std::size_t spill_buffer_bytes = std::size_t{128} << 10;

struct SpillHeader {
    SortedRow row;
    std::uint64_t size;
};
static_assert(std::is_trivially_copyable_v<SpillHeader>);

}  // namespace

/// Sorted rows in a file that has no name any more.
class RowSorter::SpillFile {
  public:
    explicit SpillFile(const std::string& directory) : directory_(directory) {
        std::string path = directory + "/cep-merge.XXXXXX";
        const int fd = ::mkostemp(path.data(), O_CLOEXEC);
        if (fd < 0) fail("create");
        ::unlink(path.c_str());
        file_ = ::fdopen(fd, "w+");
        if (file_ == nullptr) fail("create");
        std::setvbuf(file_, nullptr, _IOFBF, spill_buffer_bytes);
    }
    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;
    ~SpillFile() {
        if (file_ != nullptr) std::fclose(file_);
    }

    void write(const SortedRow& row, std::string_view text) {
        const SpillHeader header{row, text.size()};
        if (std::fwrite(&header, sizeof header, 1, file_) != 1) fail("write");
        if (!text.empty() && std::fwrite(text.data(), text.size(), 1, file_) != 1) fail("write");
    }

    void rewind() {
        if (std::fflush(file_) != 0 || std::fseek(file_, 0, SEEK_SET) != 0) fail("write");
    }

    bool read(SortedRow& row, std::string& text) {
        SpillHeader header{};
        if (std::fread(&header, sizeof header, 1, file_) != 1) {
            if (std::ferror(file_) != 0) fail("read");
            return false;
        }
        row = header.row;
        text.resize(header.size);
        if (!text.empty() && std::fread(text.data(), text.size(), 1, file_) != 1) fail("read");
        return true;
    }

  private:
    [[noreturn]] void fail(const char* action) const {
        throw WriteError("cannot " + std::string(action) + " a temporary file in " + directory_ + ": " +
                         std::strerror(errno));
    }

    std::string directory_;
    std::FILE* file_ = nullptr;
};

/// The next row of a sorted run.
class RowSorter::Cursor {
  public:
    virtual ~Cursor() = default;
    /// False at the end.
    virtual bool advance() = 0;
    [[nodiscard]] const SortedRow& row() const { return *row_; }
    [[nodiscard]] std::string_view text() const { return text_; }

  protected:
    const SortedRow* row_ = nullptr;
    std::string_view text_;
};

class RowSorter::BatchCursor : public Cursor {
  public:
    explicit BatchCursor(const RowBatch& batch) : batch_(batch) {}
    bool advance() override {
        if (next_ == batch_.size()) return false;
        row_ = &batch_.row(next_);
        text_ = batch_.text(next_++);
        return true;
    }

  private:
    const RowBatch& batch_;
    std::size_t next_ = 0;
};

class RowSorter::SpillCursor : public Cursor {
  public:
    explicit SpillCursor(SpillFile& file) : file_(file) { file_.rewind(); }
    bool advance() override {
        if (!file_.read(own_row_, own_text_)) return false;
        row_ = &own_row_;
        text_ = own_text_;
        return true;
    }

  private:
    SpillFile& file_;
    SortedRow own_row_;
    std::string own_text_;
};

void RowBatch::reserve(std::size_t bytes) {
    constexpr std::size_t usual_row_bytes = 200;
    const std::size_t rows = bytes / (usual_row_bytes + sizeof(Entry));
    text_.reserve(rows * usual_row_bytes);
    entries_.reserve(rows);
}

void RowBatch::clear() {
    text_.clear();
    entries_.clear();
}

// Rows of a rank file are nearly in order, as the span of a step comes behind the spans inside it. Inserting is best
// for such rows and worst for others, so it is given up after some moves.
bool RowBatch::sort_by_insertion() {
    constexpr std::size_t moves_per_row = 16;
    std::size_t moves_left = moves_per_row * entries_.size();
    for (std::size_t i = 1; i < entries_.size(); ++i) {
        if (entries_[i - 1].row.key < entries_[i].row.key) continue;
        const Entry moved = entries_[i];
        std::size_t place = i;
        for (; place > 0 && moves_left > 0 && moved.row.key < entries_[place - 1].row.key; --place, --moves_left)
            entries_[place] = entries_[place - 1];
        entries_[place] = moved;
        if (moves_left == 0) return false;
    }
    return true;
}

void RowBatch::sort() {
    if (sort_by_insertion()) return;
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.row.key < b.row.key; });
}

// Small batches stay in a core's cache while they are filled and sorted.
RowSorter::RowSorter(std::size_t memory_bytes, std::string spill_directory, unsigned threads)
    : batch_bytes_(std::min(max_batch_bytes, memory_bytes / 3 / std::max(threads, 1U))),
      kept_limit_bytes_(memory_bytes - batch_bytes_ * std::max(threads, 1U)),
      spill_directory_(std::move(spill_directory)) {}
RowSorter::~RowSorter() = default;

RowBatch RowSorter::take_batch() {
    const std::lock_guard lock(mutex_);
    for (std::vector<RowBatch>* batches : {&unfinished_, &spare_}) {
        if (batches->empty()) continue;
        RowBatch batch = std::move(batches->back());
        batches->pop_back();
        return batch;
    }
    RowBatch batch;
    batch.reserve(batch_bytes_);
    return batch;
}

void RowSorter::give_back(RowBatch&& batch) {
    const std::lock_guard lock(mutex_);
    unfinished_.push_back(std::move(batch));
}

void RowSorter::add(RowBatch&& batch) {
    batch.sort();
    const std::lock_guard lock(mutex_);
    kept_bytes_ += batch.used_bytes();
    batches_.push_back(std::move(batch));
    if (kept_bytes_ > kept_limit_bytes_) spill();
}

void RowSorter::spill() {
    auto file = std::make_unique<SpillFile>(spill_directory_);
    merge(batch_cursors(), [&](const SortedRow& row, std::string_view text) { file->write(row, text); });
    spills_.push_back(std::move(file));
    for (RowBatch& batch : batches_) {
        batch.clear();
        spare_.push_back(std::move(batch));
    }
    batches_.clear();
    kept_bytes_ = 0;
    if (spills_.size() < max_fan_in) return;
    auto merged = std::make_unique<SpillFile>(spill_directory_);
    merge(spill_cursors(), [&](const SortedRow& row, std::string_view text) { merged->write(row, text); });
    spills_.clear();
    spills_.push_back(std::move(merged));
}

RowSorter::Cursors RowSorter::batch_cursors() const {
    Cursors cursors;
    for (const RowBatch& batch : batches_) cursors.push_back(std::make_unique<BatchCursor>(batch));
    return cursors;
}

RowSorter::Cursors RowSorter::spill_cursors() const {
    Cursors cursors;
    for (const auto& spill : spills_) cursors.push_back(std::make_unique<SpillCursor>(*spill));
    return cursors;
}

// A heap by hand: the standard one has no way to replace its top, which is what a merge does with each row.
void RowSorter::merge(Cursors cursors, const Emit& emit) {
    std::erase_if(cursors, [](const auto& cursor) { return !cursor->advance(); });
    const auto sift_down = [&cursors](std::size_t parent) {
        for (std::size_t child = 2 * parent + 1; child < cursors.size(); child = 2 * parent + 1) {
            if (child + 1 < cursors.size() && cursors[child + 1]->row().key < cursors[child]->row().key) ++child;
            if (cursors[parent]->row().key < cursors[child]->row().key) return;
            std::swap(cursors[parent], cursors[child]);
            parent = child;
        }
    };
    for (std::size_t i = cursors.size() / 2; i > 0; --i) sift_down(i - 1);
    while (!cursors.empty()) {
        Cursor& first = *cursors.front();
        emit(first.row(), first.text());
        if (!first.advance()) {
            std::swap(cursors.front(), cursors.back());
            cursors.pop_back();
        }
        sift_down(0);
    }
}

void RowSorter::finish(const Emit& emit) {
    const std::lock_guard lock(mutex_);
    for (RowBatch& batch : unfinished_) {
        batch.sort();
        batches_.push_back(std::move(batch));
    }
    Cursors cursors = spill_cursors();
    std::ranges::move(batch_cursors(), std::back_inserter(cursors));
    merge(std::move(cursors), emit);
}

}  // namespace cep::analysis
