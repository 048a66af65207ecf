// SPDX-License-Identifier: Apache-2.0
#include "show/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/text.hpp"
#include "base/units.hpp"
#include "show/html.hpp"

namespace cep::tool {
namespace {

// Characters, not bytes: a continuation byte of UTF-8 takes no room.
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string pad(const std::string& text, std::size_t width, Align align) {
    const std::string space(width - std::min(width, width_of(text)), ' ');
    return align == Align::left ? text + space : space + text;
}

std::string quoted_csv(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string cell = "\"";
    for (const char c : text) {
        if (c == '"') cell += '"';
        cell += c;
    }
    return cell + "\"";
}

bool looks_like_a_formula(std::string_view text) {
    return !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
}

std::string csv_cell(const Value& value) {
    return std::visit(
        [](const auto& one) -> std::string {
            using Type = std::decay_t<decltype(one)>;
            if constexpr (std::is_same_v<Type, std::monostate>) {
                return "";
            } else if constexpr (std::is_same_v<Type, std::string>) {
                return quoted_csv(looks_like_a_formula(one) ? "'" + one : one);
            } else {
                return fmt::format("{}", one);
            }
        },
        value);
}

}  // namespace

Cell Cell::text_of(std::string_view text) {
    return {std::string(text), text.empty() ? "-" : std::string(text)};
}

Cell Cell::count(std::uint64_t count) {
    return {count, format_count(count)};
}

Cell Cell::integer(std::int64_t number) {
    return {number, fmt::format("{}", number)};
}

Cell Cell::number(double number) {
    return {number, fmt::format("{}", number)};
}

Cell Cell::number(const std::optional<double>& number) {
    return number ? Cell::number(*number) : none();
}

Cell Cell::percent(const std::optional<double>& fraction) {
    return fraction ? shown(*fraction, fmt::format("{:.1f} %", 100 * *fraction)) : none();
}

std::string markdown_text(std::string_view text) {
    std::string result;
    for (const char c : printable(text)) {
        switch (c) {
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '&':
                result += "&amp;";
                break;
            case '|':
            case '\\':
            case '`':
            case '*':
            case '[':
            case ']':
                result += '\\';
                [[fallthrough]];
            default:
                result += c;
        }
    }
    return result;
}

std::vector<const Table::Line*> Table::lines_for_people() const {
    std::vector<const Line*> lines;
    for (std::size_t i = 0; i < (order_.empty() ? lines_.size() : order_.size()); ++i) {
        const Line& line = lines_[order_.empty() ? i : order_[i]];
        if (line.for_people) lines.push_back(&line);
    }
    return lines;
}

std::vector<std::size_t> Table::columns_for_people() const {
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < columns_.size(); ++i)
        if (!columns_[i].heading.empty()) columns.push_back(i);
    return columns;
}

std::size_t Table::lines_shown(std::size_t limit, std::size_t lines) const {
    return limit == 0 || is_kept_whole_ ? lines : std::min(limit, lines);
}

std::string Table::count_rest(std::size_t hidden) const {
    return fmt::format("… {}{} not shown", format_plural(hidden, noun_), how_.empty() ? "" : " " + how_);
}

std::string Table::describe_rest(std::size_t hidden) const {
    return count_rest(hidden) + "; --limit 0 shows all";
}

std::string Table::text(std::size_t limit, std::string_view bold, std::string_view plain) const {
    const std::vector<std::size_t> columns = columns_for_people();
    std::vector<const Line*> lines = lines_for_people();
    const std::size_t shown = lines_shown(limit, lines.size());
    const std::size_t hidden = lines.size() - shown + left_out_;
    lines.resize(shown);

    std::vector<std::vector<std::string>> rows;
    for (const Line* line : lines) {
        std::vector<std::string>& row = rows.emplace_back();
        for (const std::size_t column : columns) row.push_back(printable(line->cells[column].text));
    }
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        widths.push_back(width_of(columns_[columns[i]].heading));
        for (const auto& row : rows) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    const auto line_text = [&](const auto& cell_of) {
        std::string line;
        for (std::size_t i = 0; i < columns.size(); ++i)
            line += (i > 0 ? "  " : "") + pad(cell_of(i), widths[i], columns_[columns[i]].align);
        line.erase(line.find_last_not_of(' ') + 1);
        return line;
    };
    std::string text = std::string(bold) + line_text([&](std::size_t i) { return columns_[columns[i]].heading; }) +
                       std::string(plain) + "\n";
    for (const auto& row : rows) text += line_text([&](std::size_t i) { return row[i]; }) + "\n";
    if (hidden > 0) text += describe_rest(hidden) + "\n";
    return text;
}

std::string Table::markdown(std::size_t limit) const {
    const std::vector<std::size_t> columns = columns_for_people();
    const std::vector<const Line*> lines = lines_for_people();
    const std::size_t shown = lines_shown(limit, lines.size());
    std::string text = "|";
    for (const std::size_t column : columns) text += " " + markdown_text(columns_[column].heading) + " |";
    text += "\n|";
    for (const std::size_t column : columns) text += columns_[column].align == Align::left ? " :--- |" : " ---: |";
    text += "\n";
    for (std::size_t i = 0; i < shown; ++i) {
        text += "|";
        for (const std::size_t column : columns) text += " " + markdown_text(lines[i]->cells[column].text) + " |";
        text += "\n";
    }
    const std::size_t hidden = lines.size() - shown + left_out_;
    if (hidden > 0) text += "\n" + describe_rest(hidden) + "\n";
    return text;
}

std::string Table::html_heading(const Column& column) const {
    std::string title = column.meaning;
    if (!column.unit.empty()) title += (title.empty() ? "in " : ", in ") + column.unit;
    return fmt::format("<th scope=\"col\"{}{}>{}</th>", column.align == Align::left ? " class=\"left\"" : "",
                       title.empty() ? "" : " title=\"" + html_text(title) + "\"", html_text(column.heading));
}

std::string Table::html(std::size_t limit) const {
    const std::vector<std::size_t> columns = columns_for_people();
    const std::vector<const Line*> lines = lines_for_people();
    const std::size_t shown = lines_shown(limit, lines.size());
    std::string html = "<div class=\"scroll\" tabindex=\"0\"><table>\n";
    if (!title_.empty()) html += "<caption>" + html_text(title_) + "</caption>\n";
    html += "<thead><tr>";
    for (const std::size_t column : columns) html += html_heading(columns_[column]);
    html += "</tr></thead>\n<tbody>\n";
    for (std::size_t i = 0; i < shown; ++i) {
        html += "<tr>";
        for (const std::size_t column : columns)
            html += (columns_[column].align == Align::left ? "<td class=\"left\">" : "<td>") +
                    html_text(lines[i]->cells[column].text) + "</td>";
        html += "</tr>\n";
    }
    html += "</tbody></table></div>\n";
    const std::size_t hidden = lines.size() - shown + left_out_;
    return hidden > 0 ? html + "<p class=\"rest\">" + html_text(count_rest(hidden)) + "</p>\n" : html;
}

std::string Table::csv() const {
    std::string text;
    const auto add_line = [&](const auto& cell_of) {
        bool first = true;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            if (columns_[i].key.empty()) continue;
            text += (first ? "" : ",") + cell_of(i);
            first = false;
        }
        text += "\r\n";
    };
    add_line([&](std::size_t i) { return quoted_csv(columns_[i].key); });
    for (const Line& line : lines_)
        if (line.for_programs) add_line([&](std::size_t i) { return csv_cell(line.cells[i].value); });
    return text;
}

}  // namespace cep::tool
