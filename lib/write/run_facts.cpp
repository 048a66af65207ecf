// SPDX-License-Identifier: Apache-2.0
#include "write/run_facts.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "cep/cep.h"
#include "options/options.hpp"
#include "schema.hpp"

namespace cep {
namespace {

struct KnownKey {
    std::string_view quoted;
    bool integer;  ///< true: a coordinate, an integer ≥ 0; false: a number > 0, up to schema::max_figure
};

constexpr KnownKey known_keys[] = {
    {R"("dp")", true},
    {R"("tp")", true},
    {R"("pp")", true},
    {R"("ep")", true},
    {R"("cp")", true},
    {R"("flops_per_step")", false},
    {R"("hardware_flops_per_step")", false},
    {R"("peak_flops")", false},
    {R"("tokens_per_step")", false},
};

[[nodiscard]] const KnownKey* find_known(std::string_view quoted) noexcept {
    for (const KnownKey& key : known_keys)
        if (key.quoted == quoted) return &key;
    return nullptr;
}

[[nodiscard]] std::int32_t check_known(const KnownKey& key, std::string_view value) {
    const char* last = value.data() + value.size();
    bool valid = false;
    if (key.integer) {
        std::int32_t coordinate = -1;
        const auto [end, error] = std::from_chars(value.data(), last, coordinate);
        valid = error == std::errc() && end == last && coordinate >= 0;
    } else {
        double number = 0;
        const auto [end, error] = std::from_chars(value.data(), last, number);
        valid = error == std::errc() && end == last && number > 0 && number <= schema::max_figure;
    }
    if (valid) return CEP_OK;
    return fail(CEP_EJSON, "meta: %.*s: %.*s is not %s", static_cast<int>(key.quoted.size()), key.quoted.data(),
                static_cast<int>(std::min<std::size_t>(value.size(), 200)), value.data(),
                key.integer ? "an integer of at least 0" : "a number above 0, up to 1e30");
}

[[nodiscard]] std::string one_line(std::string_view json) {
    std::string text(json);
    for (char& c : text)
        if (c == '\n' || c == '\r') c = ' ';  // never inside a string: JSON escapes them there
    return text;
}

}  // namespace

void RunMeta::set(std::string_view quoted_key, std::string_view value, bool known) {
    for (Member& member : members_)
        if (member.quoted_key == quoted_key) {
            member.value = one_line(value);
            return;
        }
    members_.push_back({std::string(quoted_key), one_line(value), known});
}

std::int32_t RunMeta::add(std::string_view object) {
    std::int32_t code = CEP_OK;
    json::for_each_member(object, [&](std::string_view key, std::string_view value) {
        const KnownKey* known = find_known(key);
        if (known != nullptr && code == CEP_OK) code = check_known(*known, value);
        if (code == CEP_OK) set(key, value, known != nullptr);
    });
    std::size_t bytes = 0;
    for (const Member& member : members_)
        bytes += member.quoted_key.size() + member.value.size() + 2;  // with ':' and ','
    if (code == CEP_OK && bytes > max_run_meta_bytes)
        return fail(CEP_ELIMIT, "meta: all metadata of the run together is longer than %zu bytes", max_run_meta_bytes);
    return code;
}

std::int32_t RunMeta::merge(const char* json) {
    std::string_view object;
    std::int32_t code = check_meta(json, max_run_meta_bytes, CEP_ELIMIT, object);
    if (code != CEP_OK) return code;
    RunMeta merged = *this;
    code = merged.add(object);
    if (code == CEP_OK) *this = std::move(merged);
    return code;
}

/// Appends the known members, or the others, with a comma before each but an object's first.
void RunMeta::append(std::string& out, bool known) const {
    for (const Member& member : members_) {
        if (member.known != known) continue;
        if (!out.ends_with('{')) out += ',';
        out.append(member.quoted_key).append(1, ':').append(member.value);
    }
}

void RunMeta::append_members(std::string& out) const {
    append(out, true);
    std::string others = "{";
    append(others, false);
    if (others.size() > 1) out.append(",\"meta\":").append(others).append(1, '}');
}

std::string RunMeta::as_object() const {
    std::string out = "{";
    append(out, true);
    append(out, false);
    return out + '}';
}

}  // namespace cep
