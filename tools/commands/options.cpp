// SPDX-License-Identifier: Apache-2.0
#include "commands/options.hpp"

#include <fmt/core.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/output.hpp"
#include "base/say.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace cep::cli {

using tool::Status;

namespace {

constexpr unsigned max_threads = 1024;

void refuse_input_as_output(const tool::InputSet& inputs, const std::string& path, const std::string& hint) {
    if (path.empty() || path == "-") return;
    const auto is_same = [&](const std::string& file) {
        std::error_code error;
        return !file.empty() && file != "-" && std::filesystem::equivalent(file, path, error);
    };
    for (const tool::InputFile& file : inputs.files)
        if (is_same(file.path)) throw tool::UsageError("--output: this is one of the inputs: " + path + hint);
    if (is_same(inputs.list)) throw tool::UsageError("--output: this is the list of the inputs: " + path);
    std::error_code error;
    const std::filesystem::path target = std::filesystem::canonical(path, error);  // where a link leads
    for (const std::string& name : {path, error ? path : target.native()})
        if (tool::rank_of_file_name(name))
            throw tool::UsageError("--output: a rank file has this name: " + name + hint);
}

/// The format that a file's name asks for: "summary.md" and "summary.md.gz" are Markdown.
tool::Format format_of(std::string_view path) {
    for (const std::string_view compressed : {".gz", ".zst"})
        if (path.ends_with(compressed)) path.remove_suffix(compressed.size());
    if (path.ends_with(".json")) return tool::Format::json;
    if (path.ends_with(".csv")) return tool::Format::csv;
    return path.ends_with(".md") ? tool::Format::markdown : tool::Format::text;
}

}  // namespace

void InputOptions::add_to(Arguments& command) {
    command.add(&inputs, {"INPUT", "Rank files, directories of them, quoted globs, or - for standard input"});
    command.add(&files_from, {"--files-from", "Read more inputs from FILE, one a line (-: standard input)", "FILE"});
    command.add(&threads, {"-j,--threads", "Read with N threads (default: the usable cores, at most 16)", "N",
                           whole_number_from(1, max_threads)});
    command.add(&color, {"--color",
                         "When to use colours: auto, never, always (default auto, which obeys NO_COLOR and TERM=dumb)",
                         "WHEN", one_of({"auto", "never", "always"})});
    command.add(&strict, {"--strict", "Exit with status 4 if the input is incomplete or damaged"});
}

tool::InputSet InputOptions::find(const std::string& output, const std::string& hint) const {
    if (inputs.empty() && files_from.empty()) throw tool::UsageError("no input: name a file or a directory");
    return find_inputs_beside(output, inputs, files_from, hint);
}

bool InputOptions::colors() const {
    if (color != "auto") return color == "always";
    const char* no_color = std::getenv("NO_COLOR");
    return (no_color == nullptr || *no_color == '\0') && tool::is_terminal(STDOUT_FILENO);
}

void OutputOptions::add_to(Arguments& command, const std::string& schema, const std::string& table) {
    command.add(
        &path,
        {"-o,--output",
         "Write to F (default: standard output); .json, .csv and .md choose the format, .gz and .zst compress", "F"});
    command.add(&json, {"--json", "As JSON (schema " + schema + ")"});
    command.add(&csv, {"--csv", table + " as CSV"});
    command.add(&markdown, {"--markdown", "As GitHub Markdown"});
    command.add(&limit, {"--limit", fmt::format("At most N lines in a table, 0: all (default {})", limit), "N"});
}

void OutputOptions::check() const {
    if (json + csv + markdown > 1) throw tool::UsageError("choose only one of --json, --csv and --markdown");
    if (tool::rank_of_file_name(path)) throw tool::UsageError("--output: a rank file has this name: " + path);
}

tool::Rendering OutputOptions::rendering(const InputOptions& input) const {
    const tool::Format format = json       ? tool::Format::json
                                : csv      ? tool::Format::csv
                                : markdown ? tool::Format::markdown
                                           : format_of(path);
    const bool to_file = !path.empty() && path != "-";
    tool::Rendering rendering{format, limit, input.colors() && (!to_file || input.color == "always")};
    if (!to_file && ::isatty(STDOUT_FILENO) != 0) {
        rendering.columns = tool::output_columns();
        rendering.is_ascii = !tool::locale_is_utf8();
    }
    return rendering;
}

