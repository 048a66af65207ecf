// SPDX-License-Identifier: Apache-2.0
#include "check/job_check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/units.hpp"
#include "show/fields.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t max_damages_of_file = 5;  // for people; JSON has FileReport::max_damages
constexpr std::size_t max_advice = 3;
constexpr std::size_t max_fine_files = 8;  // that people see one by one

/// What to do about a finding.
struct ProblemAdvice {
    std::string_view code;
    std::string_view about;
    std::string_view text;
    std::string_view cause{};  // of a loss, in the words of Loss::describe()
};
constexpr ProblemAdvice problem_advices[] = {
    {"interleaved", "rows of several writers", "give each job, and each rank of it, a file of its own"},
    {"other_rank", "rows of another rank", "check that each rank was given its own number"},
    {"rows_skipped", "skipped rows", "the other commands leave these rows out; look at the places below"},
    {"no_rank_file", "other files", "leave these files out of the inputs"},
    {"repeated_rows", "repeated rows",
     "these rows count twice in every figure: was a file appended to itself, or copied twice into one?"},
    {"unreadable", "unreadable inputs", "check the path, the permissions of the files, and the disk"},
    {"missing_ranks", "missing ranks", "find these ranks' files, or why they wrote none"},
    {"empty", "empty files", "these ranks had recorded nothing yet, or wrote to another file"},
    {"cut_off", "files cut off", "the job still runs, or ended without closing the profiler; all whole rows count"},
    {"too_compressed", "files not read to their end", "decompress them first: what is read grows over 100 times"},
    {"clocks_apart", "clocks apart", "synchronise the clocks of the hosts (NTP, PTP)"},
    {"clock_back", "clocks set back", "let NTP or PTP slew the clock instead of stepping it"},
    {"no_run_row", "no run row", "keep the first row of each rank file"},
    {"loss", "lost rows, ring full", "a larger ring_capacity, or fewer recorded steps", "ring full"},
    {"loss", "lost rows, no event", "a larger pool_limit", "no event"},
    {"loss", "lost rows, too many open", "end each region that begins", "too many open"},
    {"loss", "lost rows, file limit", "a larger max_file_bytes", "file limit"},
    {"loss", "lost rows, write error", "room on the disk, and its health", "write error"},
};

/// The worst of the findings that the advice is on.
Severity severity_of(const CheckResult& result, const ProblemAdvice& advice) {
    Severity worst = Severity::fine;
    const auto look_at = [&](const std::vector<Remark>& findings) {
        for (const Remark& finding : findings)
            if (finding.code == advice.code && finding.message.find(advice.cause) != std::string::npos)
                worst = std::max(worst, finding.severity);
    };
    look_at(result.findings);
    for (const FileVerdict& file : result.files) look_at(file.findings);
    return worst;
}

// For the worst findings only.
std::vector<std::string> advise(const CheckResult& result) {
    std::vector<std::string> lines;
    for (const ProblemAdvice& advice : problem_advices)
        if (result.severity > Severity::fine && severity_of(result, advice) == result.severity &&
            lines.size() < max_advice)
            lines.push_back(fmt::format("{}: {}", advice.about, advice.text));
    return lines;
}

std::string describe_file_steps(const FileVerdict& file) {
    if (!file.first_step) return "-";
    std::string text = format_from_to(*file.first_step, *file.last_step);
    if (file.stride && *file.stride > 1) text += fmt::format(" every {}", format_integer(*file.stride));
    return text;
}

std::string describe_types(const std::array<std::uint64_t, row_types>& counts) {
    std::string text;
    for (std::size_t i = 0; i < row_types; ++i) {
        if (counts[i] == 0) continue;
        std::string noun(row_type_names[i]);
        // A run may have several run rows: what is counted are rows. A span, a counter or a mark is one row.
        const bool is_measurement = noun == "span" || noun == "counter" || noun == "mark";
        if (!is_measurement) noun += " row";
        if (!text.empty()) text += ", ";
        text += format_plural(counts[i], noun);
    }
    return text.empty() ? "-" : text;
}

std::string describe_findings(const std::vector<Remark>& findings) {
    std::string text;
    for (const Remark& finding : findings) {
        if (!text.empty()) text += "; ";
        text += finding.message;
        if (finding.line > 0) text += fmt::format(" (line {})", finding.line);
    }
    return text;
}

/// Many files as one, as far as people see it in the table of files: with their stride if it is the same in each.
FileVerdict join(const std::vector<const FileVerdict*>& files) {
    FileVerdict all;
    all.report.path = format_plural(files.size(), "file");
    for (const FileVerdict* file : files) {
        all.severity = std::max(all.severity, file->severity);
        all.report.rows += file->report.rows;
        for (std::size_t i = 0; i < row_types; ++i) all.report.rows_by_type[i] += file->report.rows_by_type[i];
        if (!file->first_step) continue;
        all.stride = !all.first_step || all.stride == file->stride ? file->stride : std::nullopt;
        all.first_step = std::min(all.first_step.value_or(*file->first_step), *file->first_step);
        all.last_step = std::max(all.last_step.value_or(*file->last_step), *file->last_step);
    }
    return all;
}

