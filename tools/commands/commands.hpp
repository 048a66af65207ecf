// SPDX-License-Identifier: Apache-2.0
//
// The commands of cep, which meson.build lists. add_<name>() adds a command to the application. When the command line
// names the command, parsing sets `run` to what it does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/failure.hpp"
#include "commands/arguments.hpp"

namespace cep::cli {

using Command = std::function<tool::Status()>;

#define COMMAND(name) void add_##name(CLI::App& app, Command& run);
CEP_COMMANDS
#undef COMMAND

/// Replaces this process by the Python launcher of `cep run`, which gets the arguments as they are. Returns only if it
/// cannot.
tool::Status become_launcher(int argc, char** argv);

/// `chosen` is called when the command line names the command.
void add_command(CLI::App& app, const std::string& name, const std::string& description,
                 const std::function<void(Arguments&)>& add_options, const std::function<void()>& chosen);

/// Adds a command whose options are the members of `Options`, a class with `void add_to(Arguments&)` and
/// `tool::Status run() const`.
template <typename Options>
void add_command(CLI::App& app, Command& run, const std::string& name, const std::string& description) {
    const auto options = std::make_shared<Options>();
    add_command(
        app, name, description, [&](Arguments& arguments) { options->add_to(arguments); },
        [options, &run] { run = [options] { return options->run(); }; });
}

}  // namespace cep::cli
