// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cep {

/// Stores the calling thread's message for cep_last_error(), cut at its fixed size, and returns `code`. Never
/// allocates.
[[gnu::format(printf, 2, 3)]] std::int32_t fail(std::int32_t code, const char* format, ...) noexcept;

/// Puts `prefix` before the calling thread's message (the variable or file that a nested error came from).
void prefix_error(const char* prefix) noexcept;

[[nodiscard]] const char* last_error() noexcept;
[[nodiscard]] const char* describe(std::int32_t code) noexcept;

}  // namespace cep
