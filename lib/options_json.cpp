// SPDX-License-Identifier: Apache-2.0
#include <cjson/cJSON.h>

#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "error.hpp"
#include "options.hpp"

namespace cep {
namespace {

struct CJsonDelete {
    void operator()(cJSON* node) const noexcept { cJSON_Delete(node); }
    void operator()(char* text) const noexcept { cJSON_free(text); }
};
using CJson = std::unique_ptr<cJSON, CJsonDelete>;
using CJsonText = std::unique_ptr<char, CJsonDelete>;

constexpr double exact_integer_limit = 9007199254740992.0;  // 2^53: what a double holds exactly

[[nodiscard]] CJsonText text_of(const cJSON* node) {
    return CJsonText(cJSON_PrintUnformatted(node));
}

[[nodiscard]] std::int32_t refuse(const OptionField& field, const cJSON* node, const char* expected) {
    const CJsonText text = text_of(node);
    return fail(CEP_EOPTION, "%s: %.200s is not %s", field.name, text == nullptr ? "?" : text.get(), expected);
}

[[nodiscard]] bool integer_of(const cJSON* node, std::int64_t& value) noexcept {
    if (!cJSON_IsNumber(node) || std::floor(node->valuedouble) != node->valuedouble) return false;
    if (std::fabs(node->valuedouble) > exact_integer_limit) return false;
    value = static_cast<std::int64_t>(node->valuedouble);
    return true;
}

[[nodiscard]] std::int32_t set_ranks_from(cep_options& options, const OptionField& field, const cJSON* node,
                                          OptionStorage& storage) {
    if (!cJSON_IsArray(node)) return refuse(field, node, "a list of ranks");
    std::vector<std::int32_t> ranks;
    const cJSON* item = nullptr;
    cJSON_ArrayForEach(item, node) {
        std::int64_t rank = 0;
        if (!integer_of(item, rank) || rank > INT32_MAX || rank < INT32_MIN) return refuse(field, item, "a rank");
        ranks.push_back(static_cast<std::int32_t>(rank));
    }
    return set_ranks(options, field, std::move(ranks), storage);
}

[[nodiscard]] std::int32_t set_from(cep_options& options, const OptionField& field, const cJSON* node,
                                    OptionStorage& storage) {
    if (cJSON_IsNull(node) && field.nullable) {
        set_default(options, field);
        return CEP_OK;
    }
    std::int64_t value = 0;
    switch (field.type) {
        case OptionType::boolean:
            if (!cJSON_IsBool(node)) return refuse(field, node, "true or false");
            return set_integer(options, field, cJSON_IsTrue(node) ? 1 : 0);
        case OptionType::integer32:
        case OptionType::integer64:
            if (!integer_of(node, value)) return refuse(field, node, "an integer");
            return set_integer(options, field, value);
        case OptionType::text:
        case OptionType::choice:
            if (!cJSON_IsString(node)) return refuse(field, node, "a string");
            return set_text(options, field, node->valuestring, storage);
        case OptionType::ranks:
            return set_ranks_from(options, field, node, storage);
        case OptionType::object:
            break;
    }
    if (!cJSON_IsObject(node)) return refuse(field, node, "an object");
    const CJsonText text = text_of(node);
    if (text == nullptr) return fail(CEP_ENOMEM, "%s: out of memory", field.name);
    return set_text(options, field, text.get(), storage);
}

[[nodiscard]] std::int32_t read_file(const char* path, std::string& text) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rbe"), &std::fclose);
    if (file == nullptr) return fail(CEP_EIO, "%s: %s", path, std::strerror(errno));
    char block[4096];
    for (std::size_t size; (size = std::fread(block, 1, sizeof block, file.get())) > 0;) text.append(block, size);
    if (std::ferror(file.get())) return fail(CEP_EIO, "%s: %s", path, std::strerror(errno));
    return CEP_OK;
}

[[nodiscard]] std::int32_t syntax_error(const std::string& text, const char* end) {
    const auto at =
        std::min<std::size_t>(end == nullptr ? 0 : static_cast<std::size_t>(end - text.data()), text.size());
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < at; ++i) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    return fail(CEP_EJSON, "not valid JSON at line %zu, column %zu", line, column);
}

[[nodiscard]] std::int32_t load_text(cep_options& options, const std::string& text, OptionStorage& storage) {
    const char* end = nullptr;
    const CJson root(cJSON_ParseWithLengthOpts(text.c_str(), text.size() + 1, &end, 1));
    if (root == nullptr) return syntax_error(text, end);
    if (!cJSON_IsObject(root.get())) return fail(CEP_EJSON, "not a JSON object");
    const cJSON* node = nullptr;
    cJSON_ArrayForEach(node, root.get()) {
        const OptionField* field = find_option(node->string);
        if (field == nullptr) return fail(CEP_EOPTION, "\"%.100s\" is not an option", node->string);
        if (const std::int32_t code = set_from(options, *field, node, storage); code != CEP_OK) return code;
    }
    return CEP_OK;
}

}  // namespace

std::int32_t load_options_json(cep_options& options, const char* json, OptionStorage& storage) {
    if (json[std::strspn(json, " \t\r\n")] == '{') return load_text(options, json, storage);
    std::string text;
    if (const std::int32_t code = read_file(json, text); code != CEP_OK) return code;
    const std::int32_t code = load_text(options, text, storage);
    if (code != CEP_OK) prefix_error(json);
    return code;
}

}  // namespace cep
