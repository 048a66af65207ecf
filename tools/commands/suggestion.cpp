// SPDX-License-Identifier: Apache-2.0
#include "commands/suggestion.hpp"

#include <algorithm>
#include <numeric>

namespace cep::cli {
namespace {

/// The number of insertions, deletions and replacements that make one text the other (Levenshtein).
std::size_t count_edits(std::string_view a, std::string_view b) {
    std::vector<std::size_t> edits(b.size() + 1);
    std::iota(edits.begin(), edits.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = edits[0]++;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = edits[j + 1];
            edits[j + 1] = std::min({edits[j] + 1, edits[j + 1] + 1, replaced});
        }
    }
    return edits.back();
}

}  // namespace

std::string suggest(std::string_view word, const std::vector<Entry>& known) {
    const std::size_t most_edits = word.size() < 5 ? 1 : std::max<std::size_t>(2, word.size() / 3);
    std::size_t fewest = most_edits + 1;
    std::string nearest;
    for (const auto& [candidate, about] : known) {
        const bool is_begin = word.size() >= 4 && candidate.starts_with(word);
        const std::size_t edits = is_begin ? 1 : count_edits(word, candidate);
        if (edits >= fewest) continue;
        fewest = edits;
        nearest = candidate;
    }
    return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

std::string describe_unknown_command(const CLI::App& app, const std::string& word) {
    return "there is no command '" + word + "'" + suggest(word, commands_of(app));
}

std::string describe_unknown_argument(const CLI::App& command, const std::vector<std::string>& arguments) {
    const auto is_option = [](const std::string& argument) { return argument.size() > 1 && argument.front() == '-'; };
    const auto first = std::find_if(arguments.begin(), arguments.end(), is_option);
    if (first == arguments.end()) return "unexpected argument '" + arguments.front() + "'";
    const std::string option = first->substr(0, first->find('='));
    std::vector<Entry> known;
    if (option.starts_with("--"))
        for (const CLI::Option* one : command.get_options())
            for (const std::string& name : one->get_lnames()) known.push_back({"--" + name, ""});
    return "there is no option '" + option + "'" + suggest(option, known);
}

}  // namespace cep::cli
