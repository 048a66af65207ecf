// SPDX-License-Identifier: Apache-2.0
//
// Documents: what an analysis has to say, before it is text, Markdown, CSV or JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "read/coverage.hpp"
#include "show/json_writer.hpp"
#include "show/picture.hpp"
#include "show/table.hpp"

namespace cep::tool {

/// A line of the document: "ranks     8 ranks on 1 host".
struct Fact {
    std::string name;  // "": belongs to the fact before it
    std::string value;
};

/// How bad the headline is; a terminal shows it in a colour.
enum class Tone : std::uint8_t { neutral, warning, bad };

/// Texts are plain; renderers escape them. Parts that are empty are left out.
struct Document {
    std::string title;     // of the whole, for Markdown and pages: "GPU kernels"
    std::string scope;     // which part of the inputs it is about, where they hold more: other runs are left out
    std::string headline;  // what a tired person must know, in one or two sentences
    Tone tone = Tone::neutral;
    std::string certainty;               // how sure the headline is
    std::vector<std::string> evidence;   // why the headline says so: items of a list, without a full stop
    std::vector<std::size_t> minor;      // indices into evidence: figures of the job that the headline does not rest on
    std::vector<std::string> next;       // what to do
    std::vector<Fact> facts;             // what the analysis looked at
    std::optional<StepPicture> picture;  // in text only, and only where the rendering has room for it
    std::vector<Table> tables;           // those for people, in their order; CSV is the one that `csv_table` names
    std::size_t csv_table = 0;           // index into tables
    std::vector<std::string> notes;      // how to read the tables
    /// Writes the whole document as one JSON object, whose "schema" is published.
    std::function<void(JsonWriter&)> write_json;

    /// The headline and the evidence.
    [[nodiscard]] std::string in_one_text() const;
    /// Evidence that a page shows apart.
    void add_minor(std::string text) {
        minor.push_back(evidence.size());
        evidence.push_back(std::move(text));
    }
};

enum class Format : std::uint8_t { text, markdown, csv, json };

struct Rendering {
    Format format = Format::text;
    std::size_t limit = 40;   // lines of each table in text and Markdown; 0: all
    bool colors = false;      // text only
    std::size_t columns = 0;  // of a terminal, for text; 0: lines are as long as they are
    bool is_ascii = false;    // of text: what cep itself says has no other characters
    PictureStyle pictures{};
};

[[nodiscard]] std::string render(const Document& document, const Rendering& rendering);

/// The members of "inputs", which says what was read: files, bytes, rows, ranks_seen, ranks_expected, missing_ranks,
/// truncated_files, unreadable_files, skipped_rows, and which run it was of those that the inputs have: run,
/// runs_left_out, other_runs.
void write_inputs(JsonWriter& json, const InputCounts& inputs, const Coverage& coverage);

/// The text made safe for HTML and XML, between tags and in quoted attributes.
[[nodiscard]] std::string html_text(std::string_view text);

/// The headline, what it rests on, and what to do; "" where the document has none of these.
[[nodiscard]] std::string html_findings(const Document& document);
[[nodiscard]] std::string html_facts(const std::vector<Fact>& facts);
/// All tables that have lines.
[[nodiscard]] std::string html_tables(const Document& document, std::size_t limit);
/// A list; "" for none.
[[nodiscard]] std::string html_notes(const std::vector<std::string>& notes);

}  // namespace cep::tool
