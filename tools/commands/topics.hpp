// SPDX-License-Identifier: Apache-2.0
//
// cep help WORD: the manual pages of commands and of other topics.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/failure.hpp"

namespace cep::cli {

/// A word that `cep help` takes, and what it is about.
struct Topic {
    std::string word;
    std::string about;
};

/// The commands, then the other topics.
[[nodiscard]] std::vector<Topic> help_topics(const CLI::App& app);

/// Shows the page of a word, or the help of a command that has none. Reports a word that is neither.
tool::Status help_on(const CLI::App& app, const std::string& word);

}  // namespace cep::cli
