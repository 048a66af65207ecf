// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cep {

/// Stores the calling thread's message for cep_last_error() and returns `code`. A long message is cut off. Never
/// allocates.
[[gnu::format(printf, 2, 3)]] std::int32_t fail(std::int32_t code, const char* format, ...) noexcept;

/// Puts `prefix` before the calling thread's message: the variable or file that caused a nested error.
void prefix_error(const char* prefix) noexcept;

[[nodiscard]] const char* last_error() noexcept;
[[nodiscard]] const char* describe(std::int32_t code) noexcept;

}  // namespace cep
