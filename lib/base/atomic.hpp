// SPDX-License-Identifier: Apache-2.0
//
// Atomics for the lock-free structures. tests/model replaces them with its own, which try every interleaving and every
// value that the memory model allows.
#pragma once

#ifdef CEP_ATOMIC_HEADER
#include CEP_ATOMIC_HEADER
#else

#include <atomic>
#include <cstddef>
#include <thread>

namespace cep {

template <class T>
using Atomic = std::atomic<T>;

/// Call it where this thread cannot go on before another thread does.
inline void yield_thread() noexcept {
    std::this_thread::yield();
}

/// Mark a read or write of plain memory that one thread hands to another. Only the tests use these marks.
inline void note_read(const void*, std::size_t) noexcept {}
inline void note_write(const void*, std::size_t) noexcept {}

}  // namespace cep

#endif
