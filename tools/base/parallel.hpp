// SPDX-License-Identifier: Apache-2.0
//
// Parallel: calls for all indices, on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace cep::tool {

/// Calls `work(i)` once for each i below `count`, on at most `threads` threads, or on fewer if the system starts fewer.
/// The calling thread is one of them. When all have ended, throws what the first failed call threw.
void for_all(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work);

}  // namespace cep::tool
