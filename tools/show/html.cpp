// SPDX-License-Identifier: Apache-2.0
#include "show/document.hpp"

#include <algorithm>
#include <array>

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

constexpr std::array<std::string_view, 14> units = {"%",  "ns", "µs", "ms",   "s",    "B", "kB",
                                                    "MB", "GB", "TB", "GB/s", "GB·s", "×", "FLOP/s"};

bool begins_with_unit(std::string_view text) {
    return std::any_of(units.begin(), units.end(), [&](std::string_view unit) {
        if (!text.starts_with(unit)) return false;
        const std::string_view rest = text.substr(unit.size());
        return rest.empty() || std::string_view(" .,;:)(/-").find(rest.front()) != std::string_view::npos ||
               static_cast<unsigned char>(rest.front()) >= 0x80;
    });
}

constexpr std::string_view arrow = " → ";

/// Between a number and its unit a line does not break, nor round the arrow from one figure to another.
std::string with_units_kept(std::string_view text) {
    std::string kept;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i).starts_with(arrow)) {
            kept += "\u00a0→\u00a0";
            i += arrow.size() - 1;
            continue;
        }
        const bool is_between =
            text[i] == ' ' && i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9' && begins_with_unit(text.substr(i + 1));
        if (is_between)
            kept += "\u00a0";
        else
            kept += text[i];
    }
    return kept;
}

/// What the headline does not rest on, in one line.
std::string minor_of(const Document& document) {
    std::string text;
    for (const std::size_t index : document.minor)
        text += (text.empty() ? "" : " · ") + html_text(document.evidence[index]);
    return text.empty() ? "" : "<p class=\"minor\">" + text + "</p>\n";
}

}  // namespace

std::string html_text(std::string_view text) {
    const std::string plain = with_units_kept(printable(text));
    std::string html;
    for (std::string_view rest = plain; !rest.empty();) html += escaped(take_character(rest));
    return html;
}

std::string html_findings(const Document& document) {
    std::string html;
    if (!document.scope.empty()) html += "<p class=\"note\">" + html_text(document.scope) + "</p>\n";
    if (!document.headline.empty())
        html += "<p class=\"" + std::string(class_of(document.tone)) + "\">" + html_text(document.headline) + "</p>\n";
    if (!document.certainty.empty())
        html += "<p class=\"sure\"><b>How sure:</b> " + html_text(document.certainty) + ".</p>\n";
    std::vector<std::string> reasons;
    for (std::size_t i = 0; i < document.evidence.size(); ++i)
        if (std::find(document.minor.begin(), document.minor.end(), i) == document.minor.end())
            reasons.push_back(document.evidence[i]);
    const std::string lists = list_of("<h3>Why</h3>\n<ul>\n", reasons) +
                              list_of("<h3>What to do</h3>\n<ul>\n", document.next) + minor_of(document);
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
