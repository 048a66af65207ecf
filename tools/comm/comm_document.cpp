// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/units.hpp"
#include "show/fields.hpp"

namespace cep::comm {
namespace {

using namespace tool;

constexpr std::size_t max_refusals_shown = 3;

// Three significant digits.
std::string gigabytes_per_s(double value) {
    return fmt::format("{:.{}f} GB/s", value, value >= 99.5 ? 0 : (value >= 9.95 ? 1 : (value >= 0.995 ? 2 : 4)));
}

std::string describe_microseconds(double us) {
    return fmt::format("{:.1f} µs", us);
}

std::string describe_four_decimals(double share) {
    return fmt::format("{:.4f}", share);
}

/// Nothing to show where there is no link to compare with.
std::string_view link_heading(const CommOptions& options) {
    return options.link_gb_per_s ? "of the link" : "";
}

Fields<CommModel> fit_fields(const CommOptions& options) {
    using M = CommModel;
    using Fit = TransferFit;
    const auto of_fit = [](auto get) {
        return [get](const M& model) { return model.fit ? value_of(std::invoke(get, *model.fit)) : Value(); };
    };
    const auto error = [](double TransferErrors::*which) {
        return [which](const M& model) { return model.fit ? Value(model.errors.*which) : Value(); };
    };
    return {{"alpha_us", "latency", "fitted latency, α", of_fit(&Fit::alpha_us), describe_microseconds},
            {"alpha_error_us", "", "its standard error", of_fit(&Fit::alpha_error_us)},
            {"beta_gb_per_s", "typical", "fitted bandwidth of the median transfers, β", of_fit(&Fit::beta_gb_per_s),
             gigabytes_per_s},
            {"beta_error_gb_per_s", "", "its standard error", of_fit(&Fit::beta_error_gb_per_s)},
            {"r_squared", "R²", "share of the variance of the medians that the fit explains", of_fit(&Fit::r_squared),
             describe_four_decimals},
            {"mean_relative_error", "error", "by how much a transfer differs from the fit, in the mean",
             error(&TransferErrors::mean), describe_percent},
            {"p90_relative_error", "p90", "the same, of 9 in 10 transfers at most", error(&TransferErrors::p90),
             describe_percent},
            {"max_relative_error", "", "the same of the transfer that differs most", error(&TransferErrors::worst)},
            {"half_bytes", "half β", "size that reaches half of the fitted bandwidth", of_fit(&Fit::half_bytes),
             format_bytes},
            {"bus_gb_per_s", "bus β", "bus bandwidth of the fitted bandwidth", &M::bus_gb_per_s, gigabytes_per_s},
            {"link_efficiency", link_heading(options), "bus bandwidth over the link's bandwidth", &M::link_efficiency,
             describe_percent}};
}

Fields<CommModel> model_fields() {
    using M = CommModel;
    const auto operation = [](const M& model) { return operation_name(model.operation); };
    const auto group = [](const M& model) { return text_or_null(model.group); };
    const auto all_collectives = [](const M& model) { return format_count(model.collectives * model.one_in); };
    return {{"operation", "", "the operation, or other", operation},
            {"name", "operation", "the operation, or the phase where the operation is not known", &M::name},
            {"group", "group", "the kind of the groups, or the group; slow groups of a kind are apart", group,
             &M::group_label},
            {"groups", "groups", "groups of that kind", &M::groups},
            {"members", "", "the first of the groups, where the groups of a kind differ", &M::members},
            {"times_usual", "", "times as long as in most groups, where the groups of a kind differ", &M::times_usual},
            {"ranks", "ranks", "ranks of one group", &M::ranks},
            {"spans", "", "spans of the operation", &M::spans},
            {"spans_without_bytes", "", "those whose bytes are not known", &M::spans_without_bytes},
            {"total_ms", "", "time of all spans", &M::total_ms},
            {"collectives", "collectives", "collectives whose spans were matched over ranks", &M::collectives,
             all_collectives},
            {"one_in", "", "one of so many collectives was looked at", &M::one_in},
            {"incomplete_collectives", "", "collectives that too few ranks recorded", &M::lone_spans},
            {"wait_fraction", "waiting", "time that ranks waited for the last one, over time in spans",
             &M::wait_fraction, describe_percent},
            {"wait_of_step", "of steps", "the same over the time of steps", &M::wait_of_step, describe_percent},
            {"is_launch", "", "whether the host timed it, so that the bytes moved later", &M::is_launch},
            {"paid_gb_per_s", "paid", "all bytes over the time of all transfers", &M::paid_gb_per_s, gigabytes_per_s}};
}

/// Those of JSON, and what only tables have.
Fields<CommModel> table_fields(const CommOptions& options) {
    using M = CommModel;
    const auto sizes = [](const M& model) { return model.sizes.size(); };
    const auto slow = [](const M& model) {
        return model.sizes.empty() ? std::nullopt : std::optional(model.slow.share);
    };
    Fields<M> fields = model_fields();
    for (Field<M>& field : fit_fields(options)) fields.push_back(std::move(field));
    fields.emplace_back("refused", "no fit, because", "", [](const M& model) { return text_or_null(model.refused); });
    fields.emplace_back("sizes", "sizes", "distinct sizes", sizes);
    fields.emplace_back("slow_share", "slow", "transfers that take over 1.5 times the median of their size", slow,
                        describe_percent);
    return fields;
}

Fields<SizeReport> size_fields(const CommOptions& options) {
    using S = SizeReport;
    const auto of_point = [](auto member) { return [member](const S& size) { return size.point.*member; }; };
    const auto transfer = [](const S& size, double ms) {
        return DurationFormat(size.point.transfer_ms, size.p90_ms)(ms);
    };
    return {
        {"bytes", "bytes", "size of a collective", of_point(&SizePoint::bytes), format_bytes},
        {"collectives", "collectives", "collectives of that size", of_point(&SizePoint::collectives)},
        {"transfer_ms", "transfer p50", "median over collectives of the transfer", of_point(&SizePoint::transfer_ms),
         transfer},
        {"transfer_p90_ms", "p90", "of the transfer, over collectives", &S::p90_ms, transfer},
        {"transfer_mean_ms", "", "of the transfer, over collectives", &S::mean_ms},
        {"wait_ms", "wait p50", "median over collectives of the mean wait of a rank", &S::wait_ms, format_duration_ms},
        {"slow_share", "slow", "transfers that take over 1.5 times the median", &S::slow_share, describe_percent},
        {"algorithm_gb_per_s", "typical", "bytes over the median transfer", &S::algorithm_gb_per_s, gigabytes_per_s},
        {"paid_gb_per_s", "paid", "bytes over the mean transfer", &S::paid_gb_per_s, gigabytes_per_s},
        {"bus_gb_per_s", "bus p50", "what each rank sends, over the median transfer", &S::bus_gb_per_s,
         gigabytes_per_s},
        {"link_efficiency", link_heading(options), "bus bandwidth over the link's bandwidth", &S::link_efficiency,
         describe_percent}};
}

/// A size of a model; nullptr where the model has none.
struct SizeLine {
    const CommModel* model;
    const SizeReport* size;
};

// Its first columns repeat the model for programs, which read this table only.
Fields<SizeLine> line_fields(const CommOptions& options) {
    Fields<SizeLine> fields;
    add_within(fields,
               choose(table_fields(options),
                      "operation name group times_usual members -groups ranks:5 spans -collectives "
                      "-wait_fraction -alpha_us -beta_gb_per_s -r_squared -mean_relative_error "
                      "max_relative_error"),
               &SizeLine::model);
    add_within(fields,
               choose(size_fields(options),
                      "bytes collectives:3 transfer_ms transfer_p90_ms:1 wait_ms:2 algorithm_gb_per_s "
                      "paid_gb_per_s bus_gb_per_s:4 slow_share:1 link_efficiency:6"),
               &SizeLine::size);
    for (auto& [column, value, text, has_words_for_none, member] : fields) {
        if (column.key == "mean_relative_error") column.key = "mean_error";
        if (column.key == "max_relative_error") column.key = "max_error";
        if (column.key != "collectives" || column.heading.empty()) continue;
        column.key = "collectives_of_size";
        text = [](const SizeLine& line, const Value&) {
            return format_count(line.size->point.collectives * line.model->one_in);
        };
    }
    return fields;
}

Table size_table(const CommReport& report) {
    const Fields<SizeLine> fields = line_fields(report.options);
    Table table(columns_of(fields), "Sizes");
    for (const CommModel& model : report.models) {
        for (const SizeReport& size : model.sizes) table.add(cells_of(fields, {&model, &size}));
        if (model.sizes.empty()) table.add({cells_of(fields, {&model, nullptr}), false, true});
    }
    return table;
}

Fields<Prediction> prediction_fields(bool says_shards) {
    using P = Prediction;
    const auto figure = [](auto time, double PredictedTime::*which) {
        return [=](const P& one) { return one.*time ? std::optional((*(one.*time)).*which) : std::nullopt; };
    };
    // "1.23 ms (1.10 to 1.50)".
    const auto range = [](auto time) {
        return [time](const P& one) {
            const PredictedTime& found = *(one.*time);
            const DurationFormat format(found.low_ms, found.high_ms);
            return fmt::format("{} ({} to {})", format(found.ms), format(found.low_ms), format(found.high_ms));
        };
    };
    const auto faster = [](const P& one) { return text_or_null(one.faster()); };
    const auto beyond = [](const P& one) { return one.beyond_sizes ? "beyond the measured sizes" : ""; };
    return {
        {"bytes", "bytes", "size that the prediction is for, of the whole", &P::bytes, format_bytes},
        {"shard_bytes", says_shards ? "shard" : "", "the shard of a rank that the prediction is for", &P::shard_bytes,
         format_bytes},
        {"ranks", "ranks", "ranks that the prediction is for", &P::world},
        {"ring_ms", "ring (9 of 10)", "predicted transfer with a ring, and where 9 of 10 are",
         figure(&P::ring, &PredictedTime::ms), range(&P::ring)},
        {"ring_low_ms", "", "", figure(&P::ring, &PredictedTime::low_ms)},
        {"ring_high_ms", "", "", figure(&P::ring, &PredictedTime::high_ms)},
        {"tree_ms", "tree (9 of 10)", "the same with a tree", figure(&P::tree, &PredictedTime::ms), range(&P::tree)},
        {"tree_low_ms", "", "", figure(&P::tree, &PredictedTime::low_ms)},
        {"tree_high_ms", "", "", figure(&P::tree, &PredictedTime::high_ms)},
        {"faster", "faster", "the algorithm to choose", faster},
        {"beyond_sizes", "note", "whether the size is outside of the measured ones", &P::beyond_sizes, beyond}};
}

struct PredictionLine {
    const CommModel* model;
    const Prediction* prediction;
};

Table prediction_table(const CommReport& report) {
    Fields<PredictionLine> fields;
    add_within(fields, choose(model_fields(), "name group ranks:2"), &PredictionLine::model);
    fields.back().column.heading = "measured with";
    add_within(fields,
               choose(prediction_fields(report.options.shard_bytes),
                      "ranks shard_bytes bytes ring_ms tree_ms:1 faster beyond_sizes:3"),
               &PredictionLine::prediction);
    Table table(columns_of(fields), "Predictions");
    for (const CommModel& model : report.models)
        for (const Prediction& one : model.predictions) table.add(cells_of(fields, {&model, &one}));
    return table;
}

/// "all_reduce of dp".
std::string describe_model(const CommModel& model) {
    return fmt::format("{} of {}", model.name, model.group.empty() ? "unnamed groups" : model.group_label());
}

/// What the bus bandwidth says of the link that it is compared with, or of the rows.
std::string check_bandwidth(const CommModel& model) {
    constexpr double much = 1.05;
    const double bus = model.bus_gb_per_s.value_or(0);
    if (model.link_efficiency.value_or(0) > much)
        return fmt::format(
            "{}: {} on the bus is {:.0f} % of the link. Either part of the bytes takes a faster link (inside of a "
            "host), or the link does more than was said, or bytes are more than what moves",
            describe_model(model), gigabytes_per_s(bus), 100 * *model.link_efficiency);
    if (bus > link_limit_gb_per_s)
        return fmt::format("{}: {} on the bus is more than any link does: check what the rows say of bytes and times",
                           describe_model(model), gigabytes_per_s(bus));
    return "";
}

std::vector<std::string> make_notes(const CommReport& report) {
    std::vector<std::string> notes;
    std::size_t refusals = 0;
    std::size_t warnings = 0;
    std::uint64_t one_in = 1;
    for (const CommModel& model : report.models) {
        one_in = std::max(one_in, model.one_in);
        if (model.refused.empty() || refusals++ >= max_refusals_shown) continue;
        notes.push_back(fmt::format("no fit for {}: {}", describe_model(model), model.refused));
    }
    for (const CommModel& model : report.models)
        if (const std::string warning = check_bandwidth(model); !warning.empty() && warnings++ < max_refusals_shown)
            notes.push_back(warning);
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
        "of the size; error: of single transfers against the fit");
    const bool predicts = std::any_of(report.models.begin(), report.models.end(),
                                      [](const CommModel& model) { return !model.predictions.empty(); });
    if (predicts)
        notes.emplace_back(
            "faster: NCCL has trees for all_reduce, and from 2.23 on for all_gather and reduce_scatter (PAT); "
            "NCCL_ALGO chooses one, else it chooses itself");
    return notes;
}

void write_slow(JsonWriter& json, const SlowTransfers& slow) {
    const bool is_any = slow.pattern != SlowPattern::never;
    const auto if_any = [&](std::int64_t step) { return is_any ? std::optional(step) : std::nullopt; };
    json.members("share", slow.share, "pattern", slow_pattern_names[static_cast<std::size_t>(slow.pattern)],
                 "first_step", if_any(slow.first_step), "last_step", if_any(slow.last_step), "every_steps",
                 slow.every > 0 ? std::optional(slow.every) : std::nullopt);
}

void write_model(JsonWriter& json, const CommModel& model, const CommOptions& options) {
    write_fields(json, model_fields(), model);
    json.object("slow", [&] { write_slow(json, model.slow); });
    json.object_or_null("fit", model.fit, [&](const auto&) { write_fields(json, fit_fields(options), model); });
    json.members("refused", text_or_null(model.refused));
    write_records(json, "sizes", size_fields(options), model.sizes);
    write_records(json, "predictions", prediction_fields(true), model.predictions);
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
    json.objects("models", report.models, [&](const CommModel& model) { write_model(json, model, report.options); });
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
    if (slow != report.models.end()) text += describe_slow_groups(*slow) + ". ";
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

tool::Table model_table(const CommReport& report, std::string_view columns) {
    Table table = table_of(choose(table_fields(report.options), columns), report.models, "Operations");
    table.set_rest("operation", "with less time", report.left_out.models);
    return table;
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
    if (for_people)
        document.tables.push_back(model_table(
            *report,
            "name group groups:3 ranks collectives:7 wait_fraction wait_of_step:2 sizes:6 alpha_us "
            "beta_gb_per_s paid_gb_per_s slow_share:1 mean_relative_error p90_relative_error:8 r_squared:10 "
            "half_bytes:9 bus_gb_per_s:5 link_efficiency:4"));
    if (for_people || format == Format::csv) document.tables.push_back(size_table(*report));
    if (for_people) document.tables.push_back(prediction_table(*report));
    if (!report->models.empty()) document.notes = make_notes(*report);
    document.write_json = [report, headline = document.headline](JsonWriter& json) {
        write_report(json, *report, headline);
    };
    return document;
}

}  // namespace cep::comm
