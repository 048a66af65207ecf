// SPDX-License-Identifier: Apache-2.0
//
// The commands of cep, which meson.build lists. The source of the command NAME defines NAME_command.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/failure.hpp"
#include "commands/arguments.hpp"

namespace cep::cli {

using Command = std::function<tool::Status()>;

struct CommandFacts {
    std::string about;
    Command (*add_to)(Arguments& arguments);  // adds its options, and returns what it does
};

#define COMMAND(name) extern const CommandFacts name##_command;
CEP_COMMANDS
#undef COMMAND

/// `Options`: a class with `void add_to(Arguments&)` and `tool::Status run() const`.
template <typename Options>
Command add_options(Arguments& arguments) {
    const auto options = std::make_shared<Options>();
    options->add_to(arguments);
    return [options] { return options->run(); };
}

/// Replaces this process by the Python launcher of `cep run`, which gets the arguments as they are. Returns only if it
/// cannot.
tool::Status become_launcher(int argc, char** argv);

}  // namespace cep::cli
