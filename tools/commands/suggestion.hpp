// SPDX-License-Identifier: Apache-2.0
//
// Suggestions for unknown words on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "commands/help.hpp"

namespace cep::cli {

/// "; did you mean 'merge'?" with the known word that takes the fewest edits to get from `word`; "" where all take
/// many.
[[nodiscard]] std::string suggest(std::string_view word, const std::vector<Entry>& known);

/// "there is no command 'mrege'; did you mean 'merge'?"
[[nodiscard]] std::string describe_unknown_command(const CLI::App& app, const std::string& word);
/// The same for the first option among arguments that the command does not take, or for the first of them.
[[nodiscard]] std::string describe_unknown_argument(const CLI::App& command, const std::vector<std::string>& arguments);

}  // namespace cep::cli
