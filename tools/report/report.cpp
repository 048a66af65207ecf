// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/failure.hpp"
#include "base/units.hpp"
#include "report/bytes.hpp"
#include "report/data.hpp"
#include "report/fit.hpp"
#include "report/script.hpp"
#include "report/sections.hpp"
#include "report/style.hpp"
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

std::string head(const std::string& title, std::string_view script) {
    std::string policy = "default-src 'none'; style-src 'sha256-" + sha256_base64(page_style()) + "'; img-src data:";
    if (!script.empty()) policy += "; script-src 'sha256-" + sha256_base64(script) + "'";
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta name=\"generator\" content=\"cep report\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
        policy, html_text(title), page_style());
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

std::vector<Section> make_sections(const ReportInputs& inputs, const JobView& view, const HeatMap& heat,
                                   const Breakdown& breakdown, const Timeline& timeline) {
    std::vector<Section> sections;
    if (inputs.comparison != nullptr) sections.push_back(compare_section(*inputs.comparison));
    sections.push_back(heat_section(view, heat));
    sections.push_back(waits_section(view, heat));
    sections.push_back(breakdown_section(view, breakdown));
    sections.push_back(bands_section(view, heat, *inputs.job, *inputs.verdict));
    sections.push_back(what_if_section(*inputs.verdict));
    sections.push_back(timeline_section(view, timeline));
    sections.push_back(comm_section(inputs.comm, inputs.why_no_comm));
    sections.push_back(memory_section(view, *inputs.job, *inputs.summary));
    return sections;
}

/// All but the data and the script. `document` is that of cep summarize.
std::string body(const ReportInputs& inputs, const JobView& view, const tool::Document& document,
                 const std::vector<Section>& sections) {
    std::string html = std::string(patterns) + "<header>\n<h1>CUDA Event Profiler: report of a training job</h1>\n<p>" +
                       html_text(describe_job(inputs, view)) + "</p>\n" + describe_damage(*inputs.job) +
                       "</header>\n<main>\n<section id=\"verdict\">\n" + tool::html_findings(document) +
                       "</section>\n" + navigation(sections);
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

/// The page from its parts, with as much of the heat map as there is room for.
class Assembler {
  public:
    Assembler(std::string head, std::string body, std::size_t max_bytes)
        : head_(std::move(head)), body_(std::move(body)), max_bytes_(max_bytes) {}

    Report assemble(const DataParts& parts, const HeatMap& heat, std::string_view script) const {
        Report report;
        const std::size_t fixed = head_.size() + body_.size() + script.size() + room_of_footer;
        const std::size_t others = write_data(parts, {}).size() + room_of_grids(*parts.view, heat);
        const std::size_t room = max_bytes_ > fixed + others ? max_bytes_ - fixed - others : 0;
        const FittedHeat fitted = fit_heat(heat, *parts.view, room);
        report.left_out = fitted.left_out;
        if (parts.view->left_out_phases > 0)
            report.left_out.push_back(fmt::format("{} with less time have no pictures",
                                                  tool::format_plural(parts.view->left_out_phases, "phase")));
        if (const tool::JobTable* table = parts.inputs->table;
            table != nullptr && table->steps.size() < table->all_steps)
            report.left_out.push_back(fmt::format("own work and waiting: of {} of {} steps, chosen at random",
                                                  tool::format_count(table->steps.size()),
                                                  tool::format_count(table->all_steps)));
        std::string data;
        if (fixed + others <= max_bytes_) data = write_data(parts, fitted);
        if (data.empty()) report.left_out = {"the data for pictures that can be explored is left out"};
        report.has_script = !script.empty() && !data.empty();
        report.html = head_ + body_ + footer(report.left_out, !script.empty());
        if (!data.empty()) report.html += "<script type=\"application/json\" id=\"cep-data\">" + data + "</script>\n";
        if (report.has_script) report.html += "<script>" + std::string(script) + "</script>\n";
        report.html += "</body>\n</html>\n";
        if (report.html.size() > max_bytes_)
            throw tool::UsageError(fmt::format("--max-bytes: the page needs {} bytes, even without its data",
                                               tool::format_count(report.html.size())));
        return report;
    }

  private:
    static constexpr std::size_t room_of_footer = 2048;

    /// Of the bins of ranks and steps, each written twice.
    static std::size_t room_of_grids(const JobView& view, const HeatMap& heat) {
        constexpr std::size_t a_number = 22;
        const std::size_t ranks = std::max(heat.rank_bins.size() + heat.chosen.size(), view.ranks.size());
        return 2 * a_number * (ranks + view.steps.size() + heat.band_steps.size());
    }

    const std::string head_;
    const std::string body_;
    const std::size_t max_bytes_;
};

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
    const HeatMap heat = build_heat({inputs.job, inputs.table, inputs.rows}, view, inputs.max_bytes);
    const Breakdown breakdown = find_breakdown(view, inputs.table, inputs.why_no_table);
    const Timeline timeline = find_timeline(*inputs.job, inputs.table, view, inputs.timeline);
    const tool::Document document = tool::summary_document(*inputs.job, *inputs.summary, inputs.verdict, {});
    const std::vector<Section> sections = make_sections(inputs, view, heat, breakdown, timeline);
    const std::string_view script = tool::report_script();
    const std::string title = document.headline.empty() ? "cep report" : document.headline;
    const Assembler assembler(head(title, script), body(inputs, view, document, sections), inputs.max_bytes);
    return assembler.assemble({&inputs, &view, &heat, &breakdown, &timeline}, heat, script);
}

}  // namespace cep::report
