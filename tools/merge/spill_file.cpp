// SPDX-License-Identifier: Apache-2.0
#include "merge/spill_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/failure.hpp"

namespace cep::tool {

void read_at(int descriptor, std::uint64_t offset, char* out, std::size_t size) {
    while (size > 0) {
        const ssize_t count = ::pread(descriptor, out, size, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw ReadError(std::string("cannot read rows again: ") + std::strerror(errno));
        if (count == 0) throw ReadError("cannot read rows again: a file has become shorter");
        out += count;
        offset += static_cast<std::uint64_t>(count);
        size -= static_cast<std::size_t>(count);
    }
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

std::uint64_t SpillFile::append(std::string_view bytes) {
    const std::uint64_t begin = size_bytes_.fetch_add(bytes.size());
    for (std::uint64_t at = begin; !bytes.empty();) {
        const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail("write");
        bytes.remove_prefix(static_cast<std::size_t>(count));
        at += static_cast<std::uint64_t>(count);
    }
    return begin;
}

}  // namespace cep::tool
