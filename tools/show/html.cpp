// SPDX-License-Identifier: Apache-2.0
#include "show/html.hpp"

#include "base/text.hpp"

namespace cep::tool {
namespace {

std::string_view escaped(std::string_view character) {
    if (character == "<") return "&lt;";
    if (character == ">") return "&gt;";
    if (character == "&") return "&amp;";
    if (character == "\"") return "&quot;";
    if (character == "'") return "&#39;";
    // U+FFFE and U+FFFF, which XML does not allow.
    if (character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf") return "\xef\xbf\xbd";
    return character;
}

std::string_view class_of(Tone tone) {
    return tone == Tone::bad ? "headline bad" : tone == Tone::warning ? "headline warn" : "headline";
}

/// `begin`: what stands in front of the items; "" for no items.
std::string list_of(const std::string& begin, const std::vector<std::string>& lines) {
    if (lines.empty()) return "";
    std::string html = begin;
    for (const std::string& line : lines) html += "<li>" + html_text(line) + "</li>\n";
    return html + "</ul>\n";
}

}  // namespace

std::string html_text(std::string_view text) {
    const std::string plain = printable(text);
    std::string html;
    for (std::string_view rest = plain; !rest.empty();) html += escaped(take_character(rest));
    return html;
}

std::string html_findings(const Document& document) {
    std::string html;
    if (!document.scope.empty()) html += "<p class=\"note\">" + html_text(document.scope) + "</p>\n";
    if (!document.headline.empty())
        html += "<p class=\"" + std::string(class_of(document.tone)) + "\">" + html_text(document.headline) + "</p>\n";
    const std::string lists =
        list_of("<h3>Why</h3>\n<ul>\n", document.evidence) + list_of("<h3>What to do</h3>\n<ul>\n", document.next);
    return lists.empty() ? html : html + "<div class=\"findings\">\n" + lists + "</div>\n";
}

std::string html_facts(const std::vector<Fact>& facts) {
    if (facts.empty()) return "";
    std::string html = "<dl class=\"facts\">\n";
    for (const Fact& fact : facts) {
        if (!fact.name.empty()) html += "<dt>" + html_text(fact.name) + "</dt>";
        html += "<dd>" + html_text(fact.value) + "</dd>\n";
    }
    return html + "</dl>\n";
}

std::string html_tables(const Document& document, std::size_t limit) {
    std::string html;
    for (const Table& table : document.tables)
        if (!table.empty()) html += table.html(limit);
    return html;
}

std::string html_notes(const std::vector<std::string>& notes) {
    return list_of("<ul class=\"notes\">\n", notes);
}

}  // namespace cep::tool
