// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <fmt/format.h>

#include "base/failure.hpp"
#include "base/units.hpp"
#include "report/data.hpp"
#include "report/page_text.hpp"
#include "report/sections.hpp"
#include "show/html.hpp"
#include "summary/summary_document.hpp"

namespace cep::report {
namespace {

using tool::html_text;

constexpr std::size_t phase_lines = 60;

// What an SVG and a heat map show where there is no row.
constexpr std::string_view patterns =
    "<svg class=\"defs\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
    "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"hatch-ground\" width=\"6\" "
    "height=\"6\"/>"
    "<path class=\"hatch-line\" d=\"M0 0V6\"/></pattern></defs></svg>\n";

/// What a page shows.
struct PageParts {
    const ReportInputs& inputs;
    const JobView& view;
    const HeatMap& heat;
};

std::string head(const std::string& title) {
    const PageText style = page_style();
    const PageText script = page_script();
    const std::string policy =
        fmt::format("default-src 'none'; style-src 'sha256-{}'; img-src data:; script-src 'sha256-{}'", style.sha256,
                    script.sha256);
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta name=\"generator\" content=\"cep report\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
        policy, html_text(title), style.text);
}

std::string describe_job(const ReportInputs& inputs, const JobView& view) {
    std::string text = tool::describe_ranks(inputs.job->coverage);
    if (inputs.job->hosts > 0) text += ", " + tool::format_plural(inputs.job->hosts, "host");
    if (!view.steps.first.empty())
        text += fmt::format(", {} ({})", tool::format_plural(view.recorded_steps, "recorded step"),
                            tool::format_from_to(view.steps.first.front(), view.steps.last.back()));
    if (inputs.comparison != nullptr)
        text += fmt::format(". This is B, {}; A is {}", inputs.comparison->b.name, inputs.comparison->a.name);
    return text;
}

std::string describe_damage(const tool::Job& job) {
    const std::string gaps = tool::describe_gaps(job.inputs, job.coverage);
    return gaps.empty() ? "" : "<p class=\"damage\">Not all of it could be read: " + html_text(gaps) + "</p>\n";
}

std::string navigation(const std::vector<Section>& sections) {
    std::string html = "<nav aria-label=\"Sections\">";
    for (const Section& section : sections)
        if (section.empty.empty()) html += "<a href=\"#" + section.id + "\">" + html_text(section.heading) + "</a> ";
    return html + "<a href=\"#phases\">Table of phases</a> <a href=\"#inputs\">What was read</a></nav>\n";
}

std::vector<Section> make_sections(const PageParts& parts) {
    const ReportInputs& inputs = parts.inputs;
    const JobView& view = parts.view;
    std::vector<Section> sections;
    if (inputs.comparison != nullptr) sections.push_back(compare_section(*inputs.comparison));
    sections.push_back(breakdown_section(view, inputs.verdict->ledger));
    sections.push_back(heat_section(view, parts.heat));
    sections.push_back(waits_section(view, parts.heat));
    sections.push_back(bands_section(view, parts.heat, *inputs.job, *inputs.verdict));
    sections.push_back(what_if_section(*inputs.verdict));
    sections.push_back(timeline_section(view, find_timeline(*inputs.job, inputs.table, view, inputs.timeline)));
    sections.push_back(comm_section(inputs.comm, inputs.why_no_comm));
    sections.push_back(memory_section(view, *inputs.job));
    return sections;
}

std::string html_of(const Section& section) {
    std::string html = "<section id=\"" + section.id + "\">\n<h2>" + html_text(section.heading) + "</h2>\n";
    if (!section.empty.empty()) return html + "<p class=\"empty\">" + html_text(section.empty) + "</p>\n</section>\n";
    html += "<p class=\"look\">" + html_text(section.look) + "</p>\n";
    for (const Figure& figure : section.figures) {
        html += figure.may_scroll ? "<figure><div class=\"scroll\" tabindex=\"0\">" + figure.picture + "</div>"
                                  : "<figure>" + figure.picture;
        if (!figure.caption.empty()) html += "<figcaption>" + html_text(figure.caption) + "</figcaption>";
        html += "</figure>\n";
    }
    if (!section.details.empty()) html += "<details><summary>In numbers</summary>\n" + section.details + "</details>\n";
    return html + "</section>\n";
}

/// The run's name; of rows that have none, what it is.
std::string name_of(const tool::Job& job) {
    const bool has_name = !job.runs.empty() && !job.runs.back().run_id.empty();
    return has_name ? job.runs.back().run_id : "Training job";
}

/// All but the data and the script. `document` is that of cep summarize.
std::string body(const PageParts& parts, const tool::Document& document) {
    const std::vector<Section> sections = make_sections(parts);
    std::string html = std::string(patterns) + "<header>\n<h1>" + html_text(name_of(*parts.inputs.job)) + "</h1>\n<p>" +
                       html_text(describe_job(parts.inputs, parts.view)) + "</p>\n" +
                       describe_damage(*parts.inputs.job) + "</header>\n<main>\n<section id=\"verdict\">\n" +
                       tool::html_findings(document) + "</section>\n" + navigation(sections);
    for (const Section& section : sections) html += html_of(section);
    html += "<section id=\"phases\">\n<h2>Table of phases</h2>\n" + tool::html_tables(document, phase_lines) +
            "</section>\n";
    html += "<section id=\"inputs\">\n<h2>What was read</h2>\n" + tool::html_facts(document.facts) +
            tool::html_notes(document.notes) + "</section>\n</main>\n";
    return html;
}

std::string footer(const std::vector<std::string>& left_out) {
    std::string html =
        "<footer>\n<p>Written by cep " CEP_VERSION " report. This page needs no network and no other file.</p>\n";
    for (const std::string& sentence : left_out)
        html += "<p>To keep the file small: " + html_text(sentence) + ".</p>\n";
    return html + "</footer>\n";
}

std::vector<std::string> describe_left_out(const PageParts& parts, const PageData& data) {
    std::vector<std::string> left_out;
    if (data.json.empty() && !parts.heat.layers.empty())
        left_out.emplace_back("the data of pictures that can be enlarged is left out");
    else if (data.left_out > 0)
        left_out.push_back(tool::format_plural(data.left_out, "view") + " of the heat map had no room");
    if (parts.view.left_out_phases > 0)
        left_out.push_back(fmt::format("{} with less time have no pictures",
                                       tool::format_plural(parts.view.left_out_phases, "phase")));
    if (const tool::JobTable* table = parts.inputs.table; table != nullptr && table->steps.size() < table->all_steps)
        left_out.push_back(fmt::format("pictures show {} of {} steps, chosen by a hash of their number",
                                       tool::format_count(table->steps.size()), tool::format_count(table->all_steps)));
    return left_out;
}

/// The page from its parts, with as much of the heat map as there is room for.
Report assemble(const PageParts& parts, const std::string& head, const std::string& body) {
    constexpr std::size_t room_of_footer = 2048;
    const std::size_t max_bytes = parts.inputs.max_bytes;
    const std::string script = fmt::format("<script>{}</script>\n", page_script().text);
    const std::size_t needed = head.size() + body.size() + script.size() + room_of_footer;
    PageData data;
    if (needed < max_bytes && !parts.heat.layers.empty()) data = write_data(parts.view, parts.heat, max_bytes - needed);
    Report report;
    report.left_out = describe_left_out(parts, data);
    report.html = head + body + footer(report.left_out);
    if (!data.json.empty())
        report.html += "<script type=\"application/json\" id=\"cep-data\">" + data.json + "</script>\n";
    report.html += script + "</body>\n</html>\n";
    if (report.html.size() > max_bytes)
        throw tool::UsageError(fmt::format("--max-bytes: the page needs {} bytes, even without its data",
                                           tool::format_count(report.html.size())));
    return report;
}

}  // namespace

Report make_report(const ReportInputs& inputs, JobView view) {
    HeatMap heat = build_heat(*inputs.job, inputs.table, view);  // which fills in JobView::slowness_ms
    if (view.ranks.size() == 1) heat.layers.clear();             // one rank stands out from nobody
    const PageParts parts{inputs, view, heat};
    const tool::Document document = tool::summary_document(*inputs.job, *inputs.summary, inputs.verdict, {});
    return assemble(parts, head(name_of(*inputs.job) + " · cep report"), body(parts, document));
}

}  // namespace cep::report
