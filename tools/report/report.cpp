// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/failure.hpp"
#include "base/units.hpp"
#include "report/data.hpp"
#include "report/fit.hpp"
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

std::string head(const std::string& title) {
    const PageText style = page_style();
    const PageText script = page_script();
    std::string policy = fmt::format("default-src 'none'; style-src 'sha256-{}'; img-src data:", style.sha256);
    if (!script.text.empty()) policy += fmt::format("; script-src 'sha256-{}'", script.sha256);
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta name=\"generator\" content=\"cep report\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
        policy, html_text(title), style.text);
}

std::string describe_job(const ReportInputs& inputs, const JobView& view) {
    std::string text = fmt::format("{}, {}", tool::describe_ranks(inputs.job->coverage),
                                   tool::format_plural(inputs.job->hosts, "host"));
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
    sections.push_back(breakdown_section(view, parts.breakdown));
    sections.push_back(heat_section(view, parts.heat));
    sections.push_back(waits_section(view, parts.heat));
    sections.push_back(bands_section(view, parts.heat, *inputs.job, *inputs.verdict));
    sections.push_back(what_if_section(*inputs.verdict));
    sections.push_back(timeline_section(view, parts.timeline));
    sections.push_back(comm_section(inputs.comm, inputs.why_no_comm));
    sections.push_back(memory_section(view, parts.memory, *inputs.summary));
    return sections;
}

std::string html_of(const Section& section) {
    std::string html = "<section id=\"" + section.id + "\">\n<h2>" + html_text(section.heading) + "</h2>\n";
    if (!section.empty.empty()) return html + "<p class=\"empty\">" + html_text(section.empty) + "</p>\n</section>\n";
    html += "<p class=\"look\">" + html_text(section.look) + "</p>\n";
    for (const Figure& figure : section.figures) {
        html += "<figure class=\"static\"><div class=\"scroll\" tabindex=\"0\">" + figure.svg + "</div>";
        if (!figure.caption.empty()) html += "<figcaption>" + html_text(figure.caption) + "</figcaption>";
        html += "</figure>\n";
    }
    if (!section.details.empty()) html += "<details><summary>As a table</summary>\n" + section.details + "</details>\n";
    return html + "</section>\n";
}

/// All but the data and the script. `document` is that of cep summarize.
std::string body(const PageParts& parts, const tool::Document& document) {
    const std::vector<Section> sections = make_sections(parts);
    std::string html = std::string(patterns) + "<header>\n<h1>CUDA Event Profiler: report of a training job</h1>\n<p>" +
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

std::string footer(const std::vector<std::string>& left_out, bool has_script) {
    std::string html =
        "<footer>\n<p>Written by cep " CEP_VERSION " report. This page needs no network and no other file.";
    if (!has_script) html += " It was made by a build without a script: its pictures are static.";
    html += "</p>\n";
    for (const std::string& sentence : left_out)
        html += "<p>To keep the file small: " + html_text(sentence) + ".</p>\n";
    return html + "</footer>\n";
}

/// Of the bins of ranks and steps, each written twice.
std::size_t room_of_grids(const PageParts& parts) {
    constexpr std::size_t a_number = 22;
    const JobView& view = parts.view;
    const std::size_t ranks = std::max(parts.heat.rank_bins.size() + parts.heat.chosen.size(), view.ranks.size());
    return 2 * a_number * (ranks + view.steps.size() + parts.heat.band_steps.size());
}

/// What a page with this heat map lacks.
std::vector<std::string> describe_left_out(const PageParts& parts, const FittedHeat& fitted) {
    std::vector<std::string> left_out = fitted.left_out;
    if (parts.view.left_out_phases > 0)
        left_out.push_back(fmt::format("{} with less time have no pictures",
                                       tool::format_plural(parts.view.left_out_phases, "phase")));
    if (const tool::JobTable* table = parts.inputs.table; table != nullptr && table->steps.size() < table->all_steps)
        left_out.push_back(fmt::format("own work and waiting: of {} of {} steps, chosen at random",
                                       tool::format_count(table->steps.size()), tool::format_count(table->all_steps)));
    return left_out;
}

/// The page from its parts, with as much of the heat map as there is room for.
Report assemble(const PageParts& parts, const std::string& head, const std::string& body) {
    constexpr std::size_t room_of_footer = 2048;
    const std::size_t max_bytes = parts.inputs.max_bytes;
    const std::string_view script = page_script().text;
    const std::size_t needed = head.size() + body.size() + script.size() + room_of_footer +
                               write_data(parts, {}).size() + room_of_grids(parts);
    Report report;
    std::string data;
    if (needed <= max_bytes) {
        const FittedHeat fitted = fit_heat(parts.heat, parts.view, max_bytes - needed);
        data = write_data(parts, fitted);
        report.left_out = describe_left_out(parts, fitted);
    } else {
        report.left_out = {"the data for pictures that can be explored is left out"};
    }
    report.has_script = !script.empty() && !data.empty();
    report.html = head + body + footer(report.left_out, !script.empty());
    if (!data.empty()) report.html += "<script type=\"application/json\" id=\"cep-data\">" + data + "</script>\n";
    if (report.has_script) report.html += fmt::format("<script>{}</script>\n", script);
    report.html += "</body>\n</html>\n";
    if (report.html.size() > max_bytes)
        throw tool::UsageError(fmt::format("--max-bytes: the page needs {} bytes, even without its data",
                                           tool::format_count(report.html.size())));
    return report;
}

}  // namespace

void add_derived_step(const tool::JobTable& table, JobView& view) {
    if (view.has_step || table.has_step_spans) return;
    const bool any =
        std::any_of(table.median_step_ms.begin(), table.median_step_ms.end(), [](double ms) { return ms > 0; });
    if (!any) return;
    view.phases.insert(view.phases.begin(), {"whole step", schema::Kind::step, 0});
    view.has_step = true;
}

Report make_report(const ReportInputs& inputs, JobView view) {
    // In this order: the heat map fills in JobView::slowness_ms.
    HeatMap heat = build_heat({inputs.job, inputs.table, inputs.rows}, view, inputs.max_bytes);
    const PageParts parts{inputs,
                          view,
                          std::move(heat),
                          find_breakdown(view, inputs.verdict->ledger),
                          find_timeline(*inputs.job, inputs.table, view, inputs.timeline),
                          find_memory(*inputs.job, view)};
    const tool::Document document = tool::summary_document(*inputs.job, *inputs.summary, inputs.verdict, {});
    return assemble(parts, head(document.headline.empty() ? "cep report" : document.headline), body(parts, document));
}

}  // namespace cep::report
