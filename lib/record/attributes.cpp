// SPDX-License-Identifier: Apache-2.0
#include "record/attributes.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/error.hpp"
#include "base/guarded.hpp"
#include "base/json_text.hpp"
#include "options/options.hpp"

namespace cep {
namespace {

constexpr std::size_t max_attribute_bytes = 63;
constexpr std::size_t max_meta_bytes = 16384;

[[nodiscard]] Name* make_name(std::string_view text) {
    return new Name(text);
}

[[nodiscard]] std::int32_t copy_attributes(const cep_attrs& from, cep_attrs& to) noexcept {
    if (from.struct_size < offsetof(cep_attrs, bytes))
        return fail(CEP_EINVAL, "attrs: struct_size %" PRIu32 " is too small; start from CEP_ATTRS_INIT",
                    from.struct_size);
    const auto* bytes = reinterpret_cast<const char*>(&from);
    for (std::size_t i = sizeof to; i < from.struct_size; ++i)
        if (bytes[i] != 0)
            return fail(CEP_EINVAL, "attrs: the field at byte %zu is set, but this library (%s) does not have it", i,
                        cep_version());
    to = CEP_ATTRS_INIT;
    std::memcpy(&to, &from, std::min<std::size_t>(from.struct_size, sizeof to));
    const std::uint32_t unknown = to.flags & ~std::uint32_t{CEP_ATTRS_ASYNC};
    return unknown == 0 ? CEP_OK : fail(CEP_EINVAL, "attrs: flags: %" PRIu32 " is not known", unknown);
}

[[nodiscard]] std::int32_t check_numbers(const cep_attrs& attrs) noexcept {
    if (attrs.bytes < 0) return fail(CEP_EINVAL, "attrs: bytes: %" PRId64 " is negative", attrs.bytes);
    if (!std::isfinite(attrs.flops) || attrs.flops < 0)
        return fail(CEP_EINVAL, "attrs: flops: %g is not a finite number of at least 0", attrs.flops);
    if (attrs.coll < -1) return fail(CEP_EINVAL, "attrs: coll: %" PRId64 " is less than -1", attrs.coll);
    if (attrs.coll > 0 && attrs.group == nullptr)
        return fail(CEP_EINVAL, "attrs: coll: %" PRId64 " needs a group", attrs.coll);
    return CEP_OK;
}

[[nodiscard]] std::int32_t read_valid(NameTable<Name>& names, const cep_attrs& from, GivenAttributes& given) noexcept {
    cep_attrs attrs = CEP_ATTRS_INIT;
    std::int32_t code = copy_attributes(from, attrs);
    if (code == CEP_OK) code = check_numbers(attrs);
    if (code != CEP_OK) return code;
    given.is_async = (attrs.flags & CEP_ATTRS_ASYNC) != 0;
    given.values.bytes = attrs.bytes;
    given.values.flops = attrs.flops;
    given.values.coll = attrs.group != nullptr ? attrs.coll : -1;
    if (attrs.group != nullptr) code = intern(names, "group", attrs.group, max_attribute_bytes, given.values.group);
    if (code == CEP_OK && attrs.error != nullptr)
        code = intern(names, "error", attrs.error, max_attribute_bytes, given.values.error);
    if (code == CEP_OK && attrs.meta != nullptr) code = read_meta(attrs.meta, given.meta);
    return code;
}

}  // namespace

std::int32_t check_text(const char* what, const char* text, std::size_t max_bytes) noexcept {
    if (text == nullptr) return fail(CEP_EINVAL, "%s is NULL", what);
    const std::size_t bytes = strnlen(text, max_bytes + 1);
    if (bytes == 0) return fail(CEP_EINVAL, "%s is an empty string", what);
    if (bytes > max_bytes) return fail(CEP_EINVAL, "%s: \"%.40s…\" is longer than %zu bytes", what, text, max_bytes);
    if (!json::is_plain_text({text, bytes}))
        return fail(CEP_EINVAL, "%s: not valid UTF-8, or has control characters", what);
    return CEP_OK;
}

std::int32_t intern(NameTable<Name>& names, const char* what, const char* text, std::size_t max_bytes,
                    const Name*& name) noexcept {
    if (const std::int32_t code = check_text(what, text, max_bytes); code != CEP_OK) return code;
    return guarded(what, [&] {
        name = names.find_or_add(text, make_name);
        return name != nullptr ? CEP_OK
                               : fail(CEP_ELIMIT, "%s: no room for \"%s\": the profiler already has %zu distinct names",
                                      what, text, names.limit());
    });
}

std::int32_t read_meta(const char* meta, std::string_view& text) noexcept {
    return check_meta(meta, max_meta_bytes, CEP_EINVAL, text);
}

std::int32_t read_attributes(NameTable<Name>& names, const cep_attrs* from, GivenAttributes& given) noexcept {
    if (from == nullptr) return CEP_OK;
    const std::int32_t code = read_valid(names, *from, given);
    if (code != CEP_OK) given = {.values = {}, .meta = {}, .is_async = given.is_async, .refused = true};
    return code;
}

}  // namespace cep
