// SPDX-License-Identifier: Apache-2.0
#include "simulate/rank_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/descriptors.hpp"
#include "base/encoder.hpp"
#include "base/failure.hpp"
#include "read/inputs.hpp"
#include "simulate/random.hpp"

namespace cep::simulation {
namespace {

using tool::UsageError;
using tool::WriteError;
namespace fs = std::filesystem;

constexpr std::size_t all_buffers_bytes = std::size_t{256} << 20;
constexpr std::size_t min_buffer_bytes = std::size_t{16} << 10;
constexpr std::size_t max_buffer_bytes = std::size_t{1} << 20;

std::vector<fs::path> find_rank_files(const fs::path& directory) {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
        if (tool::rank_of_file_name(entry.path().native())) found.push_back(entry.path());
    return found;
}

void append_to_file(const std::string& path, std::string_view bytes) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) throw WriteError(path + ": cannot open: " + std::strerror(errno));
    const int error = tool::write_all(fd, bytes) ? 0 : errno;
    ::close(fd);
    if (error != 0) throw WriteError(path + ": cannot write: " + std::strerror(error));
}

std::string path_of(const Job& job, const std::string& directory, std::size_t rank) {
    const std::string_view ending = job.gzip ? ".gz" : (job.zstd ? ".zst" : "");
    const std::string name = fmt::format("{}{}{}{}", schema::file_prefix, rank, schema::file_suffix, ending);
    return (fs::path(directory) / name).native();
}

/// Cuts a file in the middle of a row. `share`: about where, of the file.
CutFile cut_file(const std::string& path, double share) {
    std::ifstream stream(path, std::ios::binary);
    const std::uint64_t size = fs::file_size(path);
    const auto from = static_cast<std::uint64_t>(share * static_cast<double>(size));
    stream.seekg(static_cast<std::streamoff>(from));
    const std::string tail((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (tail.size() + from != size) throw WriteError(path + ": cannot be read back");
    // The tail begins inside a row. Cut the next row, or this one if it is the last.
    const std::size_t row_end = tail.find('\n');
    const std::size_t begin = row_end + 1 < tail.size() ? row_end + 1 : 0;
    const std::size_t end = std::min(tail.find('\n', begin), tail.size());
    const std::size_t cut = begin + (end - begin) / 2;
    CutFile result;
    result.path = path;
    result.kept_bytes = from + cut;
    result.lost_rows =
        static_cast<std::uint64_t>(std::count(tail.begin() + static_cast<std::ptrdiff_t>(cut), tail.end(), '\n'));
    std::error_code error;
    fs::resize_file(path, result.kept_bytes, error);
    if (error) throw WriteError(path + ": cannot cut: " + error.message());
    return result;
}

}  // namespace

void prepare_directory(const std::string& directory, bool force) {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) throw WriteError(directory + ": cannot create: " + error.message());
    const std::vector<fs::path> old = find_rank_files(directory);
    if (!old.empty() && !force)
        throw UsageError(directory + ": already has rank files, such as " + old.front().filename().native() +
                         "; --force replaces them");
    // If writing fails, the new files must not lie beside the old truth.
    fs::remove(fs::path(directory) / truth_file_name, error);
    for (const fs::path& path : old)
        if (!fs::remove(path, error)) throw WriteError(path.native() + ": cannot remove: " + error.message());
}

RankFiles::RankFiles(const Job& job, const Layout& layout, const std::vector<HostClock>& clocks,
                     const std::string& directory)
    : job_(job),
      layout_(layout),
      texts_(layout),
      buffer_bytes_(std::clamp(all_buffers_bytes / layout.ranks, min_buffer_bytes, max_buffer_bytes)),
      files_(layout.ranks) {
    for (std::size_t rank = 0; rank < layout.ranks; ++rank) {
        const auto number = static_cast<std::int64_t>(rank);
        if (std::binary_search(job.missing_ranks.begin(), job.missing_ranks.end(), number)) continue;
        files_[rank].rows = std::make_unique<RankRows>(layout, rank, clocks[layout.host_of(rank)]);
        files_[rank].path = path_of(job, directory, rank);
    }
}

bool RankFiles::is_dropped(std::size_t rank, const Item& item) const {
    if (job_.drop_fraction <= 0 || !item.is_span()) return false;
    const Random random(job_.seed);
    const std::uint64_t which = static_cast<std::uint64_t>(item.name) << 32 | item.seq;
    return random.uniform(Stream::drop, rank, static_cast<std::uint64_t>(item.step), which) < job_.drop_fraction;
}

// Each flush is a gzip member or a zstd frame of its own, so that any number of them make a file.
void RankFiles::flush(File& file) const {
    if (const auto encoder = tool::make_encoder(file.path, tool::Effort::least)) {
        std::vector<char> encoded;
        encoder->encode(file.text, true, encoded);
        append_to_file(file.path, {encoded.data(), encoded.size()});
    } else {
        append_to_file(file.path, file.text);
    }
    file.text_bytes += file.text.size();
    file.text.clear();
}

void RankFiles::begin(std::size_t rank) {
    if (files_[rank].rows) files_[rank].text = files_[rank].rows->run(job_, layout_);
}

void RankFiles::write(std::size_t rank, const std::vector<Item>& items) {
    File& file = files_[rank];
    if (!file.rows) return;
    for (const Item& item : items) {
        if (is_dropped(rank, item)) {
            ++file.counts.dropped_spans;
            continue;
        }
        file.rows->write(file.text, item, texts_);
        if (file.text.size() >= buffer_bytes_) flush(file);
        ++(item.is_span() ? file.counts.spans
                          : (item.type() == ItemType::mark ? file.counts.marks : file.counts.counters));
    }
}

void RankFiles::end(std::size_t rank, std::int64_t now_ns) {
    File& file = files_[rank];
    if (!file.rows) return;
    file.text += file.rows->stats(file.counts, job_.last_step(), now_ns);
    flush(file);
    file.text.shrink_to_fit();
}

std::vector<CutFile> RankFiles::cut_files() const {
    const Random random(job_.seed);
    std::vector<std::size_t> order;
    for (std::size_t rank = 0; rank < files_.size(); ++rank)
        if (files_[rank].rows) order.push_back(rank);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return random.bits(Stream::truncated_file, a) < random.bits(Stream::truncated_file, b);
    });
    order.resize(static_cast<std::size_t>(job_.truncate));
    std::sort(order.begin(), order.end());
    std::vector<CutFile> cuts;
    for (const std::size_t rank : order) {
        const double share = 0.4 + 0.5 * random.uniform(Stream::truncated_share, rank);
        cuts.push_back(cut_file(files_[rank].path, share));
        cuts.back().rank = rank;
    }
    return cuts;
}

RowCounts RankFiles::total() const {
    RowCounts counts;
    for (const File& file : files_) counts.add(file.counts);
    return counts;
}

std::uint64_t RankFiles::files() const {
    return static_cast<std::uint64_t>(
        std::count_if(files_.begin(), files_.end(), [](const File& file) { return file.rows != nullptr; }));
}

}  // namespace cep::simulation