/// The directory that all files are in, with its slash; "" if there is none.
std::string_view find_common_directory(const std::vector<FileVerdict>& files) {
    const auto directory_of = [](const FileVerdict& file) {
        const std::string_view path = file.report.path;
        return path.substr(0, path.rfind('/') + 1);
    };
    if (files.empty()) return {};
    const std::string_view directory = directory_of(files.front());
    const bool is_common = std::all_of(files.begin(), files.end(),
                                       [&](const FileVerdict& file) { return directory_of(file) == directory; });
    return is_common ? directory : std::string_view();
}

JsonWriter& write_findings(JsonWriter& json, const std::vector<Remark>& findings) {
    return json.objects(findings, [&json](const Remark& finding) {
        json.members("severity", severity_name(finding.severity), "code", finding.code, "message", finding.message,
                     "line", finding.line > 0 ? std::optional(finding.line) : std::nullopt);
    });
}

void write_types(JsonWriter& json, const FileVerdict& file) {
    json.begin_object();
    for (std::size_t i = 0; i < row_types; ++i) json.members(row_type_names[i], file.report.rows_by_type[i]);
    json.end_object();
}

void write_damages(JsonWriter& json, const FileVerdict& file) {
    json.objects(file.report.damages,
                 [&json](const Damage& damage) { json.members("line", damage.line, "why", damage.why); });
}

void write_attempts(JsonWriter& json, const FileVerdict& file) {
    json.objects(file.attempts, [&json](const AttemptCheck& attempt) {
        json.members("run_id", attempt.run_id, "attempt", attempt.attempt, "steps", attempt.steps, "first_step",
                     attempt.first_step, "repeated_steps", attempt.repeated_steps);
    });
}

/// `shown_from`: where in the path people begin to read.
Fields<FileVerdict> file_fields(std::size_t shown_from) {
    using V = FileVerdict;
    using F = Field<V>;
    const auto of_report = [](auto member) { return [member](const V& file) { return file.report.*member; }; };
    const auto severity = [](const V& file) { return severity_name(file.severity); };
    const auto types = [](const V& file) { return describe_types(file.report.rows_by_type); };
    const auto ranks = [](const V& file) { return file.ranks.size(); };
    const auto missing = [](const V& file) { return file.missing_steps.count; };
    const auto findings = [](const V& file) { return describe_findings(file.findings); };
    const auto path = [=](const V& file) { return describe_value(file.report.path.substr(shown_from)); };
    return {
        {"path", "file", "path of the file", of_report(&FileReport::path), path},
        {"severity", "verdict", "fine, note, incomplete or damaged", severity},
        {"bytes", "", "size, decompressed", of_report(&FileReport::bytes)},
        {"rows", "rows", "valid rows", of_report(&FileReport::rows)},
        F("rows_by_type", "rows by type", "rows of each type", types, types).in_json(write_types),
        {"skipped_rows", "", "rows that are not valid", of_report(&FileReport::skipped_rows)},
        {"cut_off", "", "whether the end of the file is missing", of_report(&FileReport::cut_off)},
        {"damages", write_damages},
        F("ranks", "", "ranks in the file", ranks).in_json([](auto& json, const V& file) { json.value(file.ranks); }),
        F("first_step", "steps", "first step", &V::first_step, describe_file_steps).left(),
        {"last_step", "", "last step", &V::last_step},
        {"steps", "", "steps in the file", &V::steps},
        {"stride", "", "configured or usual difference of neighbouring steps", &V::stride},
        F("missing_steps", "", "steps that the stride says are missing", missing)
            .in_json([](auto& json, const V& file) { json.value(file.missing_steps.listed); }),
        {"missing_steps_count", "", "steps that the stride says are missing", missing},
        {"attempts", write_attempts},
        F("findings", "found", "what was found", findings, findings).in_json([](auto& json, const V& file) {
            write_findings(json, file.findings);
        })};
}

Fields<FileVerdict> file_columns(std::size_t shown_from) {
    return choose(file_fields(shown_from),
                  "path severity bytes rows:1 skipped_rows ranks steps first_step last_step stride missing_steps "
                  "+rows_by_type:2 findings");
}

Table file_table(const CheckResult& result) {
    const Fields<FileVerdict> fields = file_columns(find_common_directory(result.files).size());
    Table table(columns_of(fields), "Files");
    table.set_rest("file", "with less to say");
    std::vector<const FileVerdict*> fine;
    for (const FileVerdict& file : result.files)
        if (file.severity == Severity::fine) fine.push_back(&file);
    const bool fine_are_joined = fine.size() > max_fine_files;
    for (const FileVerdict& file : result.files)
        table.add({cells_of(fields, file), !fine_are_joined || file.severity != Severity::fine});
    std::vector<std::size_t> order(result.files.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&result](std::size_t a, std::size_t b) {
        return result.files[a].severity > result.files[b].severity;
    });
    if (fine_are_joined) {
        table.add({cells_of(file_columns(0), join(fine)), true, false});
        order.push_back(result.files.size());
    }
    table.set_order(std::move(order));
    return table;
}

