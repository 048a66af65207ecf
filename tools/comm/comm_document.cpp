// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

Column link_column(const CommOptions& options) {
    return {"link_efficiency", options.link_gb_per_s ? "of the link" : "", Align::right, "",
            "bus bandwidth over the link's bandwidth"};
}

/// Left out on a terminal without room, the highest number first.
Column detail(int order, Column column) {
    column.detail = order;
    return column;
}

std::vector<Column> model_columns(const CommOptions& options) {
    return {
        {"name", "operation", Align::left, "", "the operation, or the phase where the operation is not known"},
        {"group", "group", Align::left, "", "the kind of the groups, or the group; slow groups of a kind are apart"},
        detail(3, {"groups", "groups", Align::right, "", "groups of that kind"}),
        {"ranks", "ranks", Align::right, "", "ranks of one group"},
        detail(7, {"collectives", "collectives", Align::right, "", "collectives whose spans were matched over ranks"}),
        {"wait_fraction", "waiting", Align::right, "", "time that ranks waited for the last one, over time in spans"},
        detail(2, {"wait_of_step", "of steps", Align::right, "", "the same over the time of steps"}),
        detail(6, {"sizes", "sizes", Align::right, "", "distinct sizes"}),
        {"alpha_us", "latency", Align::right, "us", "fitted latency, α"},
        {"beta_gb_per_s", "typical", Align::right, "GB/s", "fitted bandwidth of the median transfers, β"},
        {"paid_gb_per_s", "paid", Align::right, "GB/s", "all bytes over the time of all transfers"},
        detail(1,
               {"slow_share", "slow", Align::right, "", "transfers that take over 1.5 times the median of their size"}),
        {"mean_error", "error", Align::right, "", "by how much a transfer differs from the fit, in the mean"},
        detail(8, {"p90_error", "p90", Align::right, "", "the same, of 9 in 10 transfers at most"}),
        detail(10, {"r_squared", "R²", Align::right, "", "share of the variance of the medians that the fit explains"}),
        detail(9, {"half_bytes", "half β", Align::right, "bytes", "size that reaches half of the fitted bandwidth"}),
        detail(5, {"bus_gb_per_s", "bus β", Align::right, "GB/s", "bus bandwidth of the fitted bandwidth"}),
        detail(4, link_column(options)),
    };
}

/// "33.3 %", or nothing where no transfer is known.
Cell slow_cell(const CommModel& model) {
    return model.sizes.empty() ? Cell::none() : Cell::percent(model.slow.share);
}

Table model_table(const CommReport& report) {
    Table table(model_columns(report.options), "Operations");
    table.set_rest("operation", "with less time", report.left_out.models);
    for (const CommModel& model : report.models) {
        const auto of_fit = [&](auto&& get) { return model.fit ? get(*model.fit) : Cell::none(); };
        table.add({Cell::text_of(model.name), Cell::text_of(model.group_label()), Cell::count(model.groups),
                   Cell::count(model.ranks), Cell::count(model.collectives * model.one_in),
                   Cell::percent(model.wait_fraction), Cell::percent(model.wait_of_step),
                   Cell::count(model.sizes.size()), of_fit([](const TransferFit& fit) {
                       return Cell::shown(fit.alpha_us, fmt::format("{:.1f} µs", fit.alpha_us));
                   }),
                   of_fit([](const TransferFit& fit) { return bandwidth(fit.beta_gb_per_s); }),
                   bandwidth(model.paid_gb_per_s), slow_cell(model),
                   of_fit([&](const TransferFit&) { return Cell::percent(model.errors.mean); }),
                   of_fit([&](const TransferFit&) { return Cell::percent(model.errors.p90); }),
                   of_fit([](const TransferFit& fit) {
                       return Cell::shown(fit.r_squared, fmt::format("{:.4f}", fit.r_squared));
                   }),
                   of_fit([](const TransferFit& fit) { return Cell::shown_if(fit.half_bytes(), format_bytes); }),
                   bandwidth(model.bus_gb_per_s), Cell::percent(model.link_efficiency)});
    }
    return table;
}

