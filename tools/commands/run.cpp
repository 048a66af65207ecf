// SPDX-License-Identifier: Apache-2.0
//
// cep run: becomes the launcher of the Python package, because what it instruments is Python.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "base/say.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"

namespace cep::cli {
namespace {

using tool::Status;

/// Says where the package is missing, and does not show a traceback for it.
constexpr const char* launch = R"(import sys
try:
    from cep.run import main
except ImportError as error:
    print("cep run: the Python package cep is needed, and the python3 on PATH cannot import it:", error, file=sys.stderr)
    sys.exit(2)
sys.argv[0] = "cep run"
main()
)";

/// The Python package parses the arguments: this is for the help and the completion.
struct RunCommand {
    std::string output;
    int every = 10;
    bool no_summary = false;
    bool no_settings = false;
    std::vector<std::string> command;

    Status run() const { return Status::usage; }

    void add_to(Arguments& run) {
        run.add(&output, {"-o,--output",
                          "Rank files go to DIR/cuda_event_profiler (default: what CEP_DIRECTORY says, else a "
                          "new one in cep_runs, with a link cep_runs/latest)",
                          "DIR"});
        run.add(&every, {"--every", "Record every Nth step (default 10)", "N"});
        run.add(&no_summary, {"--no-summary", "Print no verdict at the end"});
        run.add(&no_settings,
                {"--no-settings", "Leave the settings of PyTorch, NCCL and the machine out of the files"});
        run.add(&command, {"COMMAND", "The command that starts the training, and its arguments"});
        run.set_examples(
            "  cep run -- python train.py\n"
            "  cep run -o output --every 1 -- torchrun --nproc_per_node=8 train.py --epochs 3\n"
            "  srun cep run --no-summary -o output -- python train.py");
    }
};

}  // namespace

const CommandFacts run_command{"Runs a PyTorch training unchanged, records it, and prints the verdict",
                               add_options<RunCommand>};

Status become_launcher(int argc, char** argv) {
    std::vector<char*> arguments;
    std::string python = "python3";
    std::string option = "-c";
    std::string text = launch;
    for (std::string* word : {&python, &option, &text}) arguments.push_back(word->data());
    for (int i = 2; i < argc; ++i) arguments.push_back(argv[i]);
    arguments.push_back(nullptr);
    // What is ignored stays so in the new program, and in the training.
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    execvp(arguments[0], arguments.data());
    tool::say("cep run: python3: {}\n", std::strerror(errno));
    return Status::system_failure;
}

}  // namespace cep::cli
