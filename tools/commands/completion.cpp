// SPDX-License-Identifier: Apache-2.0
//
// cep completion: scripts made from the commands and options themselves, so that they cannot fall behind.
#include <fmt/format.h>
#include <memory>
#include <string>

#include "base/output.hpp"
#include "commands/commands.hpp"
#include "commands/options.hpp"

namespace cep::cli {
namespace {

using tool::Status;

std::string words_of(const CLI::App& command) {
    std::string words;
    for (const CLI::Option* option : command.get_options())
        for (const std::string& name : option->get_lnames()) words += (words.empty() ? "--" : " --") + name;
    return words;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string names_of(const CLI::App& app) {
    std::string names;
    for (const CLI::App* command : commands_of(app)) names += (names.empty() ? "" : " ") + command->get_name();
    return names;
}

std::string bash_script(const CLI::App& app) {
    std::string cases;
    for (const CLI::App* command : commands_of(app))
        cases += fmt::format("        {}) words=\"{}\" ;;\n", command->get_name(), words_of(*command));
    return fmt::format(R"(_cep() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{}        *) words="" ;;
    esac
    case $word in
        -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _cep cep
)",
                       names_of(app), cases);
}

std::string zsh_script(const CLI::App& app) {
    return "#compdef cep\nautoload -U +X bashcompinit && bashcompinit\n" + bash_script(app);
}

std::string fish_script(const CLI::App& app) {
    std::string script;
    for (const CLI::App* command : commands_of(app)) {
        script += fmt::format("complete -c cep -n __fish_use_subcommand -f -a {} -d '{}'\n", command->get_name(),
                              command->get_description());
        for (const CLI::Option* option : command->get_options())
            for (const std::string& name : option->get_lnames())
                script += fmt::format("complete -c cep -n '__fish_seen_subcommand_from {}' -l {} -d '{}'\n",
                                      command->get_name(), name, option->get_description());
    }
    return script;
}

}  // namespace

void add_completion(CLI::App& app, Command& run) {
    auto shell = std::make_shared<std::string>();
    CLI::App* completion = app.add_subcommand("completion", "A completion script for a shell");
    completion->add_option("SHELL", *shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    set_examples(*completion,
                 "  cep completion bash > ~/.local/share/bash-completion/completions/cep\n"
                 "  cep completion fish > ~/.config/fish/completions/cep.fish");
    completion->callback([shell, &app, &run] {
        run = [shell, &app] {
            const std::string script =
                *shell == "bash" ? bash_script(app) : (*shell == "zsh" ? zsh_script(app) : fish_script(app));
            tool::write_standard_output(script);
            return Status::done;
        };
    });
}

}  // namespace cep::cli
