// SPDX-License-Identifier: Apache-2.0
#include "merge/spill_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/failure.hpp"

namespace cep::tool {

std::string spill_directory_for(const std::string& output_path) {
    if (const char* directory = std::getenv("TMPDIR"); directory != nullptr && *directory != '\0') return directory;
    struct stat info {};
    const bool to_file = !output_path.empty() && output_path != "-" &&
                         (::stat(output_path.c_str(), &info) != 0 || S_ISREG(info.st_mode));
    if (!to_file) return "/var/tmp";
    const std::filesystem::path parent = std::filesystem::path(output_path).parent_path();
    return parent.empty() ? "." : parent.native();
}

SpillFile::SpillFile(const std::string& directory) : directory_(directory) {
    std::string path = directory + "/cep-merge.XXXXXX";
    descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail("create");
    ::unlink(path.c_str());
}

SpillFile::~SpillFile() {
    ::close(descriptor_);
}

void SpillFile::fail(const char* action) const {
    throw WriteError("cannot " + std::string(action) + " a temporary file in " + directory_ + ": " +
                     std::strerror(errno));
}

void SpillFile::append(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_bytes_));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail("write");
        bytes.remove_prefix(static_cast<std::size_t>(count));
        size_bytes_ += static_cast<std::uint64_t>(count);
    }
}

void SpillFile::read(std::uint64_t offset, char* out, std::size_t size) const {
    while (size > 0) {
        const ssize_t count = ::pread(descriptor_, out, size, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0)
            throw ReadError("a temporary file in " + directory_ + ": " +
                            (count < 0 ? std::strerror(errno) : "too short"));
        out += count;
        offset += static_cast<std::uint64_t>(count);
        size -= static_cast<std::size_t>(count);
    }
}

namespace {

/// Compressed data stays compressed: what its reader says of damage is the same.
void copy(int descriptor, const std::string& path, SpillFile& copy) {
    std::string block(std::size_t{1} << 18, '\0');
    for (;;) {
        const ssize_t count = ::read(descriptor, block.data(), block.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw ReadError(path + ": " + std::strerror(errno));
        if (count == 0) return;
        copy.append(std::string_view(block).substr(0, static_cast<std::size_t>(count)));
    }
}

}  // namespace

StreamCopies copy_streams(InputSet& set, const std::string& directory) {
    StreamCopies copies;
    for (InputFile& file : set.files) {
        if (can_be_read_twice(file)) continue;
        const int descriptor =
            file.is_standard_input() ? STDIN_FILENO : ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) continue;
        copies.push_back(std::make_unique<SpillFile>(directory));
        try {
            copy(descriptor, file.path, *copies.back());
            file.copy = copies.back()->path();
            file.size_bytes = copies.back()->size_bytes();
            set.size_bytes += file.size_bytes;
        } catch (const ReadError&) {  // the reader meets it too, and says so
        }
        if (descriptor != STDIN_FILENO) ::close(descriptor);
    }
    return copies;
}

}  // namespace cep::tool
