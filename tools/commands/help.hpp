// SPDX-License-Identifier: Apache-2.0
//
// Help texts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cep::cli {

/// The name of an option's value, such as "FILE"; "" for a flag.
[[nodiscard]] std::string value_name(const CLI::Option& option);

/// nullptr: there is no command of this name.
[[nodiscard]] const CLI::App* find_command(const CLI::App& app, const std::string& name);

/// The help of cep, or of one of its commands, in lines of at most `columns`.
[[nodiscard]] std::string help_text(const CLI::App& app, std::size_t columns);

}  // namespace cep::cli
