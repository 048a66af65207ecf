// SPDX-License-Identifier: Apache-2.0
#include "row_sorter.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "failure.hpp"

namespace cep::analysis {
namespace {

// More spill files than this are merged in several rounds, so that open files and their buffers stay bounded.
constexpr std::size_t max_fan_in = 128;
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

/// The next row of a spill file.
class RowSorter::SpillCursor {
  public:
    explicit SpillCursor(SpillFile& file) : file_(&file) { file.rewind(); }
    bool advance() { return file_->read(row_, text_); }
    [[nodiscard]] const SortedRow& row() const { return row_; }
    [[nodiscard]] std::string_view text() const { return text_; }

  private:
    SpillFile* file_;
    SortedRow row_;
    std::string text_;
};

RowSorter::RowSorter(std::size_t memory_bytes, std::string spill_directory)
    : memory_bytes_(memory_bytes), spill_directory_(std::move(spill_directory)) {}
RowSorter::~RowSorter() = default;

void RowSorter::add(const SortedRow& row, std::string_view text) {
    const std::size_t used = text_.size() + entries_.size() * sizeof(Entry);
    if (!entries_.empty() && used + text.size() + sizeof(Entry) > memory_bytes_) spill();
    entries_.push_back({row, text_.size(), text.size()});
    text_.append(text);
}

void RowSorter::sort_entries() {
    auto before = [](const Entry& a, const Entry& b) { return a.row.key < b.row.key; };
    if (!std::is_sorted(entries_.begin(), entries_.end(), before)) std::sort(entries_.begin(), entries_.end(), before);
}

void RowSorter::spill() {
    sort_entries();
    auto file = std::make_unique<SpillFile>(spill_directory_);
    for (const Entry& entry : entries_) file->write(entry.row, {text_.data() + entry.offset, entry.size});
    spills_.push_back(std::move(file));
    entries_.clear();
    text_.clear();
    if (spills_.size() < max_fan_in) return;
    auto merged = std::make_unique<SpillFile>(spill_directory_);
    merge(0, spills_.size(), [&](const SortedRow& row, std::string_view text) { merged->write(row, text); });
    spills_.clear();
    spills_.push_back(std::move(merged));
}

void RowSorter::merge(std::size_t first, std::size_t count, const Emit& emit) {
    std::vector<std::unique_ptr<SpillCursor>> heap;
    // The standard heap has its largest element on top: the order is turned round.
    auto after = [](const auto& a, const auto& b) { return b->row().key < a->row().key; };
    for (std::size_t i = first; i < first + count; ++i) {
        auto cursor = std::make_unique<SpillCursor>(*spills_[i]);
        if (cursor->advance()) heap.push_back(std::move(cursor));
    }
    std::make_heap(heap.begin(), heap.end(), after);
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), after);
        emit(heap.back()->row(), heap.back()->text());
        if (heap.back()->advance()) {
            std::push_heap(heap.begin(), heap.end(), after);
        } else {
            heap.pop_back();
        }
    }
}

void RowSorter::finish(const Emit& emit) {
    if (!spills_.empty()) {
        if (!entries_.empty()) spill();
        return merge(0, spills_.size(), emit);
    }
    sort_entries();
    for (const Entry& entry : entries_) emit(entry.row, {text_.data() + entry.offset, entry.size});
}

}  // namespace cep::analysis
