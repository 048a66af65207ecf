// SPDX-License-Identifier: Apache-2.0
//
// The commands of cep. Each adds itself to the application; `run` receives what to do once it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/failure.hpp"

namespace cep::cli {

using Command = std::function<tool::Status()>;

void add_merge(CLI::App& app, Command& run);
void add_summarize(CLI::App& app, Command& run);
void add_check(CLI::App& app, Command& run);
void add_compare(CLI::App& app, Command& run);
void add_comm(CLI::App& app, Command& run);
void add_kernels(CLI::App& app, Command& run);
void add_simulate(CLI::App& app, Command& run);
void add_completion(CLI::App& app, Command& run);

}  // namespace cep::cli
