// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cep {

/// Limit of the metadata in a run row, in bytes: that of the option and of all cep_set_meta() calls together.
inline constexpr std::size_t max_run_meta_bytes = 65536;

/// Sets `text` to the text at `meta` if that is a JSON object of at most `max_bytes`. Reads at most max_bytes + 1
/// bytes. Returns the code `too_long` for a longer text, and CEP_EJSON for one that is not a JSON object.
[[nodiscard]] std::int32_t check_meta(const char* meta, std::size_t max_bytes, std::int32_t too_long,
                                      std::string_view& text) noexcept;

}  // namespace cep
