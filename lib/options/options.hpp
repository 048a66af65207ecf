// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cep/cep.h"
#include "options/sampling.hpp"

namespace cep {

/// The longest list of ranks. It is limited because every run row repeats it.
inline constexpr std::size_t max_listed_ranks = 65536;
/// Limit of the metadata in a run row, in bytes: that of the option and of all cep_set_meta() calls together.
inline constexpr std::size_t max_run_meta_bytes = 65536;

/// The checked options of one profiler, with every default filled in. Only this struct and Sampling state defaults.
struct Config {
    bool enable = true;
    std::string directory;
    std::int32_t rank = 0;
    std::int32_t world_size = 1;
    std::int32_t local_rank = 0;
    std::int32_t layout = CEP_LAYOUT_FULL;
    Sampling sampling;
    std::vector<std::int32_t> ranks;  ///< empty: all
    std::int64_t max_file_bytes = 0;  ///< 0: no limit
    std::size_t ring_capacity = 4096;
    std::size_t pool_limit = 16384;
    std::int32_t backend = CEP_BACKEND_AUTO;
    std::string run_id;
    std::string meta;                 ///< a JSON object, or empty
    double max_overhead_percent = 0;  ///< 0: no bound
    CaptureRange capture_range;       ///< of this rank

    /// Whether this rank profiles.
    [[nodiscard]] bool active() const noexcept;
};

/// Checks the options and the launcher's variables. If `options` is null, reads the options from the environment. May
/// throw bad_alloc.
[[nodiscard]] std::int32_t make_config(const cep_options* options, Config& config);

enum class OptionType : std::uint8_t { boolean, integer32, integer64, real, text, ranks, choice, object };

/// Name, place, type and range of one option. option_fields() lists them all, and no other place repeats them.
struct OptionField {
    const char* name;
    OptionType type;
    std::size_t offset;  ///< in cep_options
    std::int64_t minimum = 0;
    std::int64_t maximum = 0;
    bool nullable = false;                    ///< JSON null (environment: "none") gives the default
    std::array<const char*, 3> choices = {};  ///< null after the last
};

inline constexpr std::size_t option_count = 19;
[[nodiscard]] const std::array<OptionField, option_count>& option_fields() noexcept;
/// Null if there is no option of that name.
[[nodiscard]] const OptionField* find_option(std::string_view name) noexcept;

/// The smallest struct that the load calls accept: that of version 0.1.0, which ends with `storage`.
inline constexpr std::size_t loadable_options_bytes = offsetof(cep_options, storage) + sizeof(void*);

/// Memory that the load calls allocate for a cep_options.
struct OptionStorage {
    std::deque<std::string> strings;
    std::deque<std::vector<std::int32_t>> rank_lists;
    /// All options as loaded last. The caller's struct may be too short for the newer ones.
    cep_options loaded{};
};

/// The options with their defaults (see cep.h).
[[nodiscard]] cep_options default_options() noexcept;

/// Copies a caller's struct, which may be shorter or longer than ours. Options that a shorter one lacks are those that
/// were loaded, else the defaults. Fails if a field beyond ours is set.
[[nodiscard]] std::int32_t read_options(const cep_options* from, cep_options& to);

// Set one option from JSON or the environment. They check the range; errors name the option and the value.
[[nodiscard]] std::int32_t set_integer(cep_options& options, const OptionField& field, std::int64_t value);
[[nodiscard]] std::int32_t set_real(cep_options& options, const OptionField& field, double value);
[[nodiscard]] std::int32_t set_text(cep_options& options, const OptionField& field, std::string_view value,
                                    OptionStorage& storage);
[[nodiscard]] std::int32_t set_ranks(cep_options& options, const OptionField& field, std::vector<std::int32_t> ranks,
                                     OptionStorage& storage);
void set_default(cep_options& options, const OptionField& field) noexcept;

[[nodiscard]] std::int32_t load_options_json(cep_options& options, const char* json, OptionStorage& storage);
[[nodiscard]] std::int32_t load_options_env(cep_options& options, OptionStorage& storage);

/// Parses "100-104" or "100-104@0,8"; the ranks are empty for all. Else returns false. May throw bad_alloc.
[[nodiscard]] bool parse_capture_range(std::string_view text, CaptureRange& range, std::vector<std::int32_t>& ranks);
/// Parses a text that is exactly one decimal integer; else returns false.
[[nodiscard]] bool parse_integer(std::string_view text, std::int64_t& value) noexcept;
/// Parses a text that is exactly one number, such as 0.1 or 1e-3; else returns false.
[[nodiscard]] bool parse_real(std::string_view text, double& value) noexcept;

/// Sets `text` to the text at `meta` if that is a JSON object of at most `max_bytes`. Reads at most max_bytes + 1
/// bytes. Returns the code `too_long` for a longer text, and CEP_EJSON for one that is not a JSON object.
[[nodiscard]] std::int32_t check_meta(const char* meta, std::size_t max_bytes, std::int32_t too_long,
                                      std::string_view& text) noexcept;

/// Sets rank, world_size and local_rank from the launcher's variables, if they are CEP_FIND_IT.
[[nodiscard]] std::int32_t find_ranks(cep_options& options);
/// The run's id from the launcher's variables, else made from the host and the parent process. May throw bad_alloc.
[[nodiscard]] std::string find_run_id();

}  // namespace cep
