// SPDX-License-Identifier: Apache-2.0
#include "report/bars.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "show/html.hpp"

namespace cep::report {
namespace {

using tool::html_text;

std::string part_html(const BarPart& part, double most) {
    constexpr double room_for_text = 7;  // percent
    const double from = 100 * part.from / most;
    const double width = std::max(100 * (part.to - part.from) / most, 0.15);
    std::string html =
        fmt::format("<rect class=\"part {}\" x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"100%\"><title>{}</title></rect>",
                    part.style, from, width, html_text(part.tip));
    if (!part.text.empty() && width > room_for_text)
        html += fmt::format("<text class=\"on {}\" x=\"{:.2f}%\" y=\"65%\" text-anchor=\"middle\">{}</text>",
                            part.style, from + width / 2, html_text(part.text));
    return html;
}

}  // namespace

std::string bars_html(const std::vector<Bar>& bars, double most, const std::string& description) {
    std::string html = "<div class=\"bars\" role=\"group\" aria-label=\"" + html_text(description) + "\">\n";
    for (const Bar& bar : bars) {
        html += fmt::format("<span class=\"name\">{}<small>{}</small></span><svg class=\"track\" aria-hidden=\"true\">",
                            html_text(bar.label), html_text(bar.note));
        for (const BarPart& part : bar.parts) html += part_html(part, most > 0 ? most : 1);
        html += "</svg><span class=\"value\">" + html_text(bar.value) + "</span>\n";
    }
    return html + "</div>\n";
}

std::string key_html(const std::vector<KeyEntry>& entries) {
    std::string html = "<p class=\"key\">";
    for (const KeyEntry& entry : entries)
        html += fmt::format("<span><svg><rect class=\"part {}\" width=\"100%\" height=\"100%\"/></svg>{}</span> ",
                            entry.style, html_text(entry.name));
    return html + "</p>\n";
}

}  // namespace cep::report
