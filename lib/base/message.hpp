// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cep {

/// Writes "cep: rank R: TEXT" as one line to standard error. Never throws, raises no SIGPIPE, keeps errno.
void print_message(std::int32_t rank, std::string_view text) noexcept;

}  // namespace cep
