// SPDX-License-Identifier: Apache-2.0
#include "merge/stream_copies.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/failure.hpp"

namespace cep::tool {
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
