// SPDX-License-Identifier: Apache-2.0
//
// Counts of calls by function and thread.
#pragma once

#include <cstdint>
#include <optional>

#include "functions.hpp"

namespace fake_cuda {

/// Adds one to the calling thread's count. Takes no lock after a thread's first call.
void count_call(Function function);

/// The number of calls of one function or all, by one thread or all.
[[nodiscard]] std::uint64_t calls_of(std::optional<Function> function, std::optional<std::int32_t> thread_id);

[[nodiscard]] std::uint64_t synchronizing_calls();

void reset_counts();

}  // namespace fake_cuda
