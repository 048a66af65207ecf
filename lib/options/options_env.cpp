// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cinttypes>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/message.hpp"
#include "options/options.hpp"

namespace cep {
namespace {

/// The variable's value; null if it is unset or empty.
[[nodiscard]] const char* variable(const char* name) noexcept {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
}

[[nodiscard]] bool parse_boolean(std::string_view text, std::int64_t& value) noexcept {
    for (const char* yes : {"1", "true", "yes", "on"})
        if (text == yes) value = 1;
    for (const char* no : {"0", "false", "no", "off"})
        if (text == no) value = 0;
    return value >= 0;
}

/// "0,8,16-23", at most max_listed_ranks in all.
[[nodiscard]] bool parse_ranks(std::string_view text, std::vector<std::int32_t>& ranks) {
    while (true) {
        const std::size_t comma = text.find(',');
        const std::string_view item = text.substr(0, comma);
        const std::size_t dash = item.find('-', 1);
        std::int64_t first = 0;
        std::int64_t last = 0;
        if (!parse_integer(item.substr(0, dash), first)) return false;
        last = first;
        if (dash != std::string_view::npos && !parse_integer(item.substr(dash + 1), last)) return false;
        if (first > last || last > INT32_MAX || first < INT32_MIN) return false;
        if (last - first >= static_cast<std::int64_t>(max_listed_ranks - ranks.size())) return false;
        for (std::int64_t rank = first; rank <= last; ++rank) ranks.push_back(static_cast<std::int32_t>(rank));
        if (comma == std::string_view::npos) return true;
        text.remove_prefix(comma + 1);
    }
}

[[nodiscard]] std::int32_t refuse(const OptionField& field, const char* value, const char* expected) {
    return fail(CEP_EOPTION, "%s: \"%.200s\" is not %s", field.name, value, expected);
}

[[nodiscard]] std::int32_t refuse_ranks(const OptionField& field, const char* value) {
    return fail(CEP_EOPTION, "%s: \"%.200s\" is not a list of at most %zu ranks such as \"0,8,16-23\"", field.name,
                value, max_listed_ranks);
}

[[nodiscard]] std::int32_t set_from(cep_options& options, const OptionField& field, const char* value,
                                    OptionStorage& storage) {
    if (field.nullable && std::string_view(value) == "none") {
        set_default(options, field);
        return CEP_OK;
    }
    std::int64_t number = -1;
    double real = 0;
    std::vector<std::int32_t> ranks;
    switch (field.type) {
        case OptionType::boolean:
            if (!parse_boolean(value, number)) return refuse(field, value, "1 or 0");
            return set_integer(options, field, number);
        case OptionType::integer32:
        case OptionType::integer64:
            if (!parse_integer(value, number)) return refuse(field, value, "an integer");
            return set_integer(options, field, number);
        case OptionType::real:
            if (!parse_real(value, real)) return refuse(field, value, "a number");
            return set_real(options, field, real);
        case OptionType::ranks:
            if (!parse_ranks(value, ranks)) return refuse_ranks(field, value);
            return set_ranks(options, field, std::move(ranks), storage);
        default:
            return set_text(options, field, value, storage);
    }
}

/// "CEP_RECORD_EVERY_N_STEPS" for "record_every_n_steps".
[[nodiscard]] std::string variable_of(const OptionField& field) {
    std::string name = "CEP_";
    for (const char* c = field.name; *c != '\0'; ++c) name += *c == '_' ? '_' : static_cast<char>(*c - 'a' + 'A');
    return name;
}

/// How many characters have to be inserted, removed or replaced.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

/// A variable whose name is nearly that of an option is a typing error, and would be ignored in silence. Other programs
/// may have variables that begin with CEP_. One rank says so, once.
void warn_of_typing_errors(std::int32_t rank) {
    static std::atomic<bool> warned{false};
    constexpr std::size_t most_edits = 2;
    if (rank != 0 || warned.load(std::memory_order_relaxed)) return;
    std::vector<std::string> known = {"CEP_CONFIG", "CEP_LIBRARY", "CEP_BINDING", "CEP_COMMAND"};
    for (const OptionField& field : option_fields()) known.push_back(variable_of(field));
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::string_view name = text.substr(0, text.find('='));
        if (!name.starts_with("CEP_") || std::find(known.begin(), known.end(), name) != known.end()) continue;
        const auto nearest = std::min_element(known.begin(), known.end(), [name](const auto& a, const auto& b) {
            return edit_distance(name, a) < edit_distance(name, b);
        });
        if (edit_distance(name, *nearest) > most_edits) continue;
        warned.store(true, std::memory_order_relaxed);
        print_message(rank,
                      std::string(name) + " is no variable of cep, and is ignored; did you mean " + *nearest + "?");
    }
}

struct Launcher {
    const char* rank;
    const char* world_size;
    const char* local_rank;
};

constexpr Launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
};

