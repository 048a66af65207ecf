// SPDX-License-Identifier: Apache-2.0
//
// The cep command: argument parsing, and the exit status of whatever happens.
#include <fmt/format.h>
#include <malloc.h>
#include <CLI/CLI.hpp>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <exception>

#include "base/failure.hpp"
#include "base/output.hpp"
#include "base/say.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"

namespace {

using cep::tool::Status;

Status parse_and_run(int argc, char** argv) {
    CLI::App app("Reads the rank files of the CUDA Event Profiler: merges, summarises and checks them.", "cep");
    app.set_version_flag("--version", "cep " CEP_VERSION);
    app.require_subcommand(1);
    app.get_formatter()->column_width(30);
    cep::cli::Command run;
    cep::cli::add_merge(app, run);
    cep::cli::add_summarize(app, run);
    cep::cli::add_check(app, run);
    cep::cli::add_compare(app, run);
    cep::cli::add_comm(app, run);
    cep::cli::add_kernels(app, run);
    cep::cli::add_simulate(app, run);
    cep::cli::add_completion(app, run);
    cep::cli::set_examples(app,
                           "  cep summarize output/cuda_event_profiler\n"
                           "  cep check output\n"
                           "  cep merge -o job.jsonl.zst output\n"
                           "`cep COMMAND --help` says more about a command.");
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForVersion& version) {
        cep::tool::write_standard_output(std::string(version.what()) + "\n");
        return Status::done;
    } catch (const CLI::CallForHelp&) {
        const auto chosen = app.get_subcommands();
        cep::tool::write_standard_output(chosen.empty() ? app.help() : chosen.front()->help("cep"));
        return Status::done;
    } catch (const CLI::ParseError& error) {
        const auto chosen = app.get_subcommands();
        const std::string command = chosen.empty() ? "cep" : "cep " + chosen.front()->get_name();
        cep::tool::say("{}: {}\nTry '{} --help'.\n", command, error.what(), command);
        return Status::usage;
    }
    return run();
}

Status run_safely(int argc, char** argv) {
    try {
        return parse_and_run(argc, argv);
    } catch (const cep::tool::OutputClosed&) {
        return Status::done;
    } catch (const cep::tool::UsageError& error) {
        cep::tool::say("cep: {}\n", error.what());
        return Status::usage;
    } catch (const std::exception& error) {
        cep::tool::say("cep: {}\n", error.what());
        return Status::system_failure;
    }
}

}  // namespace

int main(int argc, char** argv) {
    cep::tool::fill_standard_descriptors();
#ifdef __GLIBC__
    // Large pieces go back to the system when they are freed: else what growing vectors leave behind adds half as much
    // again to the memory that is in use.
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
    // A closed pipe is then an error of write(), which ends the command quietly.
    std::signal(SIGPIPE, SIG_IGN);
    return static_cast<int>(run_safely(argc, argv));
}
