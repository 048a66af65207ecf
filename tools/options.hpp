// SPDX-License-Identifier: Apache-2.0
//
// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/coverage.hpp"
#include "analysis/failure.hpp"
#include "analysis/filter.hpp"
#include "analysis/inputs.hpp"
#include "analysis/read_all.hpp"

namespace cep::cli {

struct InputOptions {
    std::vector<std::string> inputs;
    std::string files_from;
    std::string color = "auto";
    bool strict = false;
    unsigned threads = 0;  // 0: as many as there are usable cores

    void add_to(CLI::App& command);
    /// Throws UsageError where no input is named.
    [[nodiscard]] analysis::InputSet find() const;
    [[nodiscard]] analysis::ReadOptions reading() const { return {threads, {}}; }
    /// Whether standard output takes colours.
    [[nodiscard]] bool colors() const;
};

struct FilterOptions {
    std::string steps;
    std::string ranks;
    std::string phases;

    void add_to(CLI::App& command);
    /// Throws UsageError.
    [[nodiscard]] analysis::Filter filter() const;
};

/// Nothing readable, or incomplete input under --strict, or done.
[[nodiscard]] analysis::Status status_of(const analysis::InputCounts& inputs, const analysis::Coverage& coverage,
                                         bool strict);

/// Help text that ends with examples.
void set_examples(CLI::App& command, const std::string& examples);

}  // namespace cep::cli
