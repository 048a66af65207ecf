// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "cep/cep.h"
#include "record/name_table.hpp"

namespace cep {

/// What the caller tells about a span besides its times. Zero or null (coll: −1) means not given.
struct Attributes {
    std::int64_t bytes = 0;
    double flops = 0;
    std::int64_t coll = -1;
    const Name* group = nullptr;
    const Name* error = nullptr;

    void override_with(const Attributes& later) noexcept {
        if (later.bytes != 0) bytes = later.bytes;
        if (later.flops != 0) flops = later.flops;
        if (later.group != nullptr) {
            group = later.group;
            coll = later.coll;
        }
        if (later.error != nullptr) error = later.error;
    }
};

/// Attributes and the metadata text that came with them. The text still belongs to the caller.
struct GivenAttributes {
    Attributes values;
    std::string_view meta;
    bool is_async = false;  ///< the span is no part of its thread's nesting
    bool refused = false;   ///< the given attributes are invalid: the span gets none
};

/// Checks and copies a caller's attributes (null: none). On an error `given` is empty and marked as refused.
[[nodiscard]] std::int32_t read_attributes(NameTable<Name>& names, const cep_attrs* from,
                                           GivenAttributes& given) noexcept;

/// Looks the name up, and adds it the first time. Errors call it `what`.
[[nodiscard]] std::int32_t intern(NameTable<Name>& names, const char* what, const char* text, std::size_t max_bytes,
                                  const Name*& name) noexcept;

/// Whether `text` is 1 to max_bytes of UTF-8 without control characters.
[[nodiscard]] std::int32_t check_text(const char* what, const char* text, std::size_t max_bytes) noexcept;

/// Metadata of a span or mark: a JSON object of bounded length.
[[nodiscard]] std::int32_t read_meta(const char* meta, std::string_view& text) noexcept;

}  // namespace cep
