// SPDX-License-Identifier: Apache-2.0
#include "options/options.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.hpp"
#include "base/json_text.hpp"

namespace cep {
namespace {

constexpr std::int64_t int32_limit = INT32_MAX;
constexpr std::int64_t int64_limit = INT64_MAX;

template <class T>
T& field_at(cep_options& options, const OptionField& field) noexcept {
    return *reinterpret_cast<T*>(reinterpret_cast<char*>(&options) + field.offset);
}

template <class T>
const T& field_at(const cep_options& options, const OptionField& field) noexcept {
    return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(&options) + field.offset);
}

[[nodiscard]] std::size_t bytes_of(const OptionField& field) noexcept {
    const bool is_32_bits =
        field.type == OptionType::boolean || field.type == OptionType::integer32 || field.type == OptionType::choice;
    return is_32_bits ? sizeof(std::int32_t) : sizeof(std::int64_t);  // as a pointer
}

[[nodiscard]] std::int64_t integer_of(const cep_options& options, const OptionField& field) noexcept {
    return field.type == OptionType::integer64 ? field_at<std::int64_t>(options, field)
                                               : field_at<std::int32_t>(options, field);
}

[[nodiscard]] bool is_number(const OptionField& field) noexcept {
    return field.type != OptionType::text && field.type != OptionType::ranks && field.type != OptionType::object &&
           field.type != OptionType::real;
}

/// "A and B", or "A, B and C": as names, or as numbers with names.
[[nodiscard]] std::string list_choices(const OptionField& field, bool as_numbers) {
    std::string list;
    for (std::int64_t i = 0; i <= field.maximum; ++i) {
        const std::string name = field.choices[static_cast<std::size_t>(i)];
        if (i > 0) list += i == field.maximum ? " and " : ", ";
        list += as_numbers ? std::to_string(i) + " (" + name + ")" : '"' + name + '"';
    }
    return list;
}

[[nodiscard]] std::int32_t check_range(const OptionField& field, std::int64_t value) {
    if (value >= field.minimum && value <= field.maximum) return CEP_OK;
    if (field.type == OptionType::choice)
        return fail(CEP_EOPTION, "%s: %" PRId64 " is not one of %s", field.name, value,
                    list_choices(field, true).c_str());
    if (value < field.minimum && (field.maximum == int64_limit || field.maximum == int32_limit))
        return fail(CEP_EOPTION, "%s: %" PRId64 " is less than %" PRId64, field.name, value, field.minimum);
    if (field.maximum == int32_limit)
        return fail(CEP_EOPTION, "%s: %" PRId64 " is greater than %" PRId64, field.name, value, field.maximum);
    return fail(CEP_EOPTION, "%s: %" PRId64 " is not in %" PRId64 "..%" PRId64, field.name, value, field.minimum,
                field.maximum);
}

[[nodiscard]] std::int32_t check_real(const OptionField& field, double value) noexcept {
    // A comparison with NaN kills a program that traps invalid operations.
    const bool is_number = !std::isnan(value);
    if (is_number && value >= static_cast<double>(field.minimum) && value <= static_cast<double>(field.maximum))
        return CEP_OK;
    return fail(CEP_EOPTION, "%s: %g is not in %" PRId64 "..%" PRId64, field.name, value, field.minimum, field.maximum);
}

[[nodiscard]] std::int32_t check_numbers(const cep_options& options) {
    for (const OptionField& field : option_fields()) {
        std::int32_t code = CEP_OK;
        if (is_number(field)) code = check_range(field, integer_of(options, field));
        if (field.type == OptionType::real) code = check_real(field, field_at<double>(options, field));
        if (code != CEP_OK) return code;
    }
    return CEP_OK;
}

[[nodiscard]] std::int32_t check_ranks(const std::int32_t* ranks, std::uint64_t count) noexcept {
    if (count > max_listed_ranks)
        return fail(CEP_EOPTION, "ranks: %" PRIu64 " are listed; at most %zu are allowed", count, max_listed_ranks);
    for (std::uint64_t i = 0; i < count; ++i)
        if (ranks[i] < 0) return fail(CEP_EOPTION, "ranks: %" PRId32 " is negative", ranks[i]);
    return CEP_OK;
}

[[nodiscard]] std::int32_t check_options(const cep_options& options) {
    if (const std::int32_t code = check_numbers(options); code != CEP_OK) return code;
    if (options.reserved != 0) return fail(CEP_EOPTION, "reserved: %" PRId32 " is not 0", options.reserved);
    if (options.end_step < options.start_step)
        return fail(CEP_EOPTION, "end_step: %" PRId64 " is before start_step %" PRId64, options.end_step,
                    options.start_step);
    if (options.ranks_count != 0 && options.ranks == nullptr)
        return fail(CEP_EOPTION, "ranks: NULL, but ranks_count is %" PRIu64, options.ranks_count);
    if (options.ranks != nullptr && options.ranks_count == 0)
        return fail(CEP_EOPTION, "ranks: the list is empty; set NULL for all ranks, or set enable to 0 for none");
    if (options.run_id != nullptr && (std::strlen(options.run_id) > 255 || !json::is_plain_text(options.run_id)))
        return fail(CEP_EOPTION, "run_id: longer than 255 bytes, not valid UTF-8, or has control characters: \"%.40s\"",
                    options.run_id);
    if (options.directory != nullptr && *options.directory == '\0')
        return fail(CEP_EOPTION, "directory: the path is empty; set NULL for ./cuda_event_profiler");
    std::string_view meta;
    if (options.meta != nullptr)
        if (const auto code = check_meta(options.meta, max_run_meta_bytes, CEP_EOPTION, meta); code != CEP_OK)
            return code;
    return check_ranks(options.ranks, options.ranks_count);
}

[[nodiscard]] bool is_listed(const std::vector<std::int32_t>& ranks, std::int32_t rank) noexcept {
    return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

[[nodiscard]] std::int32_t find_capture_range(const cep_options& options, Config& config) {
    if (options.capture_range == nullptr) return CEP_OK;
    CaptureRange range;
    std::vector<std::int32_t> ranks;
    if (!parse_capture_range(options.capture_range, range, ranks))
        return fail(CEP_EOPTION,
                    "capture_range: \"%.200s\" is not a range of steps such as \"100-104\" or \"100-104@0,8\"",
                    options.capture_range);
    if (is_listed(ranks, config.rank)) config.capture_range = range;
    return CEP_OK;
}

[[nodiscard]] std::int32_t check_rank(const cep_options& options) noexcept {
    if (options.rank < options.world_size) return CEP_OK;
    return fail(CEP_EOPTION, "rank: %" PRId32 " is not below world_size %" PRId32, options.rank, options.world_size);
}

}  // namespace

const std::array<OptionField, option_count>& option_fields() noexcept {
    using enum OptionType;
    static constexpr std::array<OptionField, option_count> fields = {{
        {"enable", boolean, offsetof(cep_options, enable), 0, 1},
        {"directory", text, offsetof(cep_options, directory), 0, 0, true},
        {"rank", integer32, offsetof(cep_options, rank), CEP_FIND_IT, int32_limit, true},
        {"world_size", integer32, offsetof(cep_options, world_size), CEP_FIND_IT, int32_limit, true},
        {"local_rank", integer32, offsetof(cep_options, local_rank), CEP_FIND_IT, int32_limit, true},
        {"layout", choice, offsetof(cep_options, layout), 0, 2, false, {"full", "flat", "spans"}},
        {"start_step", integer64, offsetof(cep_options, start_step), 0, int64_limit},
        {"end_step", integer64, offsetof(cep_options, end_step), 0, int64_limit, true},
        {"record_every_n_steps", integer64, offsetof(cep_options, record_every_n_steps), 1, int64_limit},
        {"flush_every_n_steps", integer64, offsetof(cep_options, flush_every_n_steps), 1, int64_limit},
        {"ranks", ranks, offsetof(cep_options, ranks), 0, 0, true},
        {"max_file_bytes", integer64, offsetof(cep_options, max_file_bytes), 0, int64_limit},
        {"ring_capacity", integer64, offsetof(cep_options, ring_capacity), 16, 1 << 20},
        {"pool_limit", integer64, offsetof(cep_options, pool_limit), 2, 1 << 20},
        {"backend", choice, offsetof(cep_options, backend), 0, 1, false, {"auto", "host"}},
        {"run_id", text, offsetof(cep_options, run_id), 0, 0, true},
        {"meta", object, offsetof(cep_options, meta), 0, 0, true},
        {"max_overhead_percent", real, offsetof(cep_options, max_overhead_percent), 0, 100},
        {"capture_range", text, offsetof(cep_options, capture_range), 0, 0, true},
    }};
    return fields;
}

const OptionField* find_option(std::string_view name) noexcept {
    for (const OptionField& field : option_fields())
        if (name == field.name) return &field;
    return nullptr;
}

cep_options default_options() noexcept {
    cep_options options{};
    options.struct_size = sizeof options;
    const Config config;
    options.enable = config.enable ? 1 : 0;
    options.rank = options.world_size = options.local_rank = CEP_FIND_IT;
    options.layout = config.layout;
    options.start_step = config.sampling.start_step;
    options.end_step = config.sampling.end_step;
    options.record_every_n_steps = config.sampling.record_every_n_steps;
    options.flush_every_n_steps = config.sampling.flush_every_n_steps;
    options.max_file_bytes = config.max_file_bytes;
    options.ring_capacity = static_cast<std::int64_t>(config.ring_capacity);
    options.pool_limit = static_cast<std::int64_t>(config.pool_limit);
    options.backend = config.backend;
    options.max_overhead_percent = config.max_overhead_percent;
    return options;
}

std::int32_t read_options(const cep_options* from, cep_options& to) {
    to = default_options();
    if (from->struct_size < offsetof(cep_options, directory))
        return fail(CEP_EINVAL, "struct_size: %" PRIu32 " is too small for a cep_options; call cep_options_init first",
                    from->struct_size);
    const auto* bytes = reinterpret_cast<const char*>(from);
    for (std::size_t i = sizeof to; i < from->struct_size; ++i)
        if (bytes[i] != 0)
            return fail(CEP_EOPTION,
                        "the option at byte %zu of cep_options is set, but this library (%s) does not have it", i,
                        cep_version());
    const bool may_be_loaded = from->struct_size >= loadable_options_bytes && from->struct_size < sizeof to;
    if (may_be_loaded && from->storage != nullptr) to = static_cast<const OptionStorage*>(from->storage)->loaded;
    std::memcpy(static_cast<void*>(&to), from, std::min<std::size_t>(from->struct_size, sizeof to));
    to.struct_size = sizeof to;
    return CEP_OK;
}

std::int32_t set_integer(cep_options& options, const OptionField& field, std::int64_t value) {
    if (const std::int32_t code = check_range(field, value); code != CEP_OK) return code;
    if (field.type == OptionType::integer64)
        field_at<std::int64_t>(options, field) = value;
    else
        field_at<std::int32_t>(options, field) = static_cast<std::int32_t>(value);
    return CEP_OK;
}

std::int32_t set_real(cep_options& options, const OptionField& field, double value) {
    if (const std::int32_t code = check_real(field, value); code != CEP_OK) return code;
    field_at<double>(options, field) = value;
    return CEP_OK;
}

std::int32_t set_text(cep_options& options, const OptionField& field, std::string_view value, OptionStorage& storage) {
    if (field.type == OptionType::choice) {
        for (std::int64_t i = 0; i <= field.maximum; ++i)
            if (value == field.choices[static_cast<std::size_t>(i)]) return set_integer(options, field, i);
        return fail(CEP_EOPTION, "%s: \"%.*s\" is not one of %s", field.name,
                    static_cast<int>(std::min<std::size_t>(value.size(), 200)), value.data(),
                    list_choices(field, false).c_str());
    }
    if (value.empty()) return fail(CEP_EOPTION, "%s: the string is empty", field.name);
    field_at<const char*>(options, field) = storage.strings.emplace_back(value).c_str();
    return CEP_OK;
}

std::int32_t set_ranks(cep_options& options, const OptionField& field, std::vector<std::int32_t> ranks,
                       OptionStorage& storage) {
    if (ranks.empty())
        return fail(CEP_EOPTION, "%s: the list is empty; leave it out for all ranks, or set enable to false for none",
                    field.name);
    if (const std::int32_t code = check_ranks(ranks.data(), ranks.size()); code != CEP_OK) return code;
    const auto& kept = storage.rank_lists.emplace_back(std::move(ranks));
    options.ranks = kept.data();
    options.ranks_count = kept.size();
    return CEP_OK;
}

void set_default(cep_options& options, const OptionField& field) noexcept {
    const cep_options defaults = default_options();
    if (field.type == OptionType::ranks) options.ranks_count = 0;
    std::memcpy(&field_at<char>(options, field), &field_at<char>(defaults, field), bytes_of(field));
}

std::int32_t check_meta(const char* meta, std::size_t max_bytes, std::int32_t too_long,
                        std::string_view& text) noexcept {
    const std::size_t bytes = strnlen(meta, max_bytes + 1);
    if (bytes > max_bytes) return fail(too_long, "meta: the text is longer than %zu bytes", max_bytes);
    const json::Check check = json::check_object({meta, bytes});
    if (!check.valid) return fail(CEP_EJSON, "meta: not a JSON object: %s at byte %zu", check.reason, check.offset);
    text = {meta, bytes};
    return CEP_OK;
}

bool Config::active() const noexcept {
    return enable && is_listed(ranks, rank);
}

std::int32_t make_config(const cep_options* given, Config& config) {
    cep_options options;
    OptionStorage storage;
    if (given != nullptr) {
        if (const std::int32_t code = read_options(given, options); code != CEP_OK) return code;
    } else {
        options = default_options();
        options.enable = 0;
        if (const std::int32_t code = load_options_env(options, storage); code != CEP_OK) return code;
    }
    if (const std::int32_t code = check_options(options); code != CEP_OK) return code;
    if (const std::int32_t code = find_ranks(options); code != CEP_OK) return code;
    if (const std::int32_t code = check_rank(options); code != CEP_OK) return code;
    config.enable = options.enable != 0;
    config.directory = options.directory != nullptr ? options.directory : "./cuda_event_profiler";
    config.rank = options.rank;
    config.world_size = options.world_size;
    config.local_rank = options.local_rank;
    config.layout = options.layout;
    config.sampling = {options.start_step, options.end_step, options.record_every_n_steps, options.flush_every_n_steps};
    if (options.ranks != nullptr) config.ranks.assign(options.ranks, options.ranks + options.ranks_count);
    config.max_file_bytes = options.max_file_bytes;
    config.ring_capacity = static_cast<std::size_t>(options.ring_capacity);
    config.pool_limit = static_cast<std::size_t>(options.pool_limit);
    config.backend = options.backend;
    if (config.active()) config.run_id = options.run_id != nullptr ? options.run_id : find_run_id();
    config.meta = options.meta != nullptr ? options.meta : "";
    config.max_overhead_percent = options.max_overhead_percent;
    return find_capture_range(options, config);
}

}  // namespace cep
