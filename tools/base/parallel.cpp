// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>

namespace cep::tool {

std::vector<std::jthread> start_threads(std::size_t count, const std::function<void()>& work) {
    std::vector<std::jthread> threads;
    try {
        while (threads.size() < count) threads.emplace_back(work);
    } catch (const std::system_error&) {
        // The system starts no more. The caller's thread and those that run do the work.
    }
    return threads;
}

void for_all(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work) {
    std::atomic<std::size_t> next = 0;
    std::exception_ptr failure;
    std::mutex failure_lock;
    const auto run = [&] {
        try {
            for (std::size_t i = next++; i < count; i = next++) work(i);
        } catch (...) {
            next = count;
            const std::lock_guard guard(failure_lock);
            if (!failure) failure = std::current_exception();
        }
    };
    {
        const auto helpers = start_threads(std::max<std::size_t>(1, std::min(count, threads)) - 1, run);
        run();
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace cep::tool
