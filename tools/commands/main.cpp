// SPDX-License-Identifier: Apache-2.0
//
// The cep command: parses the arguments, runs the command they name, and turns failures into messages and statuses.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <span>
#include <string_view>

#include "base/failure.hpp"
#include "base/heap.hpp"
#include "base/output.hpp"
#include "base/say.hpp"
#include "base/terminal.hpp"
#include "commands/commands.hpp"
#include "commands/help.hpp"

namespace {

using cep::tool::say;
using cep::tool::Status;

using Words = std::span<const char* const>;

/// When the command line names the command, parsing sets `run` to what it does. Only a command that some word names
/// gets its options: to make those of all takes as long as the start of the process.
void add_command(CLI::App& app, const std::string& name, const cep::cli::CommandFacts& facts, Words words,
                 cep::cli::Command& run) {
    CLI::App* const command = app.add_subcommand(name, facts.about);
    if (std::find(words.begin(), words.end(), name) == words.end()) return;
    cep::cli::Arguments arguments(*command);
    command->callback([&run, chosen = facts.add_to(arguments)] { run = chosen; });
}

void add_commands(CLI::App& app, Words words, cep::cli::Command& run) {
    app.set_help_flag("-h,--help", "Print this help");
    app.set_version_flag("--version", "cep " CEP_VERSION, "Print the version");
    app.require_subcommand(1);
#define COMMAND(name) add_command(app, #name, cep::cli::name##_command, words, run);
    CEP_COMMANDS
#undef COMMAND
    cep::cli::Arguments(app).set_examples(
        "  cep summarize output/cuda_event_profiler\n"
        "  cep check output\n"
        "  cep merge -o job.jsonl.zst output\n"
        "'cep COMMAND --help' explains a command, 'cep help COMMAND' shows its page of\n"
        "the manual, and 'cep help topics' names the other pages.");
}

Status write_help(const CLI::App& app) {
    cep::tool::write_standard_output(cep::cli::help_text(app, cep::tool::text_columns()));
    return Status::done;
}

Status say_usage(const std::string& command, const std::string& why) {
    say("{}: {}\nTry '{} --help'.\n", command, why, command);
    return Status::usage;
}

/// CLI11 says "--output: 1 required TEXT missing" of an option without its value, and "--output: At Most 1 required but
/// received 2" of one that is there twice.
std::string describe_parse_error(const CLI::ParseError& error) {
    const std::string why = error.what();
    const std::string option = why.substr(0, why.find(':'));
    if (error.get_name() != "ArgumentMismatch") return why;
    if (why.ends_with(" missing")) return option + ": its value is missing";
    return why.find("At Most 1") != std::string::npos ? option + ": given more than once" : why;
}

Status say_parse_error(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const CLI::App& command = chosen.empty() ? app : *chosen.front();
    const std::string name = chosen.empty() ? "cep" : "cep " + command.get_name();
    const std::vector<std::string> unknown = command.remaining();
    if (!unknown.empty()) return say_usage(name, cep::cli::describe_unknown_argument(command, unknown));
    if (!app.remaining().empty()) return say_usage("cep", cep::cli::describe_unknown_argument(app, app.remaining()));
    return say_usage(name, describe_parse_error(error));
}

Status show_help(const CLI::App& app, int argc, char** argv) {
    if (argc == 2 || std::string_view(argv[2]) == "--help") return write_help(app);
    return argc == 3 ? cep::cli::help_on(app, argv[2]) : say_usage("cep help", "more than one word");
}

Status parse_and_run(int argc, char** argv) {
    CLI::App app("CUDA Event Profiler: says where the time of a multi-GPU training goes, and which rank is slow.",
                 "cep");
    cep::cli::Command run;
    add_commands(app, Words(argv, static_cast<std::size_t>(argc)), run);
    if (argc < 2) return write_help(app);
    const std::string name = argv[1];
    if (name == "help") return show_help(app, argc, argv);
    if (cep::cli::find_command(app, name) == nullptr && !name.starts_with('-'))
        return say_usage("cep", cep::cli::describe_unknown_command(app, name));
    const bool is_help = argc > 2 && (std::string_view(argv[2]) == "--help" || std::string_view(argv[2]) == "-h");
    if (name == "run" && !is_help) return cep::cli::become_launcher(argc, argv);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForVersion& version) {
        cep::tool::write_standard_output(std::string(version.what()) + "\n");
        return Status::done;
    } catch (const CLI::CallForHelp&) {
        const auto chosen = app.get_subcommands();
        return write_help(chosen.empty() ? app : *chosen.front());
    } catch (const CLI::ParseError& error) {
        return say_parse_error(app, error);
    }
    return run();
}

Status run_safely(int argc, char** argv) {
    const bool has_name = argc > 1 && *argv[1] != '-';
    const std::string name = has_name ? std::string("cep ") + argv[1] : "cep";
    try {
        return parse_and_run(argc, argv);
    } catch (const cep::tool::OutputClosed&) {
        return Status::done;
    } catch (const cep::tool::UsageError& error) {
        return say_usage(name, error.what());
    } catch (const std::bad_alloc&) {
        say("{}: not enough memory; fewer threads (-j 1) and less input at a time (--steps, --ranks) need less\n",
            name);
        return Status::system_failure;
    } catch (const std::exception& error) {
        say("{}: {}\n", name, error.what());
        return Status::system_failure;
    }
}

}  // namespace

int main(int argc, char** argv) {
    cep::tool::fill_standard_descriptors();
    cep::tool::set_up_heap();
    // write() then fails with EPIPE or EFBIG, and the command reports it.
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    return static_cast<int>(run_safely(argc, argv));
}
