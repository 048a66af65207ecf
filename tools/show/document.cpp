// SPDX-License-Identifier: Apache-2.0
#include "show/document.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/terminal.hpp"
#include "base/text.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t least_name_width = 9;

struct Colors {
    std::string_view bold;
    std::string_view plain;
    std::string_view headline;
};

Colors colors_for(const Rendering& rendering, Tone tone) {
    if (!rendering.colors) return {};
    const std::string_view headline = tone == Tone::bad       ? "\033[1;31m"
                                      : tone == Tone::warning ? "\033[1;33m"
                                                              : "\033[1m";
    return {"\033[1m", "\033[0m", headline};
}

std::string fact_line(std::string_view name, std::string_view value, std::size_t width, std::size_t columns) {
    return fmt::format("{:<{}} {}\n", printable(name), width, wrap_to_width(printable(value), width + 1, columns));
}

std::string list(std::string_view name, const std::vector<std::string>& lines, std::size_t columns) {
    std::string text;
    for (const std::string& line : lines)
        text += fact_line(text.empty() ? name : std::string_view(), line, least_name_width, columns);
    return text;
}

/// Text with an empty line between its paragraphs.
class Paragraphs {
  public:
    void add(const std::string& paragraph) {
        if (paragraph.empty()) return;
        if (!text_.empty()) text_ += '\n';
        text_ += paragraph;
    }
    [[nodiscard]] std::string finish() { return std::move(text_); }

  private:
    std::string text_;
};

std::string text_of(const Document& document, const Rendering& rendering) {
    const Colors colors = colors_for(rendering, document.tone);
    const std::size_t columns = rendering.columns;
    Paragraphs text;
    if (!document.scope.empty()) text.add(wrap_to_width(printable(document.scope), 0, columns) + "\n");
    if (!document.headline.empty())
        text.add(fmt::format("{}{}{}\n", colors.headline, wrap_to_width(printable(document.headline), 0, columns),
                             colors.plain));
    std::vector<std::string> certainty;
    if (!document.certainty.empty()) certainty.push_back(document.certainty);
    text.add(list("because", document.evidence, columns) + list("how sure", certainty, columns) +
             list("next", document.next, columns));
    std::string facts;
    std::size_t width = least_name_width;
    for (const Fact& fact : document.facts) width = std::max(width, fact.name.size());
    for (const Fact& fact : document.facts) facts += fact_line(fact.name, fact.value, width, columns);
    text.add(facts);
    if (document.picture && rendering.pictures.columns > 0)
        text.add(document.picture->text(rendering.pictures, rendering.colors));
    for (const Table& table : document.tables)
        if (!table.empty())
            text.add(table.text(rendering.limit, {colors.bold, colors.plain, columns, rendering.pictures}));
    std::string notes;
    for (const std::string& note : document.notes) notes += wrap_to_width(printable(note), 0, columns) + "\n";
    text.add(notes);
    return text.finish();
}

/// Puts ASCII in the place of the characters that cep itself uses; names from files stay.
std::string in_ascii(std::string text) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> substitutes = {{{"→", "->"},
                                                                                            {"…", "..."},
                                                                                            {"–", "-"},
                                                                                            {"−", "-"},
                                                                                            {"µ", "u"},
                                                                                            {"×", "x"},
                                                                                            {"±", "+-"},
                                                                                            {"≈", "~"},
                                                                                            {"·", "."},
                                                                                            {"²", "2"},
                                                                                            {"α", "alpha"}}};
    for (const auto& [character, substitute] : substitutes)
        for (std::size_t at = text.find(character); at != std::string::npos; at = text.find(character, at))
            text.replace(at, character.size(), substitute);
    return text;
}

std::string markdown_of(const Document& document, const Rendering& rendering) {
    Paragraphs text;
    if (!document.title.empty()) text.add("# " + markdown_text(document.title) + "\n");
    if (!document.scope.empty()) text.add(markdown_text(document.scope) + "\n");
    if (!document.headline.empty()) text.add("**" + markdown_text(document.headline) + "**\n");
    std::string lines;
    for (const std::string& line : document.evidence) lines += "- " + markdown_text(line) + "\n";
    if (!document.certainty.empty()) lines += "- How sure: " + markdown_text(document.certainty) + "\n";
    for (const std::string& line : document.next) lines += "- next: " + markdown_text(line) + "\n";
    for (const Fact& fact : document.facts)
        lines += (fact.name.empty() ? "- " : "- " + markdown_text(fact.name) + ": ") + markdown_text(fact.value) + "\n";
    text.add(lines);
    for (const Table& table : document.tables) {
        if (table.empty()) continue;
        if (!table.title().empty()) text.add("## " + markdown_text(table.title()) + "\n");
        text.add(table.markdown(rendering.limit));
    }
    std::string notes;
    for (const std::string& note : document.notes) notes += "- " + markdown_text(note) + "\n";
    text.add(notes);
    return text.finish();
}

}  // namespace

std::string Document::in_one_text() const {
    return evidence.empty() ? headline : fmt::format("{} {}.", headline, join(evidence, "; "));
}

std::string render(const Document& document, const Rendering& rendering) {
    switch (rendering.format) {
        case Format::json: {
            JsonWriter json;
            json.begin_object();
            document.write_json(json);
            json.end_object();
            return json.finish();
        }
        case Format::csv:
            return document.csv_table < document.tables.size() ? document.tables[document.csv_table].csv() : "";
        case Format::markdown:
            return markdown_of(document, rendering);
        default:
            return rendering.is_ascii ? in_ascii(text_of(document, rendering)) : text_of(document, rendering);
    }
}

void write_inputs(JsonWriter& json, const InputCounts& inputs, const Coverage& coverage) {
    json.members("files", inputs.files, "bytes", inputs.bytes, "rows", inputs.rows, "ranks_seen", coverage.ranks_seen,
                 "ranks_expected", coverage.ranks_expected, "missing_ranks", coverage.missing_ranks, "truncated_files",
                 inputs.truncated_files, "unreadable_files", inputs.unreadable_files, "skipped_rows",
                 inputs.skipped_rows, "run", text_or_null(inputs.run), "runs_left_out", inputs.runs_left_out);
    json.objects("other_runs", inputs.other_runs, [&json](const InputRun& run) {
        json.members("run", run.name, "ranks", run.ranks, "start_unix_ns", run.start_unix_ns, "first_step",
                     run.first_step);
    });
}

}  // namespace cep::tool
