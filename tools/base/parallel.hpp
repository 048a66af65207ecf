// SPDX-License-Identifier: Apache-2.0
//
// Parallel: calls for all indices, on several threads.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace cep::tool {

/// So many threads that do `work`, or fewer if the system starts fewer.
[[nodiscard]] std::vector<std::jthread> start_threads(std::size_t count, const std::function<void()>& work);

/// Calls `work(i)` once for each i below `count`, on at most `threads` threads. The calling thread is one of them.
/// When all have ended, throws what the first failed call threw.
void for_all(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work);

}  // namespace cep::tool
