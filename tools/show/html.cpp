// SPDX-License-Identifier: Apache-2.0
#include "show/html.hpp"

#include "base/text.hpp"

namespace cep::tool {
namespace {

/// U+FFFE and U+FFFF, which XML does not allow.
bool is_noncharacter(std::string_view text) {
    return text.starts_with("\xef\xbf\xbe") || text.starts_with("\xef\xbf\xbf");
}

std::string_view escape_of(char c) {
    switch (c) {
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '&':
            return "&amp;";
        case '"':
            return "&quot;";
        case '\'':
            return "&#39;";
        default:
            return "";
    }
}

std::string_view class_of(Tone tone) {
    return tone == Tone::bad ? "headline bad" : tone == Tone::warning ? "headline warn" : "headline";
}

std::string list_of(std::string_view heading, const std::vector<std::string>& lines) {
    if (lines.empty()) return "";
    std::string html = "<h3>" + std::string(heading) + "</h3>\n<ul>\n";
    for (const std::string& line : lines) html += "<li>" + html_text(line) + "</li>\n";
    return html + "</ul>\n";
}

}  // namespace

std::string html_text(std::string_view text) {
    const std::string plain = printable(text);
    std::string html;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        if (is_noncharacter(std::string_view(plain).substr(i))) {
            html += "\xef\xbf\xbd";
            i += 2;
        } else if (const std::string_view escape = escape_of(plain[i]); !escape.empty()) {
            html += escape;
        } else {
            html += plain[i];
        }
    }
    return html;
}

std::string html_findings(const Document& document) {
    std::string html;
    if (!document.headline.empty())
        html += "<p class=\"" + std::string(class_of(document.tone)) + "\">" + html_text(document.headline) + "</p>\n";
    const std::string lists = list_of("Why", document.evidence) + list_of("What to do", document.next);
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
    if (notes.empty()) return "";
    std::string html = "<ul class=\"notes\">\n";
    for (const std::string& note : notes) html += "<li>" + html_text(note) + "</li>\n";
    return html + "</ul>\n";
}

}  // namespace cep::tool
