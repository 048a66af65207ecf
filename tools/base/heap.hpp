// SPDX-License-Identifier: Apache-2.0
//
// Heap: the C library's memory, set up for commands that take much of it, on all threads.
#pragma once

#include <cstdint>

namespace cep::tool {

/// Before the first thread starts.
void set_up_heap();

/// Prepares address space for so much. Memory is taken as it is used, in large pages where the system has them.
void reserve_heap(std::uint64_t bytes);

}  // namespace cep::tool
