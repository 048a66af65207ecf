// SPDX-License-Identifier: Apache-2.0
#include "merge/plain_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/failure.hpp"
#include "base/hash.hpp"

namespace cep::tool {
namespace {

constexpr const char* changed = ": was changed, other than by appending, while its rows were merged";

std::uint64_t word_at(const char* text) {
    std::uint64_t word = 0;
    std::memcpy(&word, text, sizeof word);
    return word;
}

}  // namespace

void read_at(int descriptor, const std::string& name, std::uint64_t offset, char* out, std::size_t size) {
    while (size > 0) {
        const ssize_t count = ::pread(descriptor, out, size, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw ReadError(name + ": cannot be read again: " + std::strerror(errno));
        if (count == 0) throw ReadError(name + changed);
        out += count;
        offset += static_cast<std::uint64_t>(count);
        size -= static_cast<std::size_t>(count);
    }
}

// Hashes eight words, evenly spaced from the first byte to the last. Some of them lie in the times of a row, which
// differ from row to row.
std::uint32_t text_fingerprint(std::string_view text) {
    constexpr std::size_t words = 8;
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
    std::uint64_t sum = text.size();
    if (text.size() < sizeof(std::uint64_t)) {
        for (const char byte : text) sum = sum * odd + static_cast<unsigned char>(byte);
    } else {
        const std::size_t last = text.size() - sizeof(std::uint64_t);
        for (std::size_t i = 0; i < words; ++i) sum = (sum ^ word_at(text.data() + last * i / (words - 1))) * odd;
    }
    return static_cast<std::uint32_t>(mix_bits(sum) >> 32);
}

PlainFile::PlainFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {
    static_cast<void>(::fstat(descriptor_, &before_));
}

PlainFile::~PlainFile() {
    ::close(descriptor_);
}

void PlainFile::fail_as_changed() const {
    throw ReadError(path_ + changed);
}

void PlainFile::read(std::uint64_t offset, char* out, std::size_t size) const {
    read_at(descriptor_, path_, offset, out, size);
}

void PlainFile::check_text(std::string_view text, std::uint32_t fingerprint) const {
    if (text_fingerprint(text) != fingerprint) fail_as_changed();
}

// Appending makes a file longer.
void PlainFile::check_unchanged() const {
    struct stat now {};
    if (::fstat(descriptor_, &now) != 0 || now.st_size < before_.st_size) fail_as_changed();
    const bool touched = now.st_mtim.tv_sec != before_.st_mtim.tv_sec || now.st_mtim.tv_nsec != before_.st_mtim.tv_nsec;
    if (touched && now.st_size == before_.st_size) fail_as_changed();
}

}  // namespace cep::tool
