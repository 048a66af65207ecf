// SPDX-License-Identifier: Apache-2.0
#include "show/table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "show/document.hpp"
#include "show/fields.hpp"

namespace cep::tool {
namespace {

// Characters, not bytes: a continuation byte of UTF-8 takes no room.
std::size_t text_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string pad(const std::string& text, std::size_t width, std::size_t text_width, Align align) {
    const std::string space(width - std::min(width, text_width), ' ');
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
            } else if constexpr (std::is_same_v<Type, std::vector<std::string>>) {
                return csv_cell(join(one, " "));
            } else {
                return fmt::format("{}", one);
            }
        },
        value);
}

}  // namespace

std::string unit_of_key(std::string_view key) {
    static constexpr std::pair<std::string_view, std::string_view> units[] = {
        {"_ms", "ms"}, {"_us", "us"}, {"_gb_per_s", "GB/s"}, {"megabytes", "MiB"}, {"bytes", "bytes"}};
    for (const auto& [ending, unit] : units)
        if (key.ends_with(ending)) return std::string(unit);
    return {};
}

double to_double(const Value& value) {
    if (const auto* count = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*count);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
    return std::get<double>(value);
}

std::string describe_percent(double fraction) {
    return fmt::format("{:.1f} %", 100 * fraction);
}

std::string describe_value(const Value& value) {
    constexpr std::size_t most = 120;  // a name of a kilobyte would make each line of a table as long
    if (const auto* text = std::get_if<std::string>(&value)) return text->empty() ? "-" : shorten(*text, most);
    if (const auto* count = std::get_if<std::uint64_t>(&value)) return format_count(*count);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
    if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
    return "-";
}

std::string shorten(std::string_view text, std::size_t most) {
    std::string_view rest = text;
    for (std::size_t i = 0; i < most && !rest.empty(); ++i) (void)take_character(rest);
    return rest.empty() ? std::string(text) : std::string(text.substr(0, text.size() - rest.size())) + "…";
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

Table::Shown Table::for_people(std::size_t limit) const {
    Shown shown;
    for (std::size_t i = 0; i < columns_.size(); ++i)
        if (!columns_[i].heading.empty()) shown.columns.push_back(i);
    for (std::size_t i = 0; i < (order_.empty() ? lines_.size() : order_.size()); ++i) {
        const Line& line = lines_[order_.empty() ? i : order_[i]];
        if (line.for_people) shown.lines.push_back(&line);
    }
    const std::size_t lines = shown.lines.size();
    if (limit > 0 && limit < lines && !is_kept_whole_) shown.lines.resize(limit);
    shown.hidden = lines - shown.lines.size() + left_out_;
    return shown;
}

std::string Table::count_rest(std::size_t hidden) const {
    return fmt::format("… {}{} not shown", format_plural(hidden, noun_), how_.empty() ? "" : " " + how_);
}

std::string Table::describe_rest(std::size_t hidden) const {
    return count_rest(hidden) + "; --limit 0 shows all";
}

namespace {

/// A horizontal bar for a value from 0 to 1, at most `columns` wide.
std::string bar(double value, std::size_t columns, bool unicode) {
    constexpr std::array<std::string_view, 8> eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!(value > 0)) return {};
    const double filled = std::min(value, 1.0) * static_cast<double>(columns);
    if (!unicode) return std::string(static_cast<std::size_t>(std::lround(filled)), '#');
    const auto filled_eighths = static_cast<std::size_t>(std::lround(filled * eighths.size()));
    std::string text;
    for (std::size_t i = 0; i < filled_eighths / eighths.size(); ++i) text += "█";
    return text.append(eighths[filled_eighths % eighths.size()]);
}

/// Cells of text in columns, the heading first.
class Grid {
  public:
    Grid(std::vector<Align> aligns, bool on_terminal)
        : aligns_(std::move(aligns)), widths_(aligns_.size()), on_terminal_(on_terminal) {}

    void add(std::vector<std::string> row) {
        for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], measure(row[i]));
        rows_.push_back(std::move(row));
    }

    /// Puts bars behind the cells of a column, one a row after the heading, if there is room for them.
    void add_bars(std::size_t column, const std::vector<double>& values, const PictureStyle& style) {
        constexpr std::size_t least_bar = 4;
        constexpr std::size_t most_bar = 10;
        const std::size_t used = width() + 1;
        if (style.columns < used + least_bar) return;
        const std::size_t columns = std::min(most_bar, style.columns - used);
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            const std::string drawn = i == 0 ? "" : bar(values[i - 1], columns, style.unicode);
            rows_[i][column] = padded(i, column) + " " + pad(drawn, columns, measure(drawn), Align::left);
        }
        widths_[column] += 1 + columns;
    }

    [[nodiscard]] std::string line(std::size_t row) const {
        std::string text;
        for (std::size_t i = 0; i < widths_.size(); ++i) text.append(i > 0 ? gap : "").append(padded(row, i));
        text.erase(text.find_last_not_of(' ') + 1);
        return text;
    }

    /// The same with the last column, if it is of words, in as many lines as it takes to fit into `columns`.
    [[nodiscard]] std::string wrapped_line(std::size_t row, std::size_t columns) const {
        constexpr std::size_t least_room = 30;
        if (aligns_.back() == Align::right || width() <= columns) return line(row);
        const std::size_t room_before = width() - widths_.back();
        const std::size_t indent = room_before + least_room <= columns ? room_before : gap.size();
        std::string before = line(row);
        const std::string& words = rows_[row].back();
        if (words.empty() || measure(before) <= columns) return before;
        before.resize(before.size() - words.size());
        if (indent < room_before) before.erase(before.find_last_not_of(' ') + 1).append("\n").append(indent, ' ');
        return before + wrap_to_width(words, indent, columns);
    }

    [[nodiscard]] std::size_t rows() const { return rows_.size(); }

    [[nodiscard]] std::size_t width() const {
        return std::accumulate(widths_.begin(), widths_.end(), gap.size() * (widths_.size() - 1));
    }

  private:
    static constexpr std::string_view gap = "  ";

    // What is no terminal counts characters, as programs do that read the text.
    [[nodiscard]] std::size_t measure(std::string_view text) const {
        return on_terminal_ ? display_width(text) : text_width(text);
    }

    [[nodiscard]] std::string padded(std::size_t row, std::size_t column) const {
        const std::string& text = rows_[row][column];
        return pad(text, widths_[column], measure(text), aligns_[column]);
    }

    std::vector<Align> aligns_;
    std::vector<std::size_t> widths_;
    std::vector<std::vector<std::string>> rows_;
    bool on_terminal_;
};

