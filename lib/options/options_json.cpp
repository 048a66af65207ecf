// SPDX-License-Identifier: Apache-2.0
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/system_call.hpp"
#include "options/options.hpp"

namespace cep {
namespace {

/// The longest JSON configuration, as a file or as text.
constexpr std::size_t max_config_bytes = 1 << 20;
/// A path may be longer than a message. This leaves room for the reason.
constexpr int max_shown_path = 500;
constexpr double exact_integer_limit = 9007199254740992.0;  // 2^53: doubles are exact for integers up to this

struct CJsonDelete {
    void operator()(cJSON* node) const noexcept { cJSON_Delete(node); }
};
using CJson = std::unique_ptr<cJSON, CJsonDelete>;

/// Reads a checked text.
[[nodiscard]] CJson parse(std::string_view json) {
    CJson node(cJSON_ParseWithLength(json.data(), json.size()));
    if (node == nullptr) throw std::bad_alloc();
    return node;
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
    const CJson list = parse(json);
    std::vector<std::int32_t> ranks;
    for (const cJSON* item = list->child; item != nullptr; item = item->next) {
        const double rank = item->valuedouble;
        if (cJSON_IsNumber(item) == 0 || std::floor(rank) != rank || std::fabs(rank) > INT32_MAX) {
            const std::unique_ptr<char, decltype(&cJSON_free)> text(cJSON_PrintUnformatted(item), cJSON_free);
            return refuse(field, text != nullptr ? text.get() : "an element", "a rank");
        }
        ranks.push_back(static_cast<std::int32_t>(rank));
    }
    return set_ranks(options, field, std::move(ranks), storage);
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
            return set_text(options, field, parse(json)->valuestring, storage);
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
    const CJson name = parse(key);
    const OptionField* field = find_option(name->valuestring);
    if (field == nullptr) return fail(CEP_EOPTION, "\"%.100s\" is not an option", name->valuestring);
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

[[nodiscard]] std::int32_t system_error(const char* path) noexcept {
    return fail(CEP_EIO, "%.*s: %s", max_shown_path, path, std::strerror(errno));
}

/// Fills `text` from a regular file, and shortens it to what was read.
[[nodiscard]] std::int32_t read_all(const char* path, int file, std::string& text) {
    struct stat status {};
    if (::fstat(file, &status) != 0) return system_error(path);
    const mode_t mode = status.st_mode;
    if (!S_ISREG(mode))
        return fail(CEP_EIO, "%.*s: is %s, not a regular file", max_shown_path, path,
                    S_ISDIR(mode)    ? "a directory"
                    : S_ISFIFO(mode) ? "a FIFO"
                                     : "a device");
    std::size_t bytes = 0;
    while (bytes < text.size()) {
        const ssize_t size = ::read(file, text.data() + bytes, text.size() - bytes);
        if (size == 0) break;
        if (size > 0)
            bytes += static_cast<std::size_t>(size);
        else if (errno != EINTR)
            return system_error(path);
    }
    text.resize(bytes);
    return CEP_OK;
}

/// Reads a regular file of at most max_config_bytes.
[[nodiscard]] std::int32_t read_config_file(const char* path, std::string& text) {
    text.resize(max_config_bytes + 1);
    // O_NONBLOCK: open(2) must not wait on a FIFO without a writer.
    const int file = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return system_error(path);
    const std::int32_t code = read_all(path, file, text);
    ::close(file);
    if (code != CEP_OK || text.size() <= max_config_bytes) return code;
    return fail(CEP_EIO, "%.*s: the configuration is longer than %zu bytes", max_shown_path, path, max_config_bytes);
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
