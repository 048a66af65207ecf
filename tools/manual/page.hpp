// SPDX-License-Identifier: Apache-2.0
//
// The manual pages, which are part of the command.
#pragma once

#include <span>
#include <string_view>

namespace cep::tool {

struct Page {
    std::string_view topic;  // "merge"
    std::string_view file;   // "cep-merge.1"
    std::string_view about;  // in one line
    std::string_view names;  // what the page explains, separated by blanks: the functions of a page of section 3
    std::span<const std::string_view> lines;
};

/// All pages, or none if nothing formatted them when this command was built.
[[nodiscard]] std::span<const Page> manual_pages();

/// The page of a topic, a file, a file without its section, or a function; nullptr: there is none.
[[nodiscard]] const Page* find_page(std::string_view word);

/// Writes the page's text to standard output. Throws as Output does.
void show_page(const Page& page);

}  // namespace cep::tool
