// SPDX-License-Identifier: Apache-2.0
#include "base/large_memory.hpp"

#include <sys/mman.h>

#include <new>

namespace cep::tool {
namespace {

std::byte* map_pages(std::size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(mapped);
}

}  // namespace

LargeMemory::LargeMemory(std::size_t bytes)
    : memory_(bytes < large_bytes ? static_cast<std::byte*>(::operator new(bytes)) : map_pages(bytes), Free{bytes}) {}

void LargeMemory::Free::operator()(std::byte* memory) const {
    if (bytes < large_bytes) {
        ::operator delete(memory);
    } else {
        ::munmap(memory, bytes);
    }
}

}  // namespace cep::tool
