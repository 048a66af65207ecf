// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "show/plain_table.hpp"

namespace cep::comm {
namespace {

using tool::Align;
using tool::DurationFormat;
using tool::format_count;
using tool::format_plural;
using tool::PlainTable;
using tool::printable;

constexpr std::size_t max_refusals_told = 3;

std::string or_dash(std::string_view text) {
    return text.empty() ? "-" : printable(text);
}

std::string percent(const std::optional<double>& fraction) {
    return fraction ? fmt::format("{:.1f} %", 100 * *fraction) : "-";
}

// Three significant digits.
std::string gigabytes_per_s(const std::optional<double>& value) {
    if (!value) return "-";
    return fmt::format("{:.{}f} GB/s", *value, *value >= 99.5 ? 0 : (*value >= 9.95 ? 1 : (*value >= 0.995 ? 2 : 4)));
}

std::string describe_bytes(std::int64_t bytes) {
    return tool::format_bytes(static_cast<double>(bytes));
}

std::string describe_alpha(const CommModel& model) {
    return model.fit ? fmt::format("{:.1f} µs", model.fit->alpha_us) : "-";
}

std::string describe_half(const CommModel& model) {
    if (!model.fit || !model.fit->half_bytes()) return "-";
    return tool::format_bytes(*model.fit->half_bytes());
}

PlainTable make_table(const std::vector<const char*>& left, const std::vector<const char*>& right) {
    PlainTable table;
    for (const char* heading : left) table.add_column(heading, Align::left);
    for (const char* heading : right) table.add_column(heading, Align::right);
    return table;
}

PlainTable model_table(const CommReport& report, std::size_t limit) {
    std::vector<const char*> right = {"groups", "ranks", "collectives", "waiting", "sizes",  "α",
                                      "β",      "R²",    "error",       "worst",   "half β", "bus β"};
    if (report.options.link_gb_per_s) right.push_back("of the link");
    PlainTable table = make_table({"operation", "group"}, right);
    for (std::size_t i = 0; i < report.models.size() && (limit == 0 || i < limit); ++i) {
        const CommModel& model = report.models[i];
        const TransferFit* fit = model.fit ? &*model.fit : nullptr;
        std::vector<std::string> cells = {printable(model.name),
                                          or_dash(model.group),
                                          format_count(model.groups),
                                          format_count(model.ranks),
                                          format_count(model.collectives * model.one_in),
                                          percent(model.wait_fraction),
                                          format_count(model.sizes.size()),
                                          describe_alpha(model),
                                          fit != nullptr ? gigabytes_per_s(fit->beta_gb_per_s) : "-",
                                          fit != nullptr ? fmt::format("{:.4f}", fit->r_squared) : "-",
                                          fit != nullptr ? percent(fit->mean_relative_error) : "-",
                                          fit != nullptr ? percent(fit->max_relative_error) : "-",
                                          describe_half(model),
                                          gigabytes_per_s(model.bus_gb_per_s)};
        if (report.options.link_gb_per_s) cells.push_back(percent(model.link_efficiency));
        table.add_row(std::move(cells));
    }
    return table;
}

/// Lines that a table would have, and how many of them are shown.
struct Shown {
    std::size_t lines = 0;
    std::size_t all = 0;
};

std::string describe_hidden(const Shown& shown) {
    if (shown.lines == shown.all) return "";
    return fmt::format("… {} not shown; --limit 0 shows all\n", format_plural(shown.all - shown.lines, "line"));
}

PlainTable size_table(const CommReport& report, std::size_t limit, Shown& shown) {
    std::vector<const char*> right = {"ranks", "bytes",     "collectives",  "transfer",
                                      "wait",  "bandwidth", "bus bandwidth"};
    if (report.options.link_gb_per_s) right.push_back("of the link");
    PlainTable table = make_table({"operation", "group"}, right);
    for (const CommModel& model : report.models)
        for (const SizeReport& size : model.sizes) {
            ++shown.all;
            if (limit > 0 && shown.lines == limit) continue;
            ++shown.lines;
            const DurationFormat duration(size.point.transfer_ms, std::max(size.point.transfer_ms, size.wait_ms));
            std::vector<std::string> cells = {printable(model.name),
                                              or_dash(model.group),
                                              format_count(model.ranks),
                                              describe_bytes(size.point.bytes),
                                              format_count(size.point.collectives * model.one_in),
                                              duration(size.point.transfer_ms),
                                              duration(size.wait_ms),
                                              gigabytes_per_s(size.algorithm_gb_per_s),
                                              gigabytes_per_s(size.bus_gb_per_s)};
            if (report.options.link_gb_per_s) cells.push_back(percent(size.link_efficiency));
            table.add_row(std::move(cells));
        }
    return table;
}

PlainTable prediction_table(const CommReport& report, std::size_t limit, Shown& shown) {
    PlainTable table = make_table({"operation", "group"}, {"measured with", "ranks", "bytes", "ring", "tree", "note"});
    for (const CommModel& model : report.models)
        for (const Prediction& one : model.predictions) {
            ++shown.all;
            if (limit > 0 && shown.lines == limit) continue;
            ++shown.lines;
            const auto time = [](const std::optional<double>& time_ms) {
                return time_ms ? tool::format_duration_ms(*time_ms) : std::string("-");
            };
            table.add_row({printable(model.name), or_dash(model.group), format_count(model.ranks),
                           format_count(one.world), describe_bytes(one.bytes), time(one.ring_ms), time(one.tree_ms),
                           one.beyond_sizes ? "beyond the measured sizes" : ""});
        }
    return table;
}

std::vector<std::string> notes(const CommReport& report) {
    std::vector<std::string> lines;
    std::size_t refusals = 0;
    for (const CommModel& model : report.models) {
        if (model.refused.empty() || refusals++ >= max_refusals_told) continue;
        lines.push_back(fmt::format("no fit for {} of {}: {}", printable(model.name),
                                    model.group.empty() ? "unnamed groups" : printable(model.group), model.refused));
    }
    if (refusals > max_refusals_told)
        lines.push_back(fmt::format("no fit for {}", format_plural(refusals - max_refusals_told, "other line")));
    std::uint64_t one_in = 1;
    for (const CommModel& model : report.models) one_in = std::max(one_in, model.one_in);
    if (one_in > 1)
        lines.push_back(fmt::format("of some operations one of {} collectives was looked at, chosen by chance",
                                    format_count(one_in)));
    if (!report.coverage.missing_ranks.empty())
        lines.push_back("with ranks missing, some waits are counted as transfer");
    lines.push_back(
        "transfer: the shortest of a collective's spans, as the last rank waits for nobody; waiting: the rest of them");
    return lines;
}

/// The tables, each behind an empty line.
template <typename Format>
std::string format_tables(const CommReport& report, std::size_t limit, const Format& format) {
    std::string text;
    const Shown models{limit == 0 ? report.models.size() : std::min(limit, report.models.size()), report.models.size()};
    text += "\n" + format(model_table(report, limit)) + describe_hidden(models);
    Shown sizes;
    const PlainTable of_sizes = size_table(report, limit, sizes);
    if (sizes.all > 0) text += "\n" + format(of_sizes) + describe_hidden(sizes);
    Shown predictions;
    const PlainTable of_predictions = prediction_table(report, limit, predictions);
    if (predictions.all > 0) text += "\n" + format(of_predictions) + describe_hidden(predictions);
    return text;
}

std::string describe_fit(const CommModel& model, const CommOptions& options) {
    const TransferFit& fit = *model.fit;
    const std::string what = fmt::format("{} over {}{}", printable(model.name), format_plural(model.ranks, "rank"),
                                         model.group.empty() ? "" : " (" + printable(model.group) + ")");
    if (!fit.beta_gb_per_s)
        return fmt::format("{} takes {:.0f} µs whatever its size: no bandwidth can be told.", what, fit.alpha_us);
    std::string bus;
    if (model.bus_gb_per_s) bus = fmt::format(" ({} on the bus", gigabytes_per_s(model.bus_gb_per_s));
    if (model.link_efficiency)
        bus += fmt::format(", {:.0f} % of the link's {}", 100 * *model.link_efficiency,
                           gigabytes_per_s(options.link_gb_per_s));
    if (!bus.empty()) bus += ")";
    return fmt::format(
        "{} takes {:.1f} µs and its bytes at {}{}; that is {:.1f} % off on average and {:.1f} % at most.", what,
        fit.alpha_us, gigabytes_per_s(fit.beta_gb_per_s), bus, 100 * fit.mean_relative_error,
        100 * fit.max_relative_error);
}

std::string number(double value) {
    return fmt::format("{}", value);
}

std::string optional_number(const std::optional<double>& value) {
    return value ? number(*value) : "";
}

std::vector<std::string> csv_cells(const CommModel& model, const SizeReport* size) {
    std::vector<std::string> cells = {std::string(operation_name(model.operation)),
                                      model.name,
                                      model.group,
                                      fmt::format("{}", model.groups),
                                      fmt::format("{}", model.ranks),
                                      fmt::format("{}", model.spans),
                                      fmt::format("{}", model.collectives),
                                      optional_number(model.wait_fraction),
                                      model.fit ? number(model.fit->alpha_us) : "",
                                      model.fit ? optional_number(model.fit->beta_gb_per_s) : "",
                                      model.fit ? number(model.fit->r_squared) : "",
                                      model.fit ? number(model.fit->mean_relative_error) : "",
                                      model.fit ? number(model.fit->max_relative_error) : ""};
    if (size == nullptr) {
        cells.resize(cells.size() + 7);
        return cells;
    }
    cells.push_back(fmt::format("{}", size->point.bytes));
    cells.push_back(fmt::format("{}", size->point.collectives));
    cells.push_back(number(size->point.transfer_ms));
    cells.push_back(number(size->wait_ms));
    cells.push_back(number(size->algorithm_gb_per_s));
    cells.push_back(optional_number(size->bus_gb_per_s));
    cells.push_back(optional_number(size->link_efficiency));
    return cells;
}

}  // namespace

std::string describe_report(const CommReport& report) {
    if (report.models.empty()) return "There is no communication in these rows.";
    std::string text;
    if (report.wait_fraction)
        text = fmt::format("{:.0f} % of the time in collectives was waiting for other ranks. ",
                           100 * *report.wait_fraction);
    for (const CommModel& model : report.models)
        if (model.fit) return text + describe_fit(model, report.options);
    if (report.any_bytes()) return text + "No operation has what a latency and a bandwidth can be told from.";
    return text +
           "No span of a collective says how many bytes it moved, so that latency and bandwidth cannot be told: give "
           "\"bytes\" where the span begins.";
}

std::string report_text(const CommReport& report, std::size_t limit, bool colors) {
    std::string text = report.headline + "\n";
    if (report.models.empty()) return text;
    text += format_tables(report, limit, [colors](const PlainTable& table) {
        return table.text(colors ? "\033[1m" : "", colors ? "\033[0m" : "");
    });
    text += "\n";
    for (const std::string& note : notes(report)) text += note + "\n";
    return text;
}

std::string report_markdown(const CommReport& report, std::size_t limit) {
    std::string text = report.headline + "\n";
    if (report.models.empty()) return text;
    text += format_tables(report, limit, [](const PlainTable& table) { return table.markdown(); });
    text += "\n";
    for (const std::string& note : notes(report)) text += "- " + note + "\n";
    return text;
}

std::string report_csv(const CommReport& report) {
    PlainTable table;
    for (const char* heading : {"operation",
                                "name",
                                "group",
                                "groups",
                                "ranks",
                                "spans",
                                "collectives",
                                "wait_fraction",
                                "alpha_us",
                                "beta_gb_per_s",
                                "r_squared",
                                "mean_relative_error",
                                "max_relative_error",
                                "bytes",
                                "collectives_of_size",
                                "transfer_ms",
                                "wait_ms",
                                "algorithm_gb_per_s",
                                "bus_gb_per_s",
                                "link_efficiency"})
        table.add_column(heading, Align::left);
    for (const CommModel& model : report.models) {
        for (const SizeReport& size : model.sizes) table.add_row(csv_cells(model, &size));
        if (model.sizes.empty()) table.add_row(csv_cells(model, nullptr));
    }
    return table.csv();
}

}  // namespace cep::comm
