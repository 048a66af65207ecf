// SPDX-License-Identifier: Apache-2.0
//
// cep completion: scripts made from the commands and options themselves, so that they cannot fall behind.
#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <vector>

#include "base/output.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/help.hpp"
#include "commands/options.hpp"

namespace cep::cli {
namespace {

using tool::Status;

/// What a script knows of an option, or of an argument without a name.
struct Word {
    std::vector<std::string> names;  // "-o", "--output"; none for an argument
    std::string description;
    std::string value;                // "" for a flag
    std::vector<std::string> values;  // to choose from; none: a file
};

struct CommandWords {
    std::string name;
    std::string description;
    std::vector<Word> words;
};

/// Values of options that take other values too, which a validator therefore does not list.
struct UsualValues {
    std::string_view command;  // "": every command
    std::string_view option;
    std::string_view values;
};
constexpr UsualValues usual_values[] = {
    {"summarize", "--by", "phase,rank,host,step:100"},
    {"comm", "--by", "kind,group"},
    {"", "--attempt", "all,last"},
    {"summarize", "--fail-on",
     "straggler,imbalance,change,abstained,bound:compute,bound:comm,bound:data,bound:host,bound:mixed,bound:unknown"},
    {"compare", "--fail-on", "regression,step-regression,undecided"},
};

std::vector<std::string> split_values(std::string_view list) {
    const std::vector<std::string_view> parts = tool::split(list, ',');
    return {parts.begin(), parts.end()};
}

std::vector<std::string> values_of(const CLI::App& command, const CLI::Option& option, const Word& word) {
    const std::string type = option.get_type_name();  // "TEXT:{auto,never,always}" with CLI::IsMember
    const std::size_t begin = type.find('{');
    if (begin != std::string::npos)
        return split_values(std::string_view(type).substr(begin + 1, type.size() - begin - 2));
    for (const UsualValues& usual : usual_values)
        for (const std::string& name : word.names)
            if (name == usual.option && (usual.command.empty() || usual.command == command.get_name()))
                return split_values(usual.values);
    return {};
}

Word word_of(const CLI::App& command, const CLI::Option& option) {
    Word word;
    for (const std::string& name : option.get_snames()) word.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) word.names.push_back("--" + name);
    word.description = option.get_description();
    word.value = value_name(option);
    word.values = values_of(command, option, word);
    return word;
}

std::vector<CommandWords> words_of_commands(const CLI::App& app) {
    std::vector<CommandWords> commands;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        commands.push_back({command->get_name(), command->get_description(), {}});
        for (const CLI::Option* option : command->get_options())
            commands.back().words.push_back(word_of(*command, *option));
    }
    return commands;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    return fmt::format("{}", fmt::join(parts, separator));
}

/// Puts a backslash before each of `characters`.
std::string escape(std::string_view text, std::string_view characters) {
    std::string escaped;
    for (const char character : text) {
        if (characters.find(character) != std::string_view::npos) escaped += '\\';
        escaped += character;
    }
    return escaped;
}

// bash

std::string bash_case(const CommandWords& command) {
    std::vector<std::string> names;
    std::vector<std::string> arguments;
    std::string cases;
    for (const Word& word : command.words) {
        names.insert(names.end(), word.names.begin(), word.names.end());
        if (word.names.empty()) arguments = word.values;
        if (!word.names.empty() && !word.value.empty())
            cases += fmt::format("                {}) values=\"{}\"; takes=1 ;;\n", join(word.names, "|"),
                                 join(word.values, " "));
    }
    return fmt::format(
        "        {})\n            names=\"{}\"\n            arguments=\"{}\"\n            case $before in\n{}          "
        "  "
        "esac ;;\n",
        command.name, join(names, " "), join(arguments, " "), cases);
}