// Its first columns repeat the model for programs, which read this table only.
std::vector<Column> size_columns(const CommOptions& options) {
    return {
        {"operation", "", Align::left, "", "the operation, or other"},
        {"name", "operation", Align::left, "", "the operation, or the phase where the operation is not known"},
        {"group", "group", Align::left, "", "the kind of the groups, or with --by group the group"},
        {"times_usual", "", Align::right, "", "times as long as in most groups, where the groups of a kind differ"},
        {"members", "", Align::left, "", "the first of the groups, where the groups of a kind differ"},
        {"groups", "", Align::right, "", "groups of that kind"},
        detail(5, {"ranks", "ranks", Align::right, "", "ranks of one group"}),
        {"spans", "", Align::right, "", "spans of the operation"},
        {"collectives", "", Align::right, "", "collectives of the operation that were looked at"},
        {"wait_fraction", "", Align::right, "", "time that ranks waited for the last one, over time in spans"},
        {"alpha_us", "", Align::right, "us", "fitted latency"},
        {"beta_gb_per_s", "", Align::right, "GB/s", "fitted bandwidth"},
        {"r_squared", "", Align::right, "", "share of the variance of the medians that the fit explains"},
        {"mean_error", "", Align::right, "", "by how much a transfer differs from the fit, in the mean"},
        {"max_error", "", Align::right, "", "the same of the transfer that differs most"},
        {"bytes", "bytes", Align::right, "bytes", "size of a collective"},
        detail(3, {"collectives_of_size", "collectives", Align::right, "", "collectives of that size"}),
        {"transfer_ms", "transfer p50", Align::right, "ms", "median over collectives of the transfer"},
        detail(1, {"transfer_p90_ms", "p90", Align::right, "ms", "of the transfer, over collectives"}),
        detail(2, {"wait_ms", "wait p50", Align::right, "ms", "median over collectives of the mean wait of a rank"}),
        {"algorithm_gb_per_s", "typical", Align::right, "GB/s", "bytes over the median transfer"},
        {"paid_gb_per_s", "paid", Align::right, "GB/s", "bytes over the mean transfer"},
        detail(4, {"bus_gb_per_s", "bus p50", Align::right, "GB/s", "what each rank sends, over the median transfer"}),
        detail(1, {"slow_share", "slow", Align::right, "", "transfers that take over 1.5 times the median"}),
        detail(6, link_column(options)),
    };
}

std::vector<Cell> model_cells(const CommModel& model) {
    std::vector<Cell> cells = {Cell::text_of(operation_name(model.operation)),
                               Cell::text_of(model.name),
                               Cell::shown(model.group, model.group.empty() ? "-" : model.group_label()),
                               Cell::number(model.times_usual),
                               Cell::text_of(fmt::format("{}", fmt::join(model.members, " "))),
                               Cell::count(model.groups),
                               Cell::count(model.ranks),
                               Cell::count(model.spans),
                               Cell::count(model.collectives),
                               Cell::percent(model.wait_fraction)};
    if (!model.fit) {
        cells.resize(cells.size() + 5, Cell::none());
        return cells;
    }
    for (const std::optional<double>& value :
         {std::optional(model.fit->alpha_us), model.fit->beta_gb_per_s, std::optional(model.fit->r_squared),
          std::optional(model.errors.mean), std::optional(model.errors.worst)})
        cells.push_back(Cell::number(value));
    return cells;
}

