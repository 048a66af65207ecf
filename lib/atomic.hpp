// SPDX-License-Identifier: Apache-2.0
//
// The atomics of the structures that threads share without a lock. tests/model builds them over atomics of its own,
// which try every interleaving and every value that the memory model allows.
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

/// Another thread has to go on before this one can.
inline void let_others_run() noexcept {
    std::this_thread::yield();
}

/// Plain memory that threads hand to each other is about to be read or written; only tests look.
inline void note_read(const void*, std::size_t) noexcept {}
inline void note_write(const void*, std::size_t) noexcept {}

}  // namespace cep

#endif
