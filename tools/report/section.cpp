// SPDX-License-Identifier: Apache-2.0
#include "report/section.hpp"

#include "show/html.hpp"

namespace cep::report {

using tool::html_text;

std::string html_of(const Section& section) {
    std::string html = "<section id=\"" + section.id + "\">\n<h2>" + html_text(section.heading) + "</h2>\n";
    if (!section.empty.empty()) return html + "<p class=\"empty\">" + html_text(section.empty) + "</p>\n</section>\n";
    html += "<p class=\"look\">" + html_text(section.look) + "</p>\n";
    for (const Figure& figure : section.figures) {
        html += "<figure class=\"static\"><div class=\"scroll\" tabindex=\"0\">" + figure.svg + "</div>";
        if (!figure.caption.empty()) html += "<figcaption>" + html_text(figure.caption) + "</figcaption>";
        html += "</figure>\n";
    }
    if (!section.details.empty()) html += "<details><summary>As a table</summary>\n" + section.details + "</details>\n";
    return html + "</section>\n";
}

}  // namespace cep::report