Table size_table(const CommReport& report) {
    Table table(size_columns(report.options), "Sizes");
    for (const CommModel& model : report.models) {
        for (const SizeReport& size : model.sizes) {
            const double transfer_ms = size.point.transfer_ms;
            const DurationFormat format(transfer_ms, size.p90_ms);
            const std::uint64_t collectives = size.point.collectives;
            std::vector<Cell> cells = model_cells(model);
            cells.push_back(bytes(size.point.bytes));
            cells.push_back(Cell::shown(collectives, format_count(collectives * model.one_in)));
            for (const double ms : {transfer_ms, size.p90_ms}) cells.push_back(Cell::shown(ms, format(ms)));
            cells.push_back(Cell::shown(size.wait_ms, format_duration_ms(size.wait_ms)));
            cells.push_back(bandwidth(size.algorithm_gb_per_s));
            cells.push_back(bandwidth(size.paid_gb_per_s));
            cells.push_back(bandwidth(size.bus_gb_per_s));
            cells.push_back(Cell::percent(size.slow_share));
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

/// "1.23 ms (1.10 to 1.50)".
Cell predicted(const std::optional<PredictedTime>& time) {
    return Cell::shown_if(time ? std::optional(time->ms) : std::nullopt, [&](double ms) {
        const DurationFormat format(time->low_ms, time->high_ms);
        return fmt::format("{} ({} to {})", format(ms), format(time->low_ms), format(time->high_ms));
    });
}

Table prediction_table(const CommReport& report) {
    const char* const shard = report.options.shard_bytes ? "shard" : "";
    Table table(
        {
            {"name", "operation", Align::left, "", "the operation"},
            {"group", "group", Align::left, "", "the kind of the groups, or with --by group the group"},
            detail(2, {"measured_ranks", "measured with", Align::right, "", "ranks of the groups that were measured"}),
            {"ranks", "ranks", Align::right, "", "ranks that the prediction is for"},
            {"shard_bytes", shard, Align::right, "bytes", "the shard of a rank that the prediction is for"},
            {"bytes", "bytes", Align::right, "bytes", "size that the prediction is for, of the whole"},
            {"ring_ms", "ring (9 of 10)", Align::right, "ms", "predicted transfer with a ring, and where 9 of 10 are"},
            detail(1, {"tree_ms", "tree (9 of 10)", Align::right, "ms", "the same with a tree"}),
            {"faster", "faster", Align::left, "", "the algorithm to choose"},
            detail(3, {"", "note", Align::left, "", "whether the size is outside of the measured ones"}),
        },
        "Predictions");
    for (const CommModel& model : report.models)
        for (const Prediction& one : model.predictions)
            table.add({Cell::text_of(model.name), Cell::text_of(model.group_label()), Cell::count(model.ranks),
                       Cell::count(one.world), one.shard_bytes ? bytes(*one.shard_bytes) : Cell::none(),
                       bytes(one.bytes), predicted(one.ring), predicted(one.tree), Cell::text_of(one.faster()),
                       Cell::words(one.beyond_sizes ? "beyond the measured sizes" : "")});
    return table;
}

/// "all_reduce of dp".
std::string describe_model(const CommModel& model) {
    return fmt::format("{} of {}", model.name, model.group.empty() ? "unnamed groups" : model.group_label());
}

/// What the bus bandwidth says of the link that it is compared with, or of the rows.
std::string doubt_bandwidth(const CommModel& model) {
    constexpr double much = 1.05;
    const double bus = model.bus_gb_per_s.value_or(0);
    if (model.link_efficiency.value_or(0) > much)
        return fmt::format(
            "{}: {} on the bus is {:.0f} % of the link. Either part of the bytes takes a faster link (inside of a "
            "host), or the link does more than was said, or bytes are more than what moves",
            describe_model(model), gigabytes_per_s(bus), 100 * *model.link_efficiency);
    if (bus > beyond_links_gb_per_s)
        return fmt::format("{}: {} on the bus is more than any link does: check what the rows say of bytes and times",
                           describe_model(model), gigabytes_per_s(bus));
    return "";
}

std::vector<std::string> make_notes(const CommReport& report) {
    std::vector<std::string> notes;
    std::size_t refusals = 0;
    std::size_t doubts = 0;
    std::uint64_t one_in = 1;
    for (const CommModel& model : report.models) {
        one_in = std::max(one_in, model.one_in);
        if (model.refused.empty() || refusals++ >= max_refusals_shown) continue;
        notes.push_back(fmt::format("no fit for {}: {}", describe_model(model), model.refused));
    }
    for (const CommModel& model : report.models)
        if (const std::string doubt = doubt_bandwidth(model); !doubt.empty() && doubts++ < max_refusals_shown)
            notes.push_back(doubt);
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
    notes.emplace_back(
        "typical: of the median transfers; paid: bytes by the time of all transfers; slow: over 1.5 times the median "
        "of "
        "the size; error: of single transfers against the fit");
    const bool predicts = std::any_of(report.models.begin(), report.models.end(),
                                      [](const CommModel& model) { return !model.predictions.empty(); });
    if (predicts)
        notes.emplace_back(
            "faster: NCCL has trees for all_reduce, and from 2.23 on for all_gather and reduce_scatter (PAT); "
            "NCCL_ALGO "
            "chooses one, else it chooses itself");
    return notes;
}

void write_fit(JsonWriter& json, const CommModel& model, const TransferFit& fit) {
    json.members("alpha_us", fit.alpha_us, "alpha_error_us", fit.alpha_error_us, "beta_gb_per_s", fit.beta_gb_per_s,
                 "beta_error_gb_per_s", fit.beta_error_gb_per_s, "r_squared", fit.r_squared, "mean_relative_error",
                 model.errors.mean, "p90_relative_error", model.errors.p90, "max_relative_error", model.errors.worst,
                 "half_bytes", fit.half_bytes(), "bus_gb_per_s", model.bus_gb_per_s, "link_efficiency",
                 model.link_efficiency);
}

void write_slow(JsonWriter& json, const SlowTransfers& slow) {
    const bool is_any = slow.pattern != SlowPattern::never;
    const auto if_any = [&](std::int64_t step) { return is_any ? std::optional(step) : std::nullopt; };
    json.members("share", slow.share, "pattern", slow_pattern_names[static_cast<std::size_t>(slow.pattern)],
                 "first_step", if_any(slow.first_step), "last_step", if_any(slow.last_step), "every_steps",
                 slow.every > 0 ? std::optional(slow.every) : std::nullopt);
}

void write_prediction(JsonWriter& json, const Prediction& one) {
    const auto part = [](const std::optional<PredictedTime>& time, double PredictedTime::*member) {
        return time ? std::optional((*time).*member) : std::nullopt;
    };
    json.members("bytes", one.bytes, "shard_bytes", one.shard_bytes, "ranks", one.world, "ring_ms",
                 part(one.ring, &PredictedTime::ms), "ring_low_ms", part(one.ring, &PredictedTime::low_ms),
                 "ring_high_ms", part(one.ring, &PredictedTime::high_ms), "tree_ms", part(one.tree, &PredictedTime::ms),
                 "tree_low_ms", part(one.tree, &PredictedTime::low_ms), "tree_high_ms",
                 part(one.tree, &PredictedTime::high_ms), "faster", text_or_null(one.faster()), "beyond_sizes",
                 one.beyond_sizes);
}

void write_model(JsonWriter& json, const CommModel& model) {
    json.members("operation", operation_name(model.operation), "name", model.name, "group", text_or_null(model.group),
                 "groups", model.groups, "members", model.members, "times_usual", model.times_usual, "ranks",
                 model.ranks, "spans", model.spans, "spans_without_bytes", model.spans_without_bytes, "total_ms",
                 model.total_ms, "collectives", model.collectives, "one_in", model.one_in, "incomplete_collectives",
                 model.lone_spans, "wait_fraction", model.wait_fraction, "wait_of_step", model.wait_of_step,
                 "is_launch", model.is_launch, "paid_gb_per_s", model.paid_gb_per_s);
    json.object("slow", [&] { write_slow(json, model.slow); });
    json.object_or_null("fit", model.fit, [&](const TransferFit& fit) { write_fit(json, model, fit); });
    json.members("refused", text_or_null(model.refused));
    json.objects("sizes", model.sizes, [&](const SizeReport& size) {
        json.members("bytes", size.point.bytes, "collectives", size.point.collectives, "transfer_ms",
                     size.point.transfer_ms, "transfer_p90_ms", size.p90_ms, "transfer_mean_ms", size.mean_ms,
                     "wait_ms", size.wait_ms, "slow_share", size.slow_share, "algorithm_gb_per_s",
                     size.algorithm_gb_per_s, "paid_gb_per_s", size.paid_gb_per_s, "bus_gb_per_s", size.bus_gb_per_s,
                     "link_efficiency", size.link_efficiency);
    });
    json.objects("predictions", model.predictions, [&](const Prediction& one) { write_prediction(json, one); });
}

void write_report(JsonWriter& json, const CommReport& report, const std::string& headline) {
    json.members("schema", "cep.comm/1", "headline", headline);
    json.object("inputs", [&] { write_inputs(json, report.inputs, report.coverage); });
    json.members("by", report.options.by_group ? "group" : "kind", "link_gb_per_s", report.options.link_gb_per_s,
                 "wait_fraction", report.wait_fraction, "wait_of_step", report.wait_of_step);
    const LeftOut& left_out = report.left_out;
    if (left_out.any())
        json.object("left_out", [&] {
            json.members("models", left_out.models, "spans", left_out.spans, "total_ms", left_out.total_ms, "sizes",
                         left_out.sizes);
        });
    json.objects("models", report.models, [&json](const CommModel& model) { write_model(json, model); });
}

std::string describe_fit(const CommModel& model, const CommOptions& options) {
    constexpr double differs = 0.05;
    const TransferFit& fit = *model.fit;
    const std::string what = fmt::format("{} over {}{}", model.name, format_plural(model.ranks, "rank"),
                                         model.group.empty() ? "" : " (" + model.group_label() + ")");
    if (!fit.beta_gb_per_s)
        return fmt::format("{} takes {:.0f} µs whatever its size: no bandwidth can be computed.", what, fit.alpha_us);
    std::string bus;
    if (model.bus_gb_per_s) bus = fmt::format(" ({} on the bus", gigabytes_per_s(*model.bus_gb_per_s));
    if (model.link_efficiency)
        bus += fmt::format(", {:.0f} % of the link's {}", 100 * *model.link_efficiency,
                           gigabytes_per_s(*options.link_gb_per_s));
    if (!bus.empty()) bus += ")";
    const bool pays_more = model.errors.mean > differs && model.paid_gb_per_s;
    return fmt::format(
        "{}: latency {:.1f} µs, bandwidth {}{}{}. A transfer is {:.1f} % off on average, 9 of 10 at "
        "most {:.1f} %.",
        what, fit.alpha_us, gigabytes_per_s(*fit.beta_gb_per_s), bus,
        pays_more ? fmt::format(", {} with all transfers", gigabytes_per_s(*model.paid_gb_per_s)) : "",
        100 * model.errors.mean, 100 * model.errors.p90);
}

std::string describe_waiting(const CommReport& report) {
    if (!report.wait_fraction) return "";
    std::string text =
        fmt::format("{:.0f} % of the time in collectives was waiting for other ranks", 100 * *report.wait_fraction);
    if (report.wait_of_step) text += fmt::format(", {} of the time of steps", format_percent(*report.wait_of_step));
    return text + ". ";
}

/// "Groups dp.pp1 and dp.pp3".
std::string name_members(const CommModel& model) {
    constexpr std::size_t most_named = 4;
    const std::size_t named = std::min(model.members.size(), most_named);
    std::string text = model.groups == 1 ? "group " : "groups ";
    for (std::size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + model.members[i];
    if (model.groups > named) text += fmt::format(" and {} more", model.groups - named);
    return text;
}

/// Names groups that take longer than most of their kind.
std::string describe_slow_groups(const CommModel& model) {
    return fmt::format("{} of {} {} {:.2g} times as long as most groups of {}", model.name, name_members(model),
                       model.groups == 1 ? "takes" : "take", *model.times_usual,
                       model.group.empty() ? "the job" : model.group);
}

bool has_slow_groups(const CommModel& model) {
    return model.times_usual.value_or(1) > 1;
}

std::string make_headline(const CommReport& report) {
    if (report.models.empty()) return "There is no communication in these rows.";
    std::string text = describe_waiting(report);
    const auto slow = std::find_if(report.models.begin(), report.models.end(), has_slow_groups);
    if (slow != report.models.end()) {
        std::string sentence = describe_slow_groups(*slow);
        text += sentence + ". ";
    }
    for (const CommModel& model : report.models)
        if (model.fit) return text + describe_fit(model, report.options);
    if (report.any_bytes()) return text + "No operation has enough sizes to fit a latency and a bandwidth.";
    return text + "Latency and bandwidth are not known, because no span of a collective has its bytes.";
}

/// What the figures of the table hide: slow groups, and transfers that are slow at times.
std::vector<std::string> make_evidence(const CommReport& report) {
    constexpr std::size_t most = 5;
    constexpr double worth_mention = 0.01;  // of the transfers
    std::vector<std::string> evidence;
    for (const CommModel& model : report.models) {
        if (evidence.size() >= most) break;
        if (has_slow_groups(model)) evidence.push_back(describe_slow_groups(model));
        if (model.slow.share < worth_mention) continue;
        std::string text =
            fmt::format("{}: {} of the transfers take over {} times as long as usual for their size, {}",
                        describe_model(model), format_percent(model.slow.share), slow_ratio, model.slow.when());
        if (model.fit && model.fit->beta_gb_per_s && model.paid_gb_per_s)
            text += fmt::format("; {} with all transfers, {} typical", gigabytes_per_s(*model.paid_gb_per_s),
                                gigabytes_per_s(*model.fit->beta_gb_per_s));
        evidence.push_back(text);
    }
    return evidence;
}

std::vector<std::string> advise(const CommReport& report) {
    if (report.models.empty()) return {"record collectives as spans of kind comm, with group, coll and bytes"};
    if (!report.any_bytes()) return {"give \"bytes\" where the span of a collective begins"};
    for (const CommModel& model : report.models)
        if (has_slow_groups(model))
            return {
                fmt::format("look at the network of the ranks of {}: links, switches, other jobs (nvidia-smi nvlink "
                            "-e, ibstat, nccl-tests on them alone)",
                            name_members(model))};
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
    document.evidence = make_evidence(*report);
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
