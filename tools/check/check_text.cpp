// SPDX-License-Identifier: Apache-2.0
#include "check/check_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "show/json_writer.hpp"
#include "show/plain_table.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t max_damages_shown = 5;  // a file

std::string describe_steps(const FileVerdict& file) {
    if (!file.first_step) return "-";
    std::string text = *file.first_step == *file.last_step
                           ? format_integer(*file.first_step)
                           : fmt::format("{} to {}", format_integer(*file.first_step), format_integer(*file.last_step));
    if (file.stride && *file.stride > 1) text += fmt::format(" every {}", format_integer(*file.stride));
    return text;
}

std::string describe_types(const std::array<std::uint64_t, row_types>& counts) {
    std::string text;
    for (std::size_t i = 0; i < row_types; ++i) {
        if (counts[i] == 0) continue;
        std::string noun(row_type_names[i]);
        // What counts as something by itself goes by its name: a run may say itself anew in several rows.
        const bool is_measurement = noun == "span" || noun == "counter" || noun == "mark";
        if (!is_measurement) noun += " row";
        if (!text.empty()) text += ", ";
        text += format_plural(counts[i], noun);
    }
    return text.empty() ? "-" : text;
}

std::string describe_findings(const FileVerdict& file) {
    std::string text;
    for (const Finding& finding : file.findings) {
        if (!text.empty()) text += "; ";
        text += printable(finding.message);
        if (finding.line > 0) text += fmt::format(" (line {})", finding.line);
    }
    return text;
}

std::string_view color_of(Severity severity) {
    if (severity == Severity::damaged) return "\033[31m";
    return severity == Severity::incomplete ? "\033[33m" : "";
}

std::string damages_text(const FileVerdict& file) {
    std::string text;
    const FileReport& report = file.report;
    const std::size_t shown = std::min(report.damages.size(), max_damages_shown);
    for (std::size_t i = 0; i < shown; ++i)
        text += fmt::format("  {}:{}: {}\n", printable(report.path), report.damages[i].line, report.damages[i].why);
    if (report.damage_count > shown)
        text += fmt::format("  … and {} more\n", format_count(report.damage_count - shown));
    return text;
}

std::array<std::uint64_t, row_types> total_types(const CheckResult& result) {
    std::array<std::uint64_t, row_types> totals{};
    for (const FileVerdict& file : result.files)
        for (std::size_t i = 0; i < row_types; ++i) totals[i] += file.report.rows_by_type[i];
    return totals;
}

std::string describe_total(const CheckResult& result) {
    const Coverage& coverage = result.coverage;
    const std::string ranks = coverage.missing_ranks.empty()
                                  ? format_plural(coverage.ranks_seen, "rank")
                                  : fmt::format("{} of {} ranks", format_count(coverage.ranks_seen),
                                                format_count(coverage.ranks_expected.value_or(0)));
    return fmt::format("{}, {}, {}: {}\n", format_plural(result.files.size(), "file"), ranks,
                       format_plural(result.inputs.rows, "row"), describe_types(total_types(result)));
}

std::string verdict_text(const CheckResult& result, bool colors) {
    constexpr std::string_view verdicts[] = {"complete", "complete, with notes", "incomplete", "damaged"};
    const std::string_view color = colors ? color_of(result.severity) : "";
    return fmt::format("verdict: {}{}{}\n", color, verdicts[static_cast<std::size_t>(result.severity)],
                       color.empty() ? "" : "\033[0m");
}

void write_finding(JsonWriter& json, const Finding& finding) {
    json.begin_object();
    json.key("severity").string(severity_names[static_cast<std::size_t>(finding.severity)]);
    json.key("code").string(finding.code);
    json.key("message").string(finding.message);
    json.key("line");
    if (finding.line > 0) {
        json.count(finding.line);
    } else {
        json.null();
    }
    json.end_object();
}

void write_findings(JsonWriter& json, const std::vector<Finding>& findings) {
    json.key("findings").begin_array();
    for (const Finding& finding : findings) write_finding(json, finding);
    json.end_array();
}

void write_report(JsonWriter& json, const FileReport& report) {
    json.key("bytes").count(report.bytes);
    json.key("rows").count(report.rows);
    json.key("rows_by_type").begin_object();
    for (std::size_t i = 0; i < row_types; ++i) json.key(row_type_names[i]).count(report.rows_by_type[i]);
    json.end_object();
    json.key("skipped_rows").count(report.skipped_rows);
    json.key("cut_off").boolean(report.cut_off);
    json.key("damages").begin_array();
    for (const Damage& damage : report.damages) {
        json.begin_object();
        json.key("line").count(damage.line);
        json.key("why").string(damage.why);
        json.end_object();
    }
    json.end_array();
}

void write_attempts(JsonWriter& json, const FileVerdict& file) {
    json.key("attempts").begin_array();
    for (const AttemptCheck& attempt : file.attempts) {
        json.begin_object();
        json.key("run_id").string(attempt.run_id);
        json.key("attempt").integer(attempt.attempt);
        json.key("steps").count(attempt.steps);
        json.key("first_step").integer_or_null(attempt.first_step);
        json.key("repeated_steps").count(attempt.repeated_steps);
        json.end_object();
    }
    json.end_array();
}

void write_file(JsonWriter& json, const FileVerdict& file) {
    json.begin_object();
    json.key("path").string(file.report.path);
    json.key("severity").string(severity_names[static_cast<std::size_t>(file.severity)]);
    write_report(json, file.report);
    json.key("ranks").integers(file.ranks);
    json.key("first_step").integer_or_null(file.first_step);
    json.key("last_step").integer_or_null(file.last_step);
    json.key("steps").count(file.steps);
    json.key("stride").integer_or_null(file.stride);
    json.key("missing_steps").integers(file.missing_steps.listed);
    json.key("missing_steps_count").count(file.missing_steps.count);
    write_attempts(json, file);
    write_findings(json, file.findings);
    json.end_object();
}

}  // namespace

std::string check_text(const CheckResult& result, bool colors) {
    PlainTable table;
    for (const char* heading : {"file", "verdict"}) table.add_column(heading, Align::left);
    table.add_column("rows", Align::right);
    for (const char* heading : {"steps", "of which", "found"}) table.add_column(heading, Align::left);
    for (const FileVerdict& file : result.files)
        table.add_row({printable(file.report.path),
                       std::string(severity_names[static_cast<std::size_t>(file.severity)]),
                       format_count(file.report.rows), describe_steps(file), describe_types(file.report.rows_by_type),
                       describe_findings(file)});
    std::string text = result.files.empty() ? "" : table.text(colors ? "\033[1m" : "", colors ? "\033[0m" : "") + "\n";
    for (const FileVerdict& file : result.files) text += damages_text(file);
    text += describe_total(result);
    for (const Finding& finding : result.findings)
        text += fmt::format("{}: {}\n", severity_names[static_cast<std::size_t>(finding.severity)],
                            printable(finding.message));
    return text + verdict_text(result, colors);
}

std::string check_json(const CheckResult& result) {
    JsonWriter json;
    json.begin_object();
    json.key("schema").string("cep.check/1");
    json.key("severity").string(severity_names[static_cast<std::size_t>(result.severity)]);
    json.key("complete").boolean(result.severity <= Severity::note);
    json.key("ranks_seen").count(result.coverage.ranks_seen);
    json.key("missing_ranks").integers(result.coverage.missing_ranks);
    write_findings(json, result.findings);
    json.key("files").begin_array();
    for (const FileVerdict& file : result.files) write_file(json, file);
    json.end_array();
    json.end_object();
    return json.finish();
}

}  // namespace cep::tool
