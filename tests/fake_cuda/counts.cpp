// SPDX-License-Identifier: Apache-2.0
#include "counts.hpp"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace fake_cuda {
namespace {

struct ThreadCounts {
    std::int32_t thread_id = 0;
    std::array<std::atomic<std::uint64_t>, function_count> calls{};
};

struct Registry {
    std::mutex mutex;
    std::vector<std::unique_ptr<ThreadCounts>> threads;
};

/// Never destroyed: threads may call the driver while the process exits.
Registry& registry() {
    static Registry* const instance = new Registry;
    return *instance;
}

ThreadCounts& register_thread() {
    auto counts = std::make_unique<ThreadCounts>();
    counts->thread_id = static_cast<std::int32_t>(gettid());
    const std::lock_guard lock(registry().mutex);
    return *registry().threads.emplace_back(std::move(counts));
}

template <typename Visit>
void visit_counts(const Visit& visit) {
    const std::lock_guard lock(registry().mutex);
    for (const auto& thread : registry().threads)
        for (std::size_t i = 0; i < function_count; ++i) visit(thread->thread_id, i, thread->calls[i]);
}

}  // namespace

void count_call(Function function) {
    thread_local ThreadCounts& counts = register_thread();
    counts.calls[static_cast<std::size_t>(function)].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t calls_of(std::optional<Function> function, std::optional<std::int32_t> thread_id) {
    std::uint64_t sum = 0;
    visit_counts([&](std::int32_t caller, std::size_t index, const std::atomic<std::uint64_t>& calls) {
        const bool counted =
            (!function || static_cast<std::size_t>(*function) == index) && (!thread_id || *thread_id == caller);
        if (counted) sum += calls.load(std::memory_order_relaxed);
    });
    return sum;
}

std::uint64_t synchronizing_calls() {
    std::uint64_t sum = 0;
    visit_counts([&](std::int32_t, std::size_t index, const std::atomic<std::uint64_t>& calls) {
        if (function_traits[index].synchronizes) sum += calls.load(std::memory_order_relaxed);
    });
    return sum;
}

void reset_counts() {
    visit_counts([](std::int32_t, std::size_t, std::atomic<std::uint64_t>& calls) { calls = 0; });
}

}  // namespace fake_cuda
