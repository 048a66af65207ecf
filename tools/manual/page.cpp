// SPDX-License-Identifier: Apache-2.0
#include "manual/page.hpp"

#include <algorithm>
#include <string>

#include "base/output.hpp"
#include "base/text.hpp"

namespace cep::tool {
namespace {

bool has_name(const Page& page, std::string_view word) {
    if (word == page.file || word == page.file.substr(0, page.file.rfind('.'))) return true;
    const auto names = split(page.names, ' ');
    return std::find(names.begin(), names.end(), word) != names.end();
}

}  // namespace

const Page* find_page(std::string_view word) {
    const auto pages = manual_pages();
    auto found = std::find_if(pages.begin(), pages.end(), [word](const Page& page) { return page.topic == word; });
    if (found == pages.end())
        found = std::find_if(pages.begin(), pages.end(), [word](const Page& page) { return has_name(page, word); });
    return found == pages.end() ? nullptr : &*found;
}

void show_page(const Page& page) {
    std::string text;
    for (const std::string_view line : page.lines) text.append(line) += '\n';
    write_standard_output(text);
}

}  // namespace cep::tool
