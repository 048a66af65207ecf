// SPDX-License-Identifier: Apache-2.0
//
// Tables of typed values: each cell holds a value for programs and its text for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "show/picture.hpp"

namespace cep::tool {

enum class Align : std::uint8_t { left, right };

/// What a column holds. A column without a key is for people only, one without a heading for programs only.
struct Column {
    std::string key;      // in CSV and in other machine-readable forms: "p50_ms"
    std::string heading;  // in text and Markdown: "p50"
    Align align = Align::right;
    std::string unit{};     // of the value: "ms", "bytes", "GB/s", "FLOP/s"; "" for names, counts and ratios
    std::string meaning{};  // one sentence without a full stop
    bool has_bars = false;  // where pictures are drawn and fit: of values from 0 to 1
    int detail = 0;  // 0: always shown; else, on a terminal without room, left out before those of a lower number
};

/// monostate: not known, or does not apply.
using Value = std::variant<std::monostate, std::int64_t, std::uint64_t, double, std::string, bool,
                           std::vector<std::string>>;  // a list: its texts with spaces between them

/// Not known, or does not apply: empty in CSV, "-" for people.
struct Cell {
    Value value;
    std::string text = "-";  // for people
};

class Table {
  public:
    struct Line {
        std::vector<Cell> cells;  // one a column
        bool for_people = true;   // false: left out of text and Markdown
        bool for_programs = true;
    };

    explicit Table(std::vector<Column> columns, std::string title = {})
        : columns_(std::move(columns)), title_(std::move(title)) {}

    void add(std::vector<Cell> cells) { lines_.push_back({std::move(cells)}); }
    void add(Line line) { lines_.push_back(std::move(line)); }
    /// The order in which people see the lines, most important first: indices. Default: as they were added.
    void set_order(std::vector<std::size_t> order) { order_ = std::move(order); }
    /// What the lines are, for "… 3 kernels with less time not shown". `left_out`: lines that were never added.
    void set_rest(std::string noun, std::string how = {}, std::size_t left_out = 0) {
        noun_ = std::move(noun);
        how_ = std::move(how);
        left_out_ = left_out;
    }

    /// A table of a few lines that belong together: no limit applies.
    void keep_whole() { is_kept_whole_ = true; }

    [[nodiscard]] const std::string& title() const { return title_; }
    [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
    [[nodiscard]] const std::vector<Line>& lines() const { return lines_; }
    /// Whether people would see no line of it.
    [[nodiscard]] bool empty() const { return for_people(0).lines.empty(); }

    struct TextStyle {
        std::string_view bold;  // these are put round the heading: terminal codes, or ""
        std::string_view plain;
        std::size_t columns = 0;  // of a terminal; 0: any width is right
        PictureStyle pictures{};
    };

    /// At most `limit` lines (0: all); the rest is counted in a line of its own.
    [[nodiscard]] std::string text(std::size_t limit, const TextStyle& style) const;
    /// GitHub Markdown.
    [[nodiscard]] std::string markdown(std::size_t limit) const;
    /// A table of a page, with its title as a caption; what columns mean and their units are the titles of their
    /// headings.
    [[nodiscard]] std::string html(std::size_t limit) const;
    /// RFC 4180: all lines. A text that a spreadsheet would take for a formula is preceded by an apostrophe.
    [[nodiscard]] std::string csv() const;

  private:
    /// What people see of it.
    struct Shown {
        std::vector<std::size_t> columns;  // indices
        std::vector<const Line*> lines;    // in their order
        std::size_t hidden = 0;            // lines beyond the limit, or never added
    };

    [[nodiscard]] Shown for_people(std::size_t limit) const;
    [[nodiscard]] std::string count_rest(std::size_t hidden) const;
    [[nodiscard]] std::string describe_rest(std::size_t hidden) const;
    [[nodiscard]] std::string html_heading(const Column& column) const;

    std::vector<Column> columns_;
    std::string title_;
    std::vector<Line> lines_;
    std::vector<std::size_t> order_;
    bool is_kept_whole_ = false;
    std::string noun_ = "line";
    std::string how_;
    std::size_t left_out_ = 0;
};

/// The text, or its first `most` characters and "…".
[[nodiscard]] std::string shorten(std::string_view text, std::size_t most);

/// The text made safe for Markdown and for the HTML in it.
[[nodiscard]] std::string markdown_text(std::string_view text);

}  // namespace cep::tool
