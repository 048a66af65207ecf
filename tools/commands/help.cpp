// SPDX-License-Identifier: Apache-2.0
#include "commands/help.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace cep::cli {
namespace {

constexpr std::size_t margin = 2;
constexpr std::size_t widest_left = 26;

/// An entry of a list, such as an option and its description.
struct Item {
    std::string left;
    std::string right;
};

/// Breaks a text into lines. The first begins at `column`, the others are indented by `indent`.
std::string wrap(const std::string& text, std::size_t column, std::size_t indent, std::size_t columns) {
    std::string wrapped;
    for (const std::string_view word : tool::split(text, ' ')) {
        if (!wrapped.empty() && column + 1 + word.size() > columns) {
            wrapped += '\n' + std::string(indent, ' ');
            column = indent;
        } else if (!wrapped.empty()) {
            wrapped += ' ';
            ++column;
        }
        wrapped += word;
        column += word.size();
    }
    return wrapped;
}

std::string format_list(const std::string& title, const std::vector<Item>& items, std::size_t columns) {
    if (items.empty()) return "";
    std::size_t left_width = 0;
    for (const Item& item : items)
        if (item.left.size() <= widest_left) left_width = std::max(left_width, item.left.size());
    const std::size_t indent = margin + left_width + 2;
    std::string text = "\n" + title + ":\n";
    for (const Item& item : items) {
        text += std::string(margin, ' ') + item.left;
        const bool fits = item.left.size() <= left_width;
        text += fits ? std::string(left_width - item.left.size() + 2, ' ') : "\n" + std::string(indent, ' ');
        text += wrap(item.right, indent, indent, columns) + "\n";
    }
    return text;
}

bool takes_several(const CLI::Option& option) {
    return option.get_expected_max() > 1;
}

std::string names_of(const CLI::Option& option) {
    std::string names;
    for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
    for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
    const std::string value = value_name(option);
    return value.empty() ? names : names + " " + value;
}

std::string usage_of(const CLI::App& app) {
    if (app.get_parent() == nullptr) return "Usage: cep COMMAND [options] INPUT...\n";
    std::string text = "Usage: cep " + app.get_name() + " [options]";
    for (const CLI::Option* option : app.get_options())
        if (option->get_positional()) text += " " + option->get_name() + (takes_several(*option) ? "..." : "");
    return text + "\n";
}

}  // namespace

std::string value_name(const CLI::Option& option) {
    if (option.get_expected_max() == 0) return "";
    if (!option.get_option_text().empty()) return option.get_option_text();
    const std::string type = option.get_type_name();
    return type.substr(0, type.find(':'));
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
    const auto found = app.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; });
    return found.empty() ? nullptr : found.front();
}

std::string help_text(const CLI::App& app, std::size_t columns) {
    std::vector<Item> commands;
    std::vector<Item> arguments;
    std::vector<Item> options;
    for (const CLI::App* command : app.get_subcommands({}))
        commands.push_back({command->get_name(), command->get_description()});
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_positional())
            arguments.push_back({option->get_name(), option->get_description()});
        else
            options.push_back({names_of(*option), option->get_description()});
    }
    return wrap(app.get_description(), 0, 0, columns) + "\n\n" + usage_of(app) +
           format_list("Commands", commands, columns) + format_list("Arguments", arguments, columns) +
           format_list("Options", options, columns) + "\n" + app.get_footer() + "\n";
}

}  // namespace cep::cli
