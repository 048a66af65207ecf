// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cep {

/// The most metadata that a run row repeats, in bytes: of the option and of all cep_set_meta() calls together.
inline constexpr std::size_t max_run_meta_bytes = 65536;

/// Gives the text at `meta` in `text` if it is a JSON object of at most `max_bytes`; reads no more than these. A longer
/// text is refused with the code `too_long`, another one with CEP_EJSON.
[[nodiscard]] std::int32_t check_meta(const char* meta, std::size_t max_bytes, std::int32_t too_long,
                                      std::string_view& text) noexcept;

}  // namespace cep
