// SPDX-License-Identifier: Apache-2.0
#include "report/bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "show/document.hpp"

namespace cep::report {
namespace {

using tool::html_text;

/// How wide the bars must be, in pixels, for a text to fit on a segment of them: one of the widths of the style sheet,
/// or 0.
int least_track_px(std::string_view text, double percent) {
    constexpr double character_px = 7;
    const double needed_px = (static_cast<double>(text.size()) + 1) * character_px / percent * 100;
    for (const int width : {200, 300, 400, 500, 600, 700, 800})
        if (needed_px <= width) return width;
    return 0;
}

std::string segment_html(const BarSegment& segment, double most) {
    const double from = 100 * segment.from / most;
    const double width = std::max(100 * (segment.to - segment.from) / most, 0.15);
    std::string html =
        fmt::format("<rect class=\"part {}\" x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"100%\"><title>{}</title></rect>",
                    segment.style, from, width, html_text(segment.tip));
    if (const int least_px = least_track_px(segment.text, width); least_px > 0 && !segment.text.empty())
        html += fmt::format("<text class=\"on {} from{}\" x=\"{:.2f}%\" y=\"65%\" text-anchor=\"middle\">{}</text>",
                            segment.style, least_px, from + width / 2, html_text(segment.text));
    return html;
}

}  // namespace

std::string bars_html(const std::vector<Bar>& bars, double most, const std::string& description) {
    std::string html = "<div class=\"bars\" role=\"group\" aria-label=\"" + html_text(description) + "\">\n";
    for (const Bar& bar : bars) {
        html += fmt::format("<span class=\"name\">{}<small>{}</small></span><svg class=\"track\" aria-hidden=\"true\">",
                            html_text(bar.label), html_text(bar.note));
        for (const BarSegment& segment : bar.segments) html += segment_html(segment, most > 0 ? most : 1);
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
