// SPDX-License-Identifier: Apache-2.0
#include "commands/topics.hpp"

#include <algorithm>

#include "base/output.hpp"
#include "base/say.hpp"
#include "base/terminal.hpp"
#include "commands/help.hpp"
#include "commands/suggestion.hpp"
#include "manual/page.hpp"
#include "manual/reader.hpp"

namespace cep::cli {
namespace {

using tool::Status;

constexpr const char* list_word = "topics";

std::vector<Topic> other_topics(const CLI::App& app) {
    std::vector<Topic> topics;
    for (const tool::Page& page : tool::manual_pages())
        if (find_command(app, std::string(page.topic)) == nullptr)
            topics.push_back({std::string(page.topic), std::string(page.about)});
    topics.push_back({list_word, "This list"});
    return topics;
}

std::vector<Topic> commands_of(const CLI::App& app) {
    std::vector<Topic> topics;
    for (const CLI::App* command : app.get_subcommands({}))
        topics.push_back({command->get_name(), command->get_description()});
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

std::string join_words(const std::vector<Topic>& topics) {
    std::string text;
    for (const auto& [word, about] : topics) text += (text.empty() ? "" : " ") + word;
    return text;
}

Status say_unknown(const CLI::App& app, const std::string& word) {
    std::vector<std::string> known;
    for (const Topic& topic : help_topics(app)) known.push_back(topic.word);
    const std::string nearest = nearest_of(word, known);
    tool::say("cep: there is no help on '{}'{}\nCommands: {}\nTopics: {}\n", word,
              nearest.empty() ? "" : "; did you mean '" + nearest + "'?", join_words(commands_of(app)),
              join_words(other_topics(app)));
    return Status::usage;
}

}  // namespace

std::vector<Topic> help_topics(const CLI::App& app) {
    std::vector<Topic> topics = commands_of(app);
    for (Topic& topic : other_topics(app)) topics.push_back(std::move(topic));
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

}  // namespace cep::cli