Table damage_table(const CheckResult& result) {
    std::vector<std::string> lines;
    for (const FileVerdict& file : result.files) {
        const FileReport& report = file.report;
        const std::size_t shown = std::min(report.damages.size(), max_damages_of_file);
        for (std::size_t i = 0; i < shown; ++i)
            lines.push_back(fmt::format("{}:{}: {}", report.path, report.damages[i].line, report.damages[i].why));
        if (report.damage_count > shown)
            lines.push_back(fmt::format("{}: {} more", report.path, format_count(report.damage_count - shown)));
    }
    Table table = table_of<std::string>(
        {{"", "damaged rows", "file and line", [](const std::string& line) { return line; }}}, lines, "Damage");
    table.set_rest("place");
    return table;
}

std::vector<Fact> make_facts(const CheckResult& result) {
    std::array<std::uint64_t, row_types> totals{};
    for (const FileVerdict& file : result.files)
        for (std::size_t i = 0; i < row_types; ++i) totals[i] += file.report.rows_by_type[i];
    const std::string directory(find_common_directory(result.files));
    return {{"input", fmt::format("{}{}, {}, {}: {}", format_plural(result.files.size(), "file"),
                                  directory.size() <= 1 ? "" : " in " + directory.substr(0, directory.size() - 1),
                                  describe_ranks(result.coverage), format_plural(result.inputs.rows, "row"),
                                  describe_types(totals))}};
}

/// "2 of 8 files are damaged, 1 is incomplete".
std::string describe_files(const CheckResult& result) {
    std::array<std::uint64_t, severity_names.size()> counts{};
    for (const FileVerdict& file : result.files) ++counts[static_cast<std::size_t>(file.severity)];
    std::string text;
    const auto add = [&](Severity severity, std::string_view singular, std::string_view plural) {
        const std::uint64_t count = counts[static_cast<std::size_t>(severity)];
        if (count == 0) return;
        const std::string of_all = fmt::format(" of {}", format_plural(result.files.size(), "file"));
        text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", format_count(count), text.empty() ? of_all : "",
                            count == 1 ? singular : plural);
    };
    add(Severity::damaged, "is damaged", "are damaged");
    add(Severity::incomplete, "is incomplete", "are incomplete");
    if (text.empty()) add(Severity::note, "has notes", "have notes");
    return text;
}

/// The finding about the job that the headline names; nullptr where a file has a worse one.
const Remark* main_finding(const CheckResult& result) {
    const auto found = std::find_if(result.findings.begin(), result.findings.end(),
                                    [&](const Remark& finding) { return finding.severity == result.severity; });
    return found == result.findings.end() ? nullptr : &*found;
}

std::string make_headline(const CheckResult& result) {
    if (result.files.empty()) return "Nothing to read: no input is a file that can be read.";
    if (result.inputs.rows == 0)
        return fmt::format("Nothing to read: {} without a valid row.", format_plural(result.files.size(), "file"));
    constexpr std::string_view verdicts[] = {"Complete", "Complete, with notes", "Incomplete", "Damaged"};
    const std::string_view verdict = verdicts[static_cast<std::size_t>(result.severity)];
    std::string text = describe_files(result);
    const Remark* const main = main_finding(result);
    if (main != nullptr) text += (text.empty() ? "" : "; ") + main->message;
    if (text.empty())
        text = fmt::format("{} of {}, nothing wrong", format_plural(result.files.size(), "file"),
                           describe_ranks(result.coverage));
    return fmt::format("{}: {}.", verdict, text);
}

Tone tone_of(const CheckResult& result) {
    if (result.severity == Severity::damaged || result.inputs.rows == 0) return Tone::bad;
    return result.severity == Severity::incomplete ? Tone::warning : Tone::neutral;
}

void write_result(JsonWriter& json, const CheckResult& result) {
    json.members("schema", "cep.check/1", "severity", severity_name(result.severity), "complete",
                 result.severity <= Severity::note);
    json.object("inputs", [&] { write_inputs(json, result.inputs, result.coverage); });
    json.members("ranks_seen", result.coverage.ranks_seen, "missing_ranks", result.coverage.missing_ranks);
    write_findings(json.key("findings"), result.findings);
    write_records(json, "files", file_fields(0), result.files);
}

}  // namespace

Document make_document(CheckResult made) {
    const auto result = std::make_shared<const CheckResult>(std::move(made));
    Document document;
    document.title = "Check";
    document.scope = describe_other_runs(result->inputs);
    document.headline = make_headline(*result);
    document.tone = tone_of(*result);
    const bool is_in_headline = result->inputs.rows > 0;
    for (const Remark& finding : result->findings)
        if (!is_in_headline || &finding != main_finding(*result))
            document.evidence.push_back(fmt::format("{}: {}", severity_name(finding.severity), finding.message));
    document.next = advise(*result);
    document.facts = make_facts(*result);
    document.tables = {file_table(*result), damage_table(*result)};
    document.write_json = [result](JsonWriter& json) { write_result(json, *result); };
    return document;
}

}  // namespace cep::tool