[[nodiscard]] std::int32_t find_one(std::int32_t& value, const char* option, const char* const Launcher::*member,
                                    std::int64_t minimum, std::int32_t otherwise) {
    if (value != CEP_FIND_IT) return CEP_OK;
    value = otherwise;
    for (const Launcher& launcher : launchers) {
        const char* name = launcher.*member;
        const char* text = variable(name);
        if (text == nullptr) continue;
        std::int64_t number = 0;
        if (!parse_integer(text, number) || number < minimum || number > INT32_MAX)
            return fail(CEP_EOPTION,
                        "%s: \"%.100s\" in %s is not an integer in %" PRId64 "..%d; correct it or set the option",
                        option, text, name, minimum, INT32_MAX);
        value = static_cast<std::int32_t>(number);
        return CEP_OK;
    }
    return CEP_OK;
}

/// When the parent process started, in clock ticks since boot: field 22 of /proc/<pid>/stat.
[[nodiscard]] std::string parent_start() {
    std::ifstream stat("/proc/" + std::to_string(getppid()) + "/stat");
    std::string line;
    std::getline(stat, line);
    std::size_t at = line.rfind(')');  // ends the command's name, which may contain any character
    for (int field = 2; field < 22 && at != std::string::npos; ++field) at = line.find(' ', at + 1);
    return at == std::string::npos ? "0" : line.substr(at + 1, line.find(' ', at + 1) - at - 1);
}

}  // namespace

bool parse_integer(std::string_view text, std::int64_t& value) noexcept {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

bool parse_capture_range(std::string_view text, CaptureRange& range, std::vector<std::int32_t>& ranks) {
    const std::size_t at = text.find('@');
    const std::string_view steps = text.substr(0, at);
    const std::size_t dash = steps.find('-', 1);
    if (dash == std::string_view::npos || !parse_integer(steps.substr(0, dash), range.first_step) ||
        !parse_integer(steps.substr(dash + 1), range.last_step))
        return false;
    return range.first_step >= 0 && range.any() &&
           (at == std::string_view::npos || parse_ranks(text.substr(at + 1), ranks));
}

bool parse_real(std::string_view text, double& value) noexcept {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

std::int32_t load_options_env(cep_options& options, OptionStorage& storage) {
    if (const char* config = variable("CEP_CONFIG")) {
        const std::int32_t code = load_options_json(options, config, storage);
        if (code != CEP_OK) {
            prefix_error("CEP_CONFIG");
            return code;
        }
    }
    for (const OptionField& field : option_fields()) {
        const std::string name = variable_of(field);
        const char* value = variable(name.c_str());
        if (value == nullptr) continue;
        const std::int32_t code = set_from(options, field, value, storage);
        if (code != CEP_OK) {
            prefix_error(name.c_str());
            return code;
        }
    }
    std::int32_t rank = options.rank;
    if (find_one(rank, "rank", &Launcher::rank, 0, 0) == CEP_OK) warn_of_typing_errors(rank);
    return CEP_OK;
}

std::int32_t find_ranks(cep_options& options) {
    if (const auto code = find_one(options.rank, "rank", &Launcher::rank, 0, 0); code != CEP_OK) return code;
    if (const auto code = find_one(options.world_size, "world_size", &Launcher::world_size, 1, 1); code != CEP_OK)
        return code;
    return find_one(options.local_rank, "local_rank", &Launcher::local_rank, 0, 0);
}

std::string find_run_id() {
    // torchrun sets "none" when it has no --rdzv-id.
    if (const char* id = variable("TORCHELASTIC_RUN_ID"); id != nullptr && std::string_view(id) != "none") return id;
    if (const char* id = variable("SLURM_JOB_ID")) return id;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return std::string(host) + "-" + std::to_string(getppid()) + "-" + parent_start();
}

}  // namespace cep