void OutputOptions::write(const tool::Document& document, const InputOptions& input) const {
    write(document, rendering(input));
}

void OutputOptions::write(const tool::Document& document, const tool::Rendering& rendering) const {
    std::string text = tool::render(document, rendering);
    const bool is_data = rendering.format == tool::Format::json || rendering.format == tool::Format::csv;
    // A terminal obeys what names may have; other programs get them as they are.
    if (is_data && (path.empty() || path == "-") && ::isatty(STDOUT_FILENO) != 0) {
        std::erase(text, '\r');
        text = tool::printable_lines(text);
    }
    tool::write_output(path, text);
}

void FilterOptions::add_to(Arguments& command) {
    command.add(&steps, {"--steps", "Only steps A to B, both included (A:, :B and A alone are allowed), and others",
                         "A:B,..."});
    command.add(&ranks, {"--ranks", "Only these ranks, such as 0,3-7", "LIST"});
    command.add(&phases, {"--phases", "Only spans of these phases, such as forward,backward", "LIST"});
}

tool::Filter FilterOptions::filter() const {
    tool::Filter filter;
    if (!steps.empty()) filter.set_steps(steps);
    if (!ranks.empty()) filter.set_ranks(ranks);
    if (!phases.empty()) filter.set_phases(phases);
    return filter;
}

void RunOptions::add_to(Arguments& command, const std::string& option) {
    command.add(&run,
                {option,
                 fmt::format("{}, if the inputs have several: latest, all (as if they were one), or its "
                             "name (default {})",
                             option == "--run" ? "The run" : "The run of " + option.substr(option.size() - 1), run),
                 "NAME"});
}

void JobOptions::add_to(Arguments& command, const std::string& kept) {
    command.add(
        &attempt,
        {"--attempt", "Which attempt of a repeated step counts: last, all, or only attempt N (default last)", "WHICH"});
    command.add(&max_samples, {"--max-samples", fmt::format("{} (default {})", kept, max_samples), "N"});
}

void add_attempt_of_rows(Arguments& command, std::string& attempt) {
    command.add(&attempt, {"--attempt", "Rows of which attempts: all, last, or a number (default all)", "WHICH"});
}

tool::LoadOptions JobOptions::load_options(const FilterOptions& filter, const InputOptions& input,
                                           const RunOptions& run) const {
    tool::LoadOptions options{filter.filter(), run.choice(), {}, max_samples, input.reading()};
    if (!attempt.empty()) options.attempt = tool::AttemptChoice::parse(attempt);
    return options;
}

void add_peak_flops(Arguments& command, std::optional<double>& peak_flops) {
    command.add(&peak_flops,
                {"--peak-flops",
                 "Peak of each device for MFU, FLOP/s (default: what run rows say, else that of known GPUs in 16 bits)",
                 "N", positive_number});
}

Status status_of(const tool::InputCounts& inputs, const tool::Coverage& coverage, bool strict) {
    if (inputs.rows == 0) return Status::nothing_readable;
    const bool complete = inputs.complete() && coverage.missing_ranks.empty();
    return strict && !complete ? Status::incomplete : Status::done;
}

Status report_status(std::string_view command, const tool::InputCounts& inputs, const tool::Coverage& coverage,
                     bool strict, std::string_view run_option) {
    tool::report_inputs(command, inputs, coverage, run_option);
    const Status status = status_of(inputs, coverage, strict);
    if (status == Status::nothing_readable) tool::say("cep {}: no rows in any input\n", command);
    return status;
}

void say_no_spans(std::string_view command) {
    tool::say("cep {}: no spans among the rows that were asked for\n", command);
}

void say_written(std::string_view command, const std::string& out, const std::string& what) {
    if (out.empty() || out == "-") return;
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(out, error);  // a pipe or a device has none
    const std::string size = error ? "" : tool::format_bytes(static_cast<double>(bytes)) + ", ";
    tool::say("cep {}: wrote {}: {}{}\n", command, out, size, what);
}

tool::InputSet find_inputs_beside(const std::string& output, const std::vector<std::string>& arguments,
                                  const std::string& files_from, const std::string& hint, FindInputs& find) {
    tool::InputSet found = find(arguments, files_from);
    refuse_input_as_output(found, output, hint);
    return found;
}

}  // namespace cep::cli
