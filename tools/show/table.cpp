// SPDX-License-Identifier: Apache-2.0
#include "show/table.hpp"

#include <algorithm>

#include "base/units.hpp"

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

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    const std::vector<Align>& aligns) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "  " : "") + pad(cells[i], widths[i], aligns[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

std::string markdown_cell(std::string_view text) {
    std::string cell;
    for (const char c : printable(text)) {
        if (c == '|' || c == '\\') cell += '\\';
        cell += c;
    }
    return cell;
}

std::string csv_cell(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string cell = "\"";
    for (const char c : text) {
        if (c == '"') cell += '"';
        cell += c;
    }
    return cell + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
    std::string line;
    for (const std::string& cell : cells) line += (&cell == cells.data() ? "" : ",") + csv_cell(cell);
    return line + "\r\n";
}

}  // namespace

void Table::add_column(std::string heading, Align align) {
    headings_.push_back(std::move(heading));
    aligns_.push_back(align);
}

void Table::add_row(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
    std::vector<std::size_t> widths;
    for (const std::string& heading : headings_) widths.push_back(width_of(heading));
    for (const auto& row : rows_)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    return widths;
}

std::string Table::text(std::string_view bold, std::string_view plain) const {
    const std::vector<std::size_t> columns = widths();
    std::string text = std::string(bold) + line_of(headings_, columns, aligns_) + std::string(plain) + "\n";
    for (const auto& row : rows_) text += line_of(row, columns, aligns_) + "\n";
    return text;
}

std::string Table::markdown() const {
    std::string text = "|";
    for (const std::string& heading : headings_) text += " " + markdown_cell(heading) + " |";
    text += "\n|";
    for (const Align align : aligns_) text += align == Align::left ? " :--- |" : " ---: |";
    text += "\n";
    for (const auto& row : rows_) {
        text += "|";
        for (const std::string& cell : row) text += " " + markdown_cell(cell) + " |";
        text += "\n";
    }
    return text;
}

std::string Table::csv() const {
    std::string text = csv_line(headings_);
    for (const auto& row : rows_) text += csv_line(row);
    return text;
}

}  // namespace cep::tool
