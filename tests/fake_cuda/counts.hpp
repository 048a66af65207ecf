// SPDX-License-Identifier: Apache-2.0
//
// Counts of calls by function and thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

#include "functions.hpp"

namespace fake_cuda {

/// Adds one to the calling thread's count. Takes no lock after a thread's first call.
void count_call(Function function);

/// The number of calls of one function or all, by one thread or all.
[[nodiscard]] std::uint64_t calls_of(std::optional<Function> function, std::optional<std::int32_t> thread_id);

[[nodiscard]] std::uint64_t synchronizing_calls();

/// The kernel ids of the threads that made a call, each once.
[[nodiscard]] std::vector<std::int32_t> calling_threads();

void reset_counts();

/// A line "calls THREAD_ID FUNCTION COUNT" for each thread and function that was called.
void print_counts(std::FILE* file);

}  // namespace fake_cuda
