// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/failure.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "report/sections.hpp"
#include "show/document.hpp"
#include "show/json_writer.hpp"
#include "summary/summary_document.hpp"

namespace cep::report {
namespace {

using tool::html_text;
using tool::JsonWriter;
using tool::printable;

constexpr std::size_t phase_lines = 60;

// What an SVG and a heat map show where there is no row.
constexpr std::string_view patterns =
    "<svg class=\"defs\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
    "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"hatch-ground\" width=\"6\" "
    "height=\"6\"/>"
    "<path class=\"hatch-line\" d=\"M0 0V6\"/></pattern></defs></svg>\n";

/// The values that the script of a page shows under the pointer, and the cells that it enlarges.
struct PageData {
    std::string json;          // may stand in a script element; "" where there is no room at all
    std::size_t left_out = 0;  // layers of the heat map that had no room
};

void write_rows(JsonWriter& json, const JobView& view, const HeatMap& heat) {
    std::vector<std::string> labels;
    std::vector<std::string> who;
    std::vector<std::int64_t> ranks;
    std::vector<std::int64_t> hosts;
    std::map<std::string_view, std::int64_t> hosts_by_name;
    std::vector<std::int64_t> blamed;
    for (const tool::RankRole& rank : view.who) hosts_by_name.try_emplace(rank.host, hosts_by_name.size());
    for (const std::vector<std::size_t>& row : heat.rows) {
        labels.push_back(view.label_of(row));
        const std::string role = view.roles.size() > 1 ? " · " + view.roles[view.role[row.front()]] : "";
        who.push_back(row.size() == 1 ? printable(view.name_rank(row.front()) + role) : "ranks " + labels.back());
        ranks.push_back(view.ranks[row.front()]);
        hosts.push_back(hosts_by_name.at(view.who[row.front()].host));
        blamed.push_back(std::count(view.blamed.begin(), view.blamed.end(), row.front()));
    }
    json.object("rows",
                [&] { json.members("label", labels, "who", who, "rank", ranks, "host", hosts, "blamed", blamed); });
}

/// The layers of the heat map in their order, of at most `room` bytes.
///
/// {"colors": [255 pixels, from the neutral ground to the largest values],
///  "rows": {"label": ["5", "6–9"], "who": ["rank 5 (node0)", …], "rank": [5, 6], "host": [0, 1], "blamed": [1, 0]},
///  "steps": {"first": [100, 110], "last": [100, 110]},
///  "layers": [{"phase": name, "measure": name, "title": text, "low": ms, "high": ms, "range": [ms, ms], "data": …}]}
///
/// Colours go from `low` to `high`, on a logarithmic scale. `data` is base64 of zlib's format: a byte for each row and
/// column, row after row. 0: none. 1: range[0] and less. Else range[0] * (range[1] / range[0]) ** ((byte − 1) / 254).
PageData write_data(const JobView& view, const HeatMap& heat, std::size_t room) {
    constexpr std::size_t of_members = 1024;  // of a layer, beside its cells
    PageData data;
    JsonWriter json;
    json.begin_object();
    json.members("colors", heat_pixels());
    write_rows(json, view, heat);
    json.object("steps", [&] { json.members("first", view.steps.first, "last", view.steps.last); });
    std::size_t used = JsonWriter(json).finish().size();
    if (used > room) return {"", heat.layers.size()};
    json.key("layers").begin_array();
    for (const Layer& layer : heat.layers) {
        used += layer.cells.data.size() + of_members;
        if (used > room) {
            ++data.left_out;
            continue;
        }
        json.begin_object();
        json.members("phase", printable(view.phases[layer.phase].name), "measure",
                     measure_names[static_cast<std::size_t>(layer.measure)], "title", printable(describe(layer, view)),
                     "low", layer.scale.low, "high", layer.scale.high);
        const Range& range = layer.cells.range;
        json.key("range").begin_array().number(range.low).number(range.high).end_array();
        json.members("data", layer.cells.data).end_object();
    }
    json.end_array().end_object();
    for (const char& one : json.finish()) data.json += one == '<' ? "\\u003c" : std::string_view(&one, 1);
    return data;
}

std::string head(const std::string& title) {
    const PageText style = page_style();
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; "
        "img-src data:; script-src 'sha256-{}'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta name=\"generator\" content=\"cep report\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
        style.sha256, page_script().sha256, html_text(title), style.text);
}

std::string describe_job(const Page& page) {
    const auto& [inputs, view, heat] = page;
    std::string text = tool::describe_ranks(inputs.job.coverage);
    if (inputs.job.hosts > 0) text += ", " + tool::format_plural(inputs.job.hosts, "host");
    if (!view.steps.first.empty())
        text += fmt::format(", {} ({})", tool::format_plural(view.recorded_steps, "recorded step"),
                            tool::format_from_to(view.steps.first.front(), view.steps.last.back()));
    if (inputs.comparison != nullptr)
        text += fmt::format(". This is B, {}; A is {}", inputs.comparison->b.name, inputs.comparison->a.name);
    return text;
}

std::string navigation(const std::vector<Section>& sections) {
    std::string html = "<nav aria-label=\"Sections\">";
    for (const Section& section : sections)
        if (section.empty.empty()) html += "<a href=\"#" + section.id + "\">" + html_text(section.heading) + "</a> ";
    return html + "<a href=\"#phases\">Table of phases</a> <a href=\"#inputs\">What was read</a></nav>\n";
}

std::vector<Section> make_sections(const Page& page) {
    std::vector<Section> sections;
    if (page.inputs.comparison != nullptr) sections.push_back(compare_section(page));
    for (const auto make : {breakdown_section, heat_section, waits_section, bands_section, what_if_section,
                            timeline_section, comm_section, memory_section})
        sections.push_back(make(page));
    return sections;
}

std::string html_of(const Section& section) {
    std::string html = "<section id=\"" + section.id + "\">\n<h2>" + html_text(section.heading) + "</h2>\n";
    if (!section.empty.empty()) return html + "<p class=\"empty\">" + html_text(section.empty) + "</p>\n</section>\n";
    html += "<p class=\"look\">" + html_text(section.look) + "</p>\n";
    for (const Figure& figure : section.figures) {
        html += "<figure>" + figure.picture;
        if (!figure.caption.empty()) html += "<figcaption>" + html_text(figure.caption) + "</figcaption>";
        html += "</figure>\n";
    }
    if (!section.details.empty()) html += "<details><summary>In numbers</summary>\n" + section.details + "</details>\n";
    return html + "</section>\n";
}

/// The run's name; of rows that have none, what it is.
std::string name_of(const tool::Job& job) {
    return job.runs.empty() || job.runs.back().run_id.empty() ? "Training job" : job.runs.back().run_id;
}

/// All but the data and the script. `document` is that of cep summarize.
std::string body(const Page& page, const tool::Document& document) {
    const std::vector<Section> sections = make_sections(page);
    const tool::Job& job = page.inputs.job;
    std::string html = std::string(patterns) + "<header>\n<h1>" + html_text(name_of(job)) + "</h1>\n<p>" +
                       html_text(describe_job(page)) + "</p>\n";
    if (const std::string gaps = tool::describe_gaps(job.inputs, job.coverage); !gaps.empty())
        html += "<p class=\"damage\">Not all of it could be read: " + html_text(gaps) + "</p>\n";
    html += "</header>\n<main>\n<section id=\"verdict\">\n" + tool::html_findings(document) + "</section>\n" +
            navigation(sections);
    for (const Section& section : sections) html += html_of(section);
    html += "<section id=\"phases\">\n<h2>Table of phases</h2>\n" + tool::html_tables(document, phase_lines) +
            "</section>\n";
    html += "<section id=\"inputs\">\n<h2>What was read</h2>\n" + tool::html_facts(document.facts) +
            tool::html_notes(document.notes) + "</section>\n</main>\n";
    return html;
}

std::vector<std::string> describe_left_out(const Page& page, const PageData& data) {
    std::vector<std::string> left_out;
    if (data.json.empty() && !page.heat.layers.empty())
        left_out.emplace_back("the data of pictures that can be enlarged is left out");
    else if (data.left_out > 0)
        left_out.push_back(tool::format_plural(data.left_out, "view") + " of the heat map had no room");
    if (page.view.left_out_phases > 0)
        left_out.push_back(tool::format_plural(page.view.left_out_phases, "phase") +
                           " with less time have no pictures");
    if (const tool::JobTable* table = page.inputs.table; table != nullptr && table->steps.size() < table->all_steps)
        left_out.push_back(fmt::format("pictures show {} of {} steps, chosen by a hash of their number",
                                       tool::format_count(table->steps.size()), tool::format_count(table->all_steps)));
    return left_out;
}

/// The page, with as much of the heat map as there is room for.
Report assemble(const Page& page, const std::string& head, const std::string& body) {
    constexpr std::size_t room_of_footer = 2048;
    const std::size_t max_bytes = page.inputs.max_bytes;
    const std::string script = fmt::format("<script>{}</script>\n", page_script().text);
    const std::size_t needed = head.size() + body.size() + script.size() + room_of_footer;
    PageData data;
    if (needed < max_bytes && !page.heat.layers.empty()) data = write_data(page.view, page.heat, max_bytes - needed);
    Report report;
    report.left_out = describe_left_out(page, data);
    report.html = head + body +
                  "<footer>\n<p>Written by cep " CEP_VERSION
                  " report. This page needs no network and no other file.</p>\n";
    for (const std::string& sentence : report.left_out)
        report.html += "<p>To keep the file small: " + html_text(sentence) + ".</p>\n";
    report.html += "</footer>\n";
    if (!data.json.empty())
        report.html += "<script type=\"application/json\" id=\"cep-data\">" + data.json + "</script>\n";
    report.html += script + "</body>\n</html>\n";
    if (report.html.size() > max_bytes)
        throw tool::UsageError(fmt::format("--max-bytes: the page needs {} bytes, even without its data",
                                           tool::format_count(report.html.size())));
    return report;
}

}  // namespace

Report make_report(const ReportInputs& inputs) {
    Page page{inputs, view_job(inputs.job, inputs.summary, inputs.verdict, inputs.table), {}};
    page.heat = build_heat(inputs.job, inputs.table, page.view);  // which fills in JobView::slowness_ms
    if (page.view.ranks.size() == 1) page.heat.layers.clear();    // one rank stands out from nobody
    const tool::Document document = tool::summary_document(inputs.job, inputs.summary, &inputs.verdict, {});
    return assemble(page, head(name_of(inputs.job) + " · cep report"), body(page, document));
}

}  // namespace cep::report
