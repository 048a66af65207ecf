// SPDX-License-Identifier: Apache-2.0
#include "meta_text.hpp"

#include <cstring>

#include "cep/cep.h"
#include "error.hpp"
#include "json_text.hpp"

namespace cep {

std::int32_t check_meta(const char* meta, std::size_t max_bytes, std::int32_t too_long,
                        std::string_view& text) noexcept {
    const std::size_t bytes = strnlen(meta, max_bytes + 1);
    if (bytes > max_bytes) return fail(too_long, "meta: the text is longer than %zu bytes", max_bytes);
    const json::Check check = json::check_object({meta, bytes});
    if (!check.valid) return fail(CEP_EJSON, "meta: not a JSON object: %s at byte %zu", check.reason, check.offset);
    text = {meta, bytes};
    return CEP_OK;
}

}  // namespace cep
