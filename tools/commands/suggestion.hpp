// SPDX-License-Identifier: Apache-2.0
//
// Suggestions for words of the command line that nothing knows.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cep::cli {

/// The candidate that differs least from `word`, by few edits; "" where none is near.
[[nodiscard]] std::string nearest_of(std::string_view word, const std::vector<std::string>& candidates);

[[nodiscard]] bool is_command(const CLI::App& app, const std::string& word);

/// "there is no command 'mrege'; did you mean 'merge'?"
[[nodiscard]] std::string describe_unknown_command(const CLI::App& app, const std::string& word);
/// The same for the first of the arguments that a command did not take.
[[nodiscard]] std::string describe_unknown_argument(const CLI::App& command, const std::vector<std::string>& arguments);

}  // namespace cep::cli
