// SPDX-License-Identifier: Apache-2.0
#include "show/plain_table.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace cep::tool {
namespace {

// Characters, not bytes: a continuation byte of UTF-8 takes no room.
std::size_t plain_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string plain_pad(const std::string& text, std::size_t width, Align align) {
    const std::string space(width - std::min(width, plain_width(text)), ' ');
    return align == Align::left ? text + space : space + text;
}

std::string plain_line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    const std::vector<Align>& aligns) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "  " : "") + plain_pad(cells[i], widths[i], aligns[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

std::string plain_markdown_cell(std::string_view text) {
    std::string cell;
    for (const char c : printable(text)) {
        if (c == '|' || c == '\\') cell += '\\';
        cell += c;
    }
    return cell;
}

std::string plain_csv_cell(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string cell = "\"";
    for (const char c : text) {
        if (c == '"') cell += '"';
        cell += c;
    }
    return cell + "\"";
}

std::string plain_csv_line(const std::vector<std::string>& cells) {
    std::string line;
    for (const std::string& cell : cells) line += (&cell == cells.data() ? "" : ",") + plain_csv_cell(cell);
    return line + "\r\n";
}

}  // namespace

void PlainTable::add_column(std::string heading, Align align) {
    headings_.push_back(std::move(heading));
    aligns_.push_back(align);
}

void PlainTable::add_row(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
}

std::vector<std::size_t> PlainTable::widths() const {
    std::vector<std::size_t> widths;
    for (const std::string& heading : headings_) widths.push_back(plain_width(heading));
    for (const auto& row : rows_)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], plain_width(row[i]));
    return widths;
}

std::string PlainTable::text(std::string_view bold, std::string_view plain) const {
    const std::vector<std::size_t> columns = widths();
    std::string text = std::string(bold) + plain_line(headings_, columns, aligns_) + std::string(plain) + "\n";
    for (const auto& row : rows_) text += plain_line(row, columns, aligns_) + "\n";
    return text;
}

std::string PlainTable::markdown() const {
    std::string text = "|";
    for (const std::string& heading : headings_) text += " " + plain_markdown_cell(heading) + " |";
    text += "\n|";
    for (const Align align : aligns_) text += align == Align::left ? " :--- |" : " ---: |";
    text += "\n";
    for (const auto& row : rows_) {
        text += "|";
        for (const std::string& cell : row) text += " " + plain_markdown_cell(cell) + " |";
        text += "\n";
    }
    return text;
}

std::string PlainTable::csv() const {
    std::string text = plain_csv_line(headings_);
    for (const auto& row : rows_) text += plain_csv_line(row);
    return text;
}

}  // namespace cep::tool
