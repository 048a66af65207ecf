// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/units.hpp"

namespace cep::comm {
namespace {

using namespace tool;

constexpr std::size_t max_refusals_shown = 3;

// Three significant digits.
std::string gigabytes_per_s(double value) {
    return fmt::format("{:.{}f} GB/s", value, value >= 99.5 ? 0 : (value >= 9.95 ? 1 : (value >= 0.995 ? 2 : 4)));
}

Cell bandwidth(const std::optional<double>& value) {
    return Cell::shown_if(value, gigabytes_per_s);
}

Cell bytes(std::int64_t value) {
    return Cell::shown(value, format_bytes(static_cast<double>(value)));
}

Cell duration(const std::optional<double>& value_ms) {
    return Cell::shown_if(value_ms, format_duration_ms);
}

Column link_column(const CommOptions& options) {
    return {"link_efficiency", options.link_gb_per_s ? "of the link" : "", Align::right, "",
            "bus bandwidth over the link's bandwidth"};
}

std::vector<Column> model_columns(const CommOptions& options) {
    return {
        {"name", "operation", Align::left, "", "the operation, or the phase where the operation is not known"},
        {"group", "group", Align::left, "", "the kind of the groups, or with --by group the group"},
        {"groups", "groups", Align::right, "", "groups of that kind"},
        {"ranks", "ranks", Align::right, "", "ranks of one group"},
        {"collectives", "collectives", Align::right, "", "collectives whose spans were matched over ranks"},
        {"wait_fraction", "waiting", Align::right, "", "time that ranks waited for the last one, over time in spans"},
        {"sizes", "sizes", Align::right, "", "distinct sizes"},
        {"alpha_us", "α", Align::right, "us", "fitted latency"},
        {"beta_gb_per_s", "β", Align::right, "GB/s", "fitted bandwidth"},
        {"r_squared", "R²", Align::right, "", "share of the variance of the times that the fit explains"},
        {"mean_relative_error", "error", Align::right, "", "mean relative error of the fit over sizes"},
        {"max_relative_error", "worst", Align::right, "", "largest relative error of the fit over sizes"},
        {"half_bytes", "half β", Align::right, "bytes", "size that reaches half of the fitted bandwidth"},
        {"bus_gb_per_s", "bus β", Align::right, "GB/s", "bus bandwidth of the fitted bandwidth"},
        link_column(options),
    };
}

void add_fit_cells(std::vector<Cell>& cells, const std::optional<TransferFit>& fit) {
    if (!fit) return cells.resize(cells.size() + 5, Cell::none());
    cells.push_back(Cell::shown(fit->alpha_us, fmt::format("{:.1f} µs", fit->alpha_us)));
    cells.push_back(bandwidth(fit->beta_gb_per_s));
    cells.push_back(Cell::shown(fit->r_squared, fmt::format("{:.4f}", fit->r_squared)));
    cells.push_back(Cell::percent(fit->mean_relative_error));
    cells.push_back(Cell::percent(fit->max_relative_error));
}

Table model_table(const CommReport& report) {
    Table table(model_columns(report.options), "Operations");
    table.set_rest("operation", "with less time", report.left_out.models);
    for (const CommModel& model : report.models) {
        std::vector<Cell> cells = {Cell::text_of(model.name),
                                   Cell::text_of(model.group),
                                   Cell::count(model.groups),
                                   Cell::count(model.ranks),
                                   Cell::count(model.collectives * model.one_in),
                                   Cell::percent(model.wait_fraction),
                                   Cell::count(model.sizes.size())};
        add_fit_cells(cells, model.fit);
        cells.push_back(Cell::shown_if(model.fit ? model.fit->half_bytes() : std::nullopt, format_bytes));
        cells.push_back(bandwidth(model.bus_gb_per_s));
        cells.push_back(Cell::percent(model.link_efficiency));
        table.add(std::move(cells));
    }
    return table;
}

// Its first columns repeat the model for programs, which read this table only.
std::vector<Column> size_columns(const CommOptions& options) {
    return {
        {"operation", "", Align::left, "", "the operation, or other"},
        {"name", "operation", Align::left, "", "the operation, or the phase where the operation is not known"},
        {"group", "group", Align::left, "", "the kind of the groups, or with --by group the group"},
        {"groups", "", Align::right, "", "groups of that kind"},
        {"ranks", "ranks", Align::right, "", "ranks of one group"},
        {"spans", "", Align::right, "", "spans of the operation"},
        {"collectives", "", Align::right, "", "collectives of the operation that were looked at"},
        {"wait_fraction", "", Align::right, "", "time that ranks waited for the last one, over time in spans"},
        {"alpha_us", "", Align::right, "us", "fitted latency"},
        {"beta_gb_per_s", "", Align::right, "GB/s", "fitted bandwidth"},
        {"r_squared", "", Align::right, "", "share of the variance of the times that the fit explains"},
        {"mean_relative_error", "", Align::right, "", "mean relative error of the fit over sizes"},
        {"max_relative_error", "", Align::right, "", "largest relative error of the fit over sizes"},
        {"bytes", "bytes", Align::right, "bytes", "size of a collective"},
        {"collectives_of_size", "collectives", Align::right, "", "collectives of that size"},
        {"transfer_ms", "transfer", Align::right, "ms", "median over collectives of the transfer"},
        {"wait_ms", "wait", Align::right, "ms", "median over collectives of the mean wait of a rank"},
        {"algorithm_gb_per_s", "bandwidth", Align::right, "GB/s", "bytes over transfer"},
        {"bus_gb_per_s", "bus bandwidth", Align::right, "GB/s", "what each rank sends, over transfer"},
        link_column(options),
    };
}

std::vector<Cell> model_cells(const CommModel& model) {
    std::vector<Cell> cells = {Cell::text_of(operation_name(model.operation)),
                               Cell::text_of(model.name),
                               Cell::text_of(model.group),
                               Cell::count(model.groups),
                               Cell::count(model.ranks),
                               Cell::count(model.spans),
                               Cell::count(model.collectives),
                               Cell::percent(model.wait_fraction)};
    add_fit_cells(cells, model.fit);
    return cells;
}

Table size_table(const CommReport& report) {
    Table table(size_columns(report.options), "Sizes");
    for (const CommModel& model : report.models) {
        for (const SizeReport& size : model.sizes) {
            const double transfer_ms = size.point.transfer_ms;
            const DurationFormat format(transfer_ms, std::max(transfer_ms, size.wait_ms));
            const std::uint64_t collectives = size.point.collectives;
            std::vector<Cell> cells = model_cells(model);
            cells.push_back(bytes(size.point.bytes));
            cells.push_back(Cell::shown(collectives, format_count(collectives * model.one_in)));
            cells.push_back(Cell::shown(transfer_ms, format(transfer_ms)));
            cells.push_back(Cell::shown(size.wait_ms, format(size.wait_ms)));
            cells.push_back(bandwidth(size.algorithm_gb_per_s));
            cells.push_back(bandwidth(size.bus_gb_per_s));
            cells.push_back(Cell::percent(size.link_efficiency));
            table.add(std::move(cells));
        }
        if (!model.sizes.empty()) continue;
        std::vector<Cell> cells = model_cells(model);
        cells.resize(table.columns().size(), Cell::none());
        table.add({std::move(cells), false, true});
    }
    return table;
}

Table prediction_table(const CommReport& report) {
    Table table(
        {
            {"name", "operation", Align::left, "", "the operation"},
            {"group", "group", Align::left, "", "the kind of the groups, or with --by group the group"},
            {"measured_ranks", "measured with", Align::right, "", "ranks of the groups that were measured"},
            {"ranks", "ranks", Align::right, "", "ranks that the prediction is for"},
            {"bytes", "bytes", Align::right, "bytes", "size that the prediction is for"},
            {"ring_ms", "ring", Align::right, "ms", "predicted transfer with a ring"},
            {"tree_ms", "tree", Align::right, "ms", "predicted transfer with a tree"},
            {"", "note", Align::left, "", "whether the size is outside of the measured ones"},
        },
        "Predictions");
    for (const CommModel& model : report.models)
        for (const Prediction& one : model.predictions)
            table.add({Cell::text_of(model.name), Cell::text_of(model.group), Cell::count(model.ranks),
                       Cell::count(one.world), bytes(one.bytes), duration(one.ring_ms), duration(one.tree_ms),
                       Cell::words(one.beyond_sizes ? "beyond the measured sizes" : "")});
    return table;
}

std::vector<std::string> make_notes(const CommReport& report) {
    std::vector<std::string> notes;
    std::size_t refusals = 0;
    std::uint64_t one_in = 1;
    for (const CommModel& model : report.models) {
        one_in = std::max(one_in, model.one_in);
        if (model.refused.empty() || refusals++ >= max_refusals_shown) continue;
        notes.push_back(fmt::format("no fit for {} of {}: {}", model.name,
                                    model.group.empty() ? "unnamed groups" : model.group, model.refused));
    }
    if (refusals > max_refusals_shown)
        notes.push_back(fmt::format("no fit for {}", format_plural(refusals - max_refusals_shown, "other operation")));
    if (one_in > 1)
        notes.push_back(
            fmt::format("of some operations a random one of {} collectives was kept", format_count(one_in)));
    if (report.left_out.any()) notes.push_back(describe_left_out(report));
    if (!report.coverage.missing_ranks.empty())
        notes.push_back("with ranks missing, some waits are counted as transfer");
    notes.push_back(
        "transfer: the shortest span of a collective, because the last rank to come waits for nobody; waiting: what "
        "the other spans take longer");
    return notes;
}

void write_model(JsonWriter& json, const CommModel& model) {
    json.members("operation", operation_name(model.operation), "name", model.name, "group", text_or_null(model.group),
                 "groups", model.groups, "ranks", model.ranks, "spans", model.spans, "spans_without_bytes",
                 model.spans_without_bytes, "total_ms", model.total_ms, "collectives", model.collectives, "one_in",
                 model.one_in, "incomplete_collectives", model.lone_spans, "wait_fraction", model.wait_fraction);
    json.object_or_null("fit", model.fit, [&](const TransferFit& fit) {
        json.members("alpha_us", fit.alpha_us, "alpha_error_us", fit.alpha_error_us, "beta_gb_per_s", fit.beta_gb_per_s,
                     "beta_error_gb_per_s", fit.beta_error_gb_per_s, "r_squared", fit.r_squared, "mean_relative_error",
                     fit.mean_relative_error, "max_relative_error", fit.max_relative_error, "half_bytes",
                     fit.half_bytes(), "bus_gb_per_s", model.bus_gb_per_s, "link_efficiency", model.link_efficiency);
    });
    json.members("refused", text_or_null(model.refused));
    json.objects("sizes", model.sizes, [&](const SizeReport& size) {
        json.members("bytes", size.point.bytes, "collectives", size.point.collectives, "transfer_ms",
                     size.point.transfer_ms, "wait_ms", size.wait_ms, "algorithm_gb_per_s", size.algorithm_gb_per_s,
                     "bus_gb_per_s", size.bus_gb_per_s, "link_efficiency", size.link_efficiency);
    });
    json.objects("predictions", model.predictions, [&](const Prediction& one) {
        json.members("bytes", one.bytes, "ranks", one.world, "ring_ms", one.ring_ms, "tree_ms", one.tree_ms,
                     "beyond_sizes", one.beyond_sizes);
    });
}

void write_report(JsonWriter& json, const CommReport& report, const std::string& headline) {
    json.members("schema", "cep.comm/1", "headline", headline);
    json.object("inputs", [&] { write_inputs(json, report.inputs, report.coverage); });
    json.members("by", report.options.by_group ? "group" : "kind", "link_gb_per_s", report.options.link_gb_per_s,
                 "wait_fraction", report.wait_fraction);
    const LeftOut& left_out = report.left_out;
    if (left_out.any())
        json.object("left_out", [&] {
            json.members("models", left_out.models, "spans", left_out.spans, "total_ms", left_out.total_ms, "sizes",
                         left_out.sizes);
        });
    json.objects("models", report.models, [&json](const CommModel& model) { write_model(json, model); });
}

std::string describe_fit(const CommModel& model, const CommOptions& options) {
    const TransferFit& fit = *model.fit;
    const std::string what = fmt::format("{} over {}{}", model.name, format_plural(model.ranks, "rank"),
                                         model.group.empty() ? "" : " (" + model.group + ")");
    if (!fit.beta_gb_per_s)
        return fmt::format("{} takes {:.0f} µs whatever its size: no bandwidth can be computed.", what, fit.alpha_us);
    std::string bus;
    if (model.bus_gb_per_s) bus = fmt::format(" ({} on the bus", gigabytes_per_s(*model.bus_gb_per_s));
    if (model.link_efficiency)
        bus += fmt::format(", {:.0f} % of the link's {}", 100 * *model.link_efficiency,
                           gigabytes_per_s(*options.link_gb_per_s));
    if (!bus.empty()) bus += ")";
    return fmt::format("{}: latency {:.1f} µs, bandwidth {}{}. The fit is {:.1f} % off on average, {:.1f} % at most.",
                       what, fit.alpha_us, gigabytes_per_s(*fit.beta_gb_per_s), bus, 100 * fit.mean_relative_error,
                       100 * fit.max_relative_error);
}

std::string describe_waiting(const CommReport& report) {
    if (!report.wait_fraction) return "";
    return fmt::format("{:.0f} % of the time in collectives was waiting for other ranks. ",
                       100 * *report.wait_fraction);
}

std::string make_headline(const CommReport& report) {
    if (report.models.empty()) return "There is no communication in these rows.";
    const std::string waiting = describe_waiting(report);
    for (const CommModel& model : report.models)
        if (model.fit) return waiting + describe_fit(model, report.options);
    if (report.any_bytes()) return waiting + "No operation has enough sizes to fit a latency and a bandwidth.";
    return waiting + "Latency and bandwidth are not known, because no span of a collective has its bytes.";
}

std::vector<std::string> advise(const CommReport& report) {
    if (report.models.empty()) return {"record collectives as spans of kind comm, with group, coll and bytes"};
    if (!report.any_bytes()) return {"give \"bytes\" where the span of a collective begins"};
    return {};
}

}  // namespace

std::string describe_left_out(const CommReport& report) {
    const LeftOut& left_out = report.left_out;
    std::string text;
    if (left_out.spans > 0)
        text = fmt::format("{} of other operations are left out, which took {} of time",
                           format_plural(left_out.spans, "span"), format_duration_ms(left_out.total_ms));
    if (left_out.sizes > 0)
        text += fmt::format("{}{} left out", text.empty() ? "" : "; ",
                            left_out.sizes == 1 ? "1 size is" : format_plural(left_out.sizes, "size") + " are");
    return text;
}

tool::Document make_document(CommReport made, tool::Format format) {
    const auto report = std::make_shared<const CommReport>(std::move(made));
    Document document;
    document.title = "Communication";
    document.scope = tool::describe_other_runs(report->inputs);
    document.headline = make_headline(*report);
    document.next = advise(*report);
    const bool for_people = format == Format::text || format == Format::markdown;
    if (for_people) document.tables.push_back(model_table(*report));
    if (for_people || format == Format::csv) document.tables.push_back(size_table(*report));
    if (for_people) document.tables.push_back(prediction_table(*report));
    if (!report->models.empty()) document.notes = make_notes(*report);
    document.write_json = [report, headline = document.headline](JsonWriter& json) {
        write_report(json, *report, headline);
    };
    return document;
}

}  // namespace cep::comm
