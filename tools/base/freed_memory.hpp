// SPDX-License-Identifier: Apache-2.0
//
// Freed memory: gives back to the system what was freed, between parts of a command that each need much.
#pragma once

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace cep::tool {

/// Many small blocks that threads have freed stay in the C library's pools otherwise, of no use to larger ones.
inline void return_freed_memory() {
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

}  // namespace cep::tool