std::string bash_script(const std::vector<CommandWords>& commands) {
    std::vector<std::string> names;
    std::string cases;
    for (const CommandWords& command : commands) {
        names.push_back(command.name);
        cases += bash_case(command);
    }
    // bash splits words at ":", which "step:100" and "A:B" contain.
    return fmt::format(R"(_cep() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} names= values= arguments= takes=
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
        return
    fi
    if [ "$before" = "=" ]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    if [ "$word" = "=" ]; then word=; fi
    case ${{COMP_WORDS[1]}} in
{}    esac
    if [ -n "$takes" ] && [ -n "$values" ]; then
        COMPREPLY=($(compgen -W "$values" -- "$word"))
    elif [ -z "$takes" ] && [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$names" -- "$word"))
    elif [ -z "$takes" ] && [ -n "$arguments" ]; then
        COMPREPLY=($(compgen -W "$arguments" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _cep cep
)",
                       join(names, " "), cases);
}

// zsh

/// In single quotes: a quote ends them, stands by itself, and begins them again.
std::string zsh_quote(const std::string& text) {
    std::string quoted = "'";
    for (const char character : text) quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
    return quoted + "'";
}

std::string zsh_values(const Word& word) {
    return word.values.empty() ? "_files" : "(" + escape(join(word.values, " "), ":") + ")";
}

std::string zsh_argument(const Word& word) {
    if (word.names.empty()) return zsh_quote("*:" + escape(word.description, ":[]\\") + ":" + zsh_values(word));
    std::string specification = "[" + escape(word.description, "[]\\") + "]";
    if (!word.value.empty()) specification += ":" + escape(word.value, ":[]\\") + ":" + zsh_values(word);
    std::string text;
    for (const std::string& name : word.names) {
        const bool takes_long = !word.value.empty() && name.starts_with("--");
        text += (text.empty() ? "" : " ") + zsh_quote("*" + name + (takes_long ? "=" : "") + specification);
    }
    return text;
}

std::string zsh_script(const std::vector<CommandWords>& commands) {
    std::string names;
    std::string cases;
    for (const CommandWords& command : commands) {
        names += fmt::format("            {}\n", zsh_quote(command.name + ":" + escape(command.description, ":\\")));
        cases += fmt::format("        {})\n            _arguments", command.name);
        for (const Word& word : command.words) cases += " \\\n                " + zsh_argument(word);
        cases += " ;;\n";
    }
    return fmt::format(R"(#compdef cep
_cep() {{
    if (( CURRENT == 2 )); then
        local -a commands=(
{}        )
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
{}    esac
}}
if [[ $funcstack[1] == _cep ]]; then _cep "$@"; else compdef _cep cep; fi
)",
                       names, cases);
}

// fish

std::string fish_quote(std::string_view text) {
    return "'" + escape(text, "'\\") + "'";
}

std::string fish_option(const CommandWords& command, const Word& word) {
    std::string line = fmt::format("complete -c cep -n '__fish_seen_subcommand_from {}'", command.name);
    for (const std::string& name : word.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!word.names.empty() && !word.value.empty()) line += word.values.empty() ? " -r" : " -x";
    if (!word.values.empty()) line += (word.names.empty() ? " -f -a " : " -a ") + fish_quote(join(word.values, " "));
    return line + " -d " + fish_quote(word.description) + "\n";
}

std::string fish_script(const std::vector<CommandWords>& commands) {
    std::string script;
    for (const CommandWords& command : commands) {
        script += fmt::format("complete -c cep -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                              fish_quote(command.description));
        for (const Word& word : command.words)
            if (!word.names.empty() || !word.values.empty()) script += fish_option(command, word);
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
                 "  cep completion zsh > ~/.zsh/completions/_cep    # a directory of $fpath\n"
                 "  cep completion fish > ~/.config/fish/completions/cep.fish");
    completion->callback([shell, &app, &run] {
        run = [shell, &app] {
            const std::vector<CommandWords> commands = words_of_commands(app);
            tool::write_standard_output(*shell == "bash"  ? bash_script(commands)
                                        : *shell == "zsh" ? zsh_script(commands)
                                                          : fish_script(commands));
            return Status::done;
        };
    });
}

}  // namespace cep::cli
