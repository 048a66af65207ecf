// SPDX-License-Identifier: Apache-2.0
//
// cep completion: scripts for shells. They call the command again to complete words, so that they offer what it takes.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/output.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/help.hpp"

namespace cep::cli {
namespace {

using tool::Status;

// Without candidates, each script completes the names of files.

constexpr std::string_view bash_script = R"script(_cep() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _cep cep
)script";

constexpr std::string_view zsh_script = R"script(#compdef cep
_cep() {
    local -a candidates=(${(f)"$($words[1] completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#candidates )); then _describe candidate candidates; else _files; fi
}
if [[ $funcstack[1] == _cep ]]; then _cep "$@"; else compdef _cep cep; fi
)script";

constexpr std::string_view fish_script = R"script(function __cep_candidates
    set -l words (commandline -opc) (commandline -ct)
    $words[1] completion fish -- $words[2..-1] 2>/dev/null
end
complete -c cep -f -n 'count (__cep_candidates) >/dev/null' -a '(__cep_candidates)'
)script";

using Candidates = std::vector<Entry>;

/// Values to offer for options that also take other values, so that no validator lists them.
struct UsualValues {
    std::string_view command;  // "": every command
    std::string_view option;
    std::string_view values;
};
constexpr UsualValues usual_values[] = {
    {"summarize", "by", "phase,rank,host,step:100"},
    {"", "attempt", "all,last"},
    {"summarize", "fail-on",
     "straggler,imbalance,change,abstained,bound:compute,bound:comm,bound:data,bound:host,bound:mixed,bound:unknown"},
};

std::string_view values_of(const CLI::App& command, const CLI::Option& option) {
    for (const UsualValues& usual : usual_values)
        if (option.check_lname(std::string(usual.option)) &&
            (usual.command.empty() || usual.command == command.get_name()))
            return usual.values;
    return {};
}

/// `prefix`, such as "--color=", is put before each value.
Candidates candidates_of_values(const CLI::App& command, const CLI::Option& option, const std::string& prefix) {
    const std::string type = option.get_type_name();  // with one_of(): "TEXT:{auto,never,always}"
    const std::size_t begin = type.find('{');
    const std::string_view list = begin == std::string::npos
                                      ? values_of(command, option)
                                      : std::string_view(type).substr(begin + 1, type.size() - begin - 2);
    Candidates candidates;
    if (list.empty()) return candidates;
    for (const std::string_view value : tool::split(list, ','))
        candidates.push_back({prefix + std::string(value), option.get_description()});
    return candidates;
}

const CLI::Option* option_of_name(const CLI::App& command, std::string_view name) {
    if (name.size() < 2 || name.front() != '-') return nullptr;
    const CLI::Option* const option = command.get_option_no_throw(std::string(name));
    return option != nullptr && option->get_expected_max() > 0 ? option : nullptr;
}

/// Names of options; or names of commands and values of an argument.
Candidates candidates_of_names(const CLI::App& command, bool options) {
    Candidates candidates = commands_of(command);
    for (const CLI::Option* option : command.get_options()) {
        if (!options && option->get_positional()) return candidates_of_values(command, *option, "");
        if (!options || is_hidden(*option)) continue;
        for (const std::string& name : option->get_lnames())
            candidates.push_back({"--" + name, option->get_description()});
        for (const std::string& name : option->get_snames())
            candidates.push_back({"-" + name, option->get_description()});
    }
    return candidates;
}

/// All candidates behind `words`, for a word that begins with `last`.
Candidates candidates_behind(const CLI::App& app, const std::vector<std::string>& words, const std::string& last) {
    if (words.size() == 1 && words.front() == "help") return help_topics(app);
    const CLI::App* const command = words.empty() ? &app : find_command(app, words.front());
    if (command == nullptr) return {};
    const std::size_t equals = last.find('=');
    if (const CLI::Option* option = words.empty() ? nullptr : option_of_name(*command, words.back()))
        return candidates_of_values(*command, *option, "");
    const CLI::Option* const assigned = option_of_name(*command, last.substr(0, equals));
    if (assigned != nullptr && equals < last.size())
        return candidates_of_values(*command, *assigned, last.substr(0, equals + 1));
    return candidates_of_names(*command, last.starts_with('-'));
}

/// Completes the last of the words. bash makes "=" a word of its own.
Candidates find_candidates(const CLI::App& app, std::vector<std::string> words) {
    const std::string last = words.back() == "=" ? "" : words.back();
    words.pop_back();
    std::erase(words, "=");
    Candidates candidates = candidates_behind(app, words, last);
    std::erase_if(candidates, [&last](const Entry& candidate) { return !candidate.word.starts_with(last); });
    return candidates;
}

std::string format(const Candidates& candidates, const std::string& shell) {
    std::string text;
    for (const auto& [word, description] : candidates) {
        if (shell == "bash") {
            text += word + "\n";
        } else if (shell == "fish") {
            text += word + "\t" + description + "\n";
        } else {
            for (const char character : word) text += character == ':' ? "\\:" : std::string(1, character);
            text += ":" + description + "\n";
        }
    }
    return text;
}

struct CompletionCommand {
    const CLI::App* app = nullptr;
    std::string shell;
    std::vector<std::string> words;

    void add_to(Arguments& completion) {
        app = completion.app().get_parent();
        completion.add(&shell, {.names = "SHELL",
                                .help = "bash, zsh or fish",
                                .check = one_of({"bash", "zsh", "fish"}),
                                .is_required = true});
        completion.add(&words, {"WORD", "Complete the last of these words instead, as the script does"});
        completion.set_examples(
            "  cep completion bash > ~/.local/share/bash-completion/completions/cep\n"
            "  cep completion zsh > ~/.zsh/completions/_cep    # a directory of $fpath\n"
            "  cep completion fish > ~/.config/fish/completions/cep.fish");
    }

    Status run() const {
        if (!words.empty())
            tool::write_standard_output(format(find_candidates(*app, words), shell));
        else
            tool::write_standard_output(shell == "bash" ? bash_script : shell == "zsh" ? zsh_script : fish_script);
        return Status::done;
    }
};

}  // namespace

const CommandFacts completion_command{"A completion script for a shell", add_options<CompletionCommand>};

}  // namespace cep::cli
