// SPDX-License-Identifier: Apache-2.0
//
// Options that several commands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.hpp"
#include "commands/arguments.hpp"
#include "model/load.hpp"
#include "read/coverage.hpp"
#include "read/filter.hpp"
#include "read/inputs.hpp"
#include "read/read_run.hpp"
#include "read/run_choice.hpp"
#include "show/document.hpp"

namespace cep::cli {

struct InputOptions {
    std::vector<std::string> inputs;
    std::string files_from;
    std::string color = "auto";
    bool strict = false;
    unsigned threads = 0;  // 0: as many as there are usable cores

    void add_to(Arguments& command);
    /// Throws UsageError where no input is named, and as find_inputs_beside().
    [[nodiscard]] tool::InputSet find(const std::string& output, const std::string& hint = "") const;
    [[nodiscard]] tool::ReadOptions reading(tool::WorkRange range = {}) const { return {threads, range}; }
    /// Whether to write colours to standard output.
    [[nodiscard]] bool colors() const;
};

struct FilterOptions {
    std::string steps;
    std::string ranks;
    std::string phases;

    void add_to(Arguments& command);
    /// Throws UsageError.
    [[nodiscard]] tool::Filter filter() const;
};

/// Where a command writes its document, and in which format.
struct OutputOptions {
    std::string path;  // "": standard output
    bool json = false;
    bool csv = false;
    bool markdown = false;
    std::uint64_t limit = tool::Rendering{}.limit;

    /// `schema` names the JSON; `table` describes the CSV, such as "The table, times in milliseconds,". A command that
    /// wants another default of `limit` sets it first.
    void add_to(Arguments& command, const std::string& schema, const std::string& table);
    /// Throws UsageError where the options exclude each other. Call it before anything is read.
    void check() const;
    [[nodiscard]] tool::Rendering rendering(const InputOptions& input) const;
    /// Renders and writes. Throws as Output does.
    void write(const tool::Document& document, const InputOptions& input) const;
    void write(const tool::Document& document, const tool::Rendering& rendering) const;
};

/// Which run of the inputs a command is about.
struct RunOptions {
    std::string run = "latest";

    void add_to(Arguments& command, const std::string& option = "--run");
    /// Throws UsageError.
    [[nodiscard]] tool::RunChoice choice() const { return tool::RunChoice::parse(run); }
};

/// Which attempts of a job count, and how many of its durations are kept.
struct JobOptions {
    std::string attempt;
    std::uint64_t max_samples = tool::LoadOptions::default_max_samples;

    /// `kept` says what --max-samples means for the command.
    void add_to(Arguments& command, const std::string& kept);
    /// Throws UsageError.
    [[nodiscard]] tool::LoadOptions load_options(const FilterOptions& filter, const InputOptions& input,
                                                 const RunOptions& run) const;
};

/// --attempt of commands that take all attempts by default.
void add_attempt_of_rows(Arguments& command, std::string& attempt);

/// --peak-flops
void add_peak_flops(Arguments& command, std::optional<double>& peak_flops);

/// nothing_readable, incomplete (only if `strict`), or done.
[[nodiscard]] tool::Status status_of(const tool::InputCounts& inputs, const tool::Coverage& coverage, bool strict);
/// The same, and says what the inputs lacked.
[[nodiscard]] tool::Status report_status(std::string_view command, const tool::InputCounts& inputs,
                                         const tool::Coverage& coverage, bool strict,
                                         std::string_view run_option = "--run");

/// Where the filters left nothing.
void say_no_spans(std::string_view command);
/// Says that an output was written, of which size, and `what` is in it; nothing of standard output.
void say_written(std::string_view command, const std::string& out, const std::string& what);

/// What finds the inputs that arguments and a list of files name.
using FindInputs = tool::InputSet(const std::vector<std::string>& arguments, const std::string& files_from);

/// The inputs of a command that writes to `output`: commands find theirs here or by InputOptions only. Throws
/// UsageError where `output` is one of them, or has the name of a rank file, so that the next command would read it as
/// an input. `hint` ends the message.
[[nodiscard]] tool::InputSet find_inputs_beside(const std::string& output, const std::vector<std::string>& arguments,
                                                const std::string& files_from, const std::string& hint = "",
                                                FindInputs& find = tool::find_inputs);

}  // namespace cep::cli
