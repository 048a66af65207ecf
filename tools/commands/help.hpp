// SPDX-License-Identifier: Apache-2.0
//
// Help: the texts of `--help`, and what `cep help WORD` shows.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "base/failure.hpp"

namespace cep::cli {

/// The group of options that are kept for scripts: no help has them, and no completion.
inline constexpr const char* hidden_group = "hidden";
[[nodiscard]] inline bool is_hidden(const CLI::Option& option) {
    return option.get_group() == hidden_group || option.get_group().empty();
}

/// A word, such as the name of a command or an option, and what it is about.
struct Entry {
    std::string word;
    std::string about;
};

[[nodiscard]] std::vector<Entry> commands_of(const CLI::App& app);
/// nullptr: there is no command of this name.
[[nodiscard]] const CLI::App* find_command(const CLI::App& app, const std::string& name);

/// The help of cep, or of one of its commands, in lines of at most `columns`.
[[nodiscard]] std::string help_text(const CLI::App& app, std::size_t columns);

/// What `cep help` takes: the commands, then the other topics.
[[nodiscard]] std::vector<Entry> help_topics(const CLI::App& app);
/// Shows the page of a word, or the help of a command that has none. Reports a word that is neither.
tool::Status help_on(const CLI::App& app, const std::string& word);

/// "; did you mean 'merge'?" with the known word that takes the fewest edits to get from `word`; "" where all take
/// many.
[[nodiscard]] std::string suggest(std::string_view word, const std::vector<Entry>& known);

/// "there is no command 'mrege'; did you mean 'merge'?"
[[nodiscard]] std::string describe_unknown_command(const CLI::App& app, const std::string& word);
/// The same for the first option among arguments that the command does not take, or for the first of them.
[[nodiscard]] std::string describe_unknown_argument(const CLI::App& command, const std::vector<std::string>& arguments);

}  // namespace cep::cli
