// SPDX-License-Identifier: Apache-2.0
#include <cjson/cJSON.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "error.hpp"
#include "json_text.hpp"
#include "options.hpp"

namespace cep {
namespace {

struct CJsonDelete {
    void operator()(cJSON* node) const noexcept { cJSON_Delete(node); }
};
using CJson = std::unique_ptr<cJSON, CJsonDelete>;

constexpr double exact_integer_limit = 9007199254740992.0;  // 2^53: doubles are exact for integers up to this

/// The text of a valid JSON string without \u0000.
[[nodiscard]] std::string unescaped(std::string_view quoted) {
    const CJson node(cJSON_ParseWithLength(quoted.data(), quoted.size()));
    if (node == nullptr || node->valuestring == nullptr) throw std::bad_alloc();
    return node->valuestring;
}

/// The message shows `value` up to the end of its first line.
[[nodiscard]] std::int32_t refuse(const OptionField& field, std::string_view value, const char* expected) {
    const std::size_t shown = std::min<std::size_t>(std::min(value.find_first_of("\r\n"), value.size()), 200);
    return fail(CEP_EOPTION, "%s: %.*s is not %s", field.name, static_cast<int>(shown), value.data(), expected);
}

/// Parses an integer such as 1000 or 1e3.
[[nodiscard]] bool integer_of(std::string_view json, std::int64_t& value) noexcept {
    if (parse_integer(json, value)) return true;
    double number = 0;
    if (!parse_real(json, number)) return false;
    if (std::floor(number) != number || std::fabs(number) > exact_integer_limit) return false;
    value = static_cast<std::int64_t>(number);
    return true;
}

[[nodiscard]] std::int32_t set_ranks_from(cep_options& options, const OptionField& field, std::string_view json,
                                          OptionStorage& storage) {
    if (json.front() != '[') return refuse(field, json, "a list of ranks");
    std::vector<std::int32_t> ranks;
    std::int32_t code = CEP_OK;
    json::for_each_element(json, [&](std::string_view item) {
        std::int64_t rank = 0;
        if (integer_of(item, rank) && rank >= INT32_MIN && rank <= INT32_MAX)
            ranks.push_back(static_cast<std::int32_t>(rank));
        else
            code = refuse(field, item, "a rank");
        return code == CEP_OK;
    });
    return code != CEP_OK ? code : set_ranks(options, field, std::move(ranks), storage);
}

[[nodiscard]] std::int32_t set_from(cep_options& options, const OptionField& field, std::string_view json,
                                    OptionStorage& storage) {
    if (json == "null" && field.nullable) {
        set_default(options, field);
        return CEP_OK;
    }
    std::int64_t value = 0;
    double real = 0;
    switch (field.type) {
        case OptionType::boolean:
            if (json != "true" && json != "false") return refuse(field, json, "true or false");
            return set_integer(options, field, json == "true" ? 1 : 0);
        case OptionType::integer32:
        case OptionType::integer64:
            if (!integer_of(json, value)) return refuse(field, json, "an integer");
            return set_integer(options, field, value);
        case OptionType::real:
            if (!parse_real(json, real)) return refuse(field, json, "a number");
            return set_real(options, field, real);
        case OptionType::text:
        case OptionType::choice:
            if (json.front() != '"') return refuse(field, json, "a string");
            return set_text(options, field, unescaped(json), storage);
        case OptionType::ranks:
            return set_ranks_from(options, field, json, storage);
        case OptionType::object:
            break;
    }
    if (json.front() != '{') return refuse(field, json, "an object");
    return set_text(options, field, json, storage);
}

[[nodiscard]] std::int32_t set_member(cep_options& options, std::string_view key, std::string_view value,
                                      OptionStorage& storage) {
    const std::string name = unescaped(key);
    const OptionField* field = find_option(name);
    if (field == nullptr) return fail(CEP_EOPTION, "\"%.100s\" is not an option", name.c_str());
    return set_from(options, *field, value, storage);
}

/// Position of a \u0000 in a valid JSON text, where an option's C string would end; npos if there is none.
[[nodiscard]] std::size_t find_nul(std::string_view json) noexcept {
    for (std::size_t at = json.find('\\'); at != std::string_view::npos; at = json.find('\\', at + 2))
        if (json.substr(at, 6) == "\\u0000") return at;
    return std::string_view::npos;
}

[[nodiscard]] std::int32_t refuse_text(const char* what, std::string_view text, std::size_t at, const char* why) {
    const std::string_view before = text.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    return fail(CEP_EJSON, "%s at line %td, column %zu: %s", what, line, column, why);
}

[[nodiscard]] std::int32_t load_text(cep_options& options, std::string_view text, OptionStorage& storage) {
    const json::Check check = json::check_object(text);
    if (!check.valid) return refuse_text("not a JSON object", text, check.offset, check.reason);
    if (const std::size_t at = find_nul(text); at != std::string_view::npos)
        return refuse_text("\\u0000", text, at, "no option may contain this character");
    std::int32_t code = CEP_OK;
    json::for_each_member(text, [&](std::string_view key, std::string_view value) {
        if (code == CEP_OK) code = set_member(options, key, value, storage);
    });
    return code;
}

[[nodiscard]] std::int32_t load_inline_text(cep_options& options, const char* json, OptionStorage& storage) {
    const std::size_t bytes = strnlen(json, max_config_bytes + 1);
    if (bytes > max_config_bytes)
        return fail(CEP_EJSON, "the configuration is longer than %zu bytes", max_config_bytes);
    return load_text(options, {json, bytes}, storage);
}

[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text) noexcept {
    constexpr std::string_view mark = "\xEF\xBB\xBF";
    if (text.starts_with(mark)) text.remove_prefix(mark.size());
    return text;
}

}  // namespace

std::int32_t load_options_json(cep_options& options, const char* json, OptionStorage& storage) {
    if (json[std::strspn(json, " \t\r\n")] == '{') return load_inline_text(options, json, storage);
    std::string text;
    if (const std::int32_t code = read_config_file(json, text); code != CEP_OK) return code;
    const std::int32_t code = load_text(options, without_byte_order_mark(text), storage);
    if (code != CEP_OK) prefix_error(json);
    return code;
}

}  // namespace cep