Grid grid_of(const std::vector<Column>& all, const std::vector<std::size_t>& columns,
             const std::vector<const Table::Line*>& lines, const Table::TextStyle& style) {
    std::vector<Align> aligns;
    std::vector<std::string> headings;
    for (const std::size_t column : columns) {
        aligns.push_back(all[column].align);
        headings.push_back(all[column].heading);
    }
    Grid grid(std::move(aligns), style.columns > 0 || style.pictures.columns > 0);
    grid.add(std::move(headings));
    for (const Table::Line* line : lines) {
        std::vector<std::string> row;
        row.reserve(columns.size());
        for (const std::size_t column : columns) row.push_back(printable(line->cells[column].text));
        grid.add(std::move(row));
    }
    return grid;
}

double bar_value(const Cell& cell) {
    const double* const value = std::get_if<double>(&cell.value);
    return value == nullptr ? 0 : *value;
}

}  // namespace

std::string Table::text(std::size_t limit, const TextStyle& style) const {
    auto [columns, lines, hidden] = for_people(limit);
    std::vector<std::string> left_out;
    Grid grid = grid_of(columns_, columns, lines, style);
    while (style.columns > 0 && grid.width() > style.columns) {
        const auto detail = std::max_element(
            columns.begin(), columns.end(),
            [this](std::size_t one, std::size_t other) { return columns_[one].detail < columns_[other].detail; });
        if (detail == columns.end() || columns_[*detail].detail == 0) break;
        left_out.push_back(columns_[*detail].heading);
        columns.erase(detail);
        grid = grid_of(columns_, columns, lines, style);
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (!columns_[columns[i]].has_bars || style.pictures.columns == 0 || !left_out.empty()) continue;
        std::vector<double> values;
        values.reserve(lines.size());
        for (const Line* line : lines) values.push_back(bar_value(line->cells[columns[i]]));
        grid.add_bars(i, values, style.pictures);
    }
    const auto line = [&](std::size_t row) {
        return style.columns > 0 ? grid.wrapped_line(row, style.columns) : grid.line(row);
    };
    std::string text = std::string(style.bold) + line(0) + std::string(style.plain) + "\n";
    for (std::size_t i = 1; i < grid.rows(); ++i) text += line(i) + "\n";
    if (hidden > 0) text += describe_rest(hidden) + "\n";
    if (!left_out.empty())
        text += wrap_to_width(fmt::format("… no room for {}; --markdown and --csv have all", join(left_out, ", ")), 0,
                              style.columns) +
                "\n";
    return text;
}

std::string Table::markdown(std::size_t limit) const {
    const auto [columns, lines, hidden] = for_people(limit);
    std::string text = "|";
    for (const std::size_t column : columns) text += " " + markdown_text(columns_[column].heading) + " |";
    text += "\n|";
    for (const std::size_t column : columns) text += columns_[column].align == Align::left ? " :--- |" : " ---: |";
    text += "\n";
    for (const Line* line : lines) {
        text += "|";
        for (const std::size_t column : columns) text += " " + markdown_text(line->cells[column].text) + " |";
        text += "\n";
    }
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
    const auto [columns, lines, hidden] = for_people(limit);
    std::string html = "<div class=\"scroll\" tabindex=\"0\"><table>\n";
    if (!title_.empty()) html += "<caption>" + html_text(title_) + "</caption>\n";
    html += "<thead><tr>";
    for (const std::size_t column : columns) html += html_heading(columns_[column]);
    html += "</tr></thead>\n<tbody>\n";
    for (const Line* line : lines) {
        html += "<tr>";
        for (const std::size_t column : columns)
            html += (columns_[column].align == Align::left ? "<td class=\"left\">" : "<td>") +
                    html_text(line->cells[column].text) + "</td>";
        html += "</tr>\n";
    }
    html += "</tbody></table></div>\n";
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
