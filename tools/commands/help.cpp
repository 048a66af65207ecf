// SPDX-License-Identifier: Apache-2.0
#include "commands/help.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/output.hpp"
#include "base/say.hpp"
#include "base/terminal.hpp"
#include "manual/page.hpp"

namespace cep::cli {
namespace {

using tool::Status;

constexpr std::size_t margin = 2;
constexpr std::size_t widest_word = 26;
constexpr const char* list_word = "topics";

std::string format_list(const std::string& title, const std::vector<Entry>& entries, std::size_t columns) {
    if (entries.empty()) return "";
    std::size_t width = 0;
    for (const auto& [word, about] : entries)
        if (word.size() <= widest_word) width = std::max(width, word.size());
    const std::size_t indent = margin + width + 2;
    std::string text = "\n" + title + ":\n";
    for (const auto& [word, about] : entries) {
        text += std::string(margin, ' ') + word;
        text += word.size() <= width ? std::string(width - word.size() + 2, ' ') : "\n" + std::string(indent, ' ');
        text += tool::wrap_to_width(about, indent, columns) + "\n";
    }
    return text;
}

std::string names_of(const CLI::Option& option) {
    std::string names;
    for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
    for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
    const std::string& value = option.get_option_text();  // such as "FILE"; "" of a flag
    return value.empty() ? names : names + " " + value;
}

std::string usage_of(const CLI::App& app) {
    if (app.get_parent() == nullptr) return "Usage: cep COMMAND [options] INPUT...\n";
    std::string text = "Usage: cep " + app.get_name() + " [options]";
    for (const CLI::Option* option : app.get_options())
        if (option->get_positional()) text += " " + option->get_name() + (option->get_expected_max() > 1 ? "..." : "");
    return text + "\n";
}

std::vector<Entry> other_topics(const CLI::App& app) {
    std::vector<Entry> topics;
    for (const tool::Page& page : tool::manual_pages())
        if (find_command(app, std::string(page.topic)) == nullptr)
            topics.push_back({std::string(page.topic), std::string(page.about)});
    topics.push_back({list_word, "This list"});
    return topics;
}

void list_topics(const CLI::App& app) {
    std::size_t width = 0;
    for (const auto& [word, about] : help_topics(app)) width = std::max(width, word.size());
    std::string text = "Usage: cep help WORD\n";
    for (const auto& [title, topics] :
         {std::pair{"Commands", commands_of(app)}, std::pair{"Topics", other_topics(app)}}) {
        text += "\n" + std::string(title) + ":\n";
        for (const auto& [word, about] : topics)
            text += "  " + word + std::string(width - word.size() + 2, ' ') + about + "\n";
    }
    tool::write_standard_output(text);
}

std::string join_words(const std::vector<Entry>& topics) {
    std::string text;
    for (const auto& [word, about] : topics) text += (text.empty() ? "" : " ") + word;
    return text;
}

Status say_unknown(const CLI::App& app, const std::string& word) {
    tool::say("cep: there is no help on '{}'{}\nCommands: {}\nTopics: {}\n", word, suggest(word, help_topics(app)),
              join_words(commands_of(app)), join_words(other_topics(app)));
    return Status::usage;
}

}  // namespace

std::vector<Entry> commands_of(const CLI::App& app) {
    std::vector<Entry> commands;
    for (const CLI::App* command : app.get_subcommands({}))
        commands.push_back({command->get_name(), command->get_description()});
    return commands;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
    const auto found = app.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; });
    return found.empty() ? nullptr : found.front();
}

std::string help_text(const CLI::App& app, std::size_t columns) {
    std::vector<Entry> arguments;
    std::vector<Entry> options;
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_positional())
            arguments.push_back({option->get_name(), option->get_description()});
        else if (!is_hidden(*option))
            options.push_back({names_of(*option), option->get_description()});
    }
    return tool::wrap_to_width(app.get_description(), 0, columns) + "\n\n" + usage_of(app) +
           format_list("Commands", commands_of(app), columns) + format_list("Arguments", arguments, columns) +
           format_list("Options", options, columns) + "\n" + app.get_footer() + "\n";
}

std::vector<Entry> help_topics(const CLI::App& app) {
    std::vector<Entry> topics = commands_of(app);
    for (Entry& topic : other_topics(app)) topics.push_back(std::move(topic));
    return topics;
}

Status help_on(const CLI::App& app, const std::string& word) {
    if (const tool::Page* const page = tool::find_page(word))
        tool::show_page(*page);
    else if (const CLI::App* const command = find_command(app, word))
        tool::write_standard_output(help_text(*command, tool::text_columns()));
    else if (word == list_word)
        list_topics(app);
    else
        return say_unknown(app, word);
    return Status::done;
}

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
            for (const std::string& name : is_hidden(*one) ? std::vector<std::string>() : one->get_lnames())
                known.push_back({"--" + name, ""});
    return "there is no option '" + option + "'" + suggest(option, known);
}

}  // namespace cep::cli
