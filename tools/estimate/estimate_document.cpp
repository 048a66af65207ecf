// SPDX-License-Identifier: Apache-2.0
#include "estimate/estimate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/units.hpp"
#include "show/fields.hpp"

namespace cep::estimate {
namespace {

using tool::Field;
using tool::Fields;
using tool::Table;

/// "1.29 P" of 1.29e15, by the letters of powers of 1000.
std::string with_letter(double value, std::string_view letters) {
    std::size_t power = 0;
    for (; value >= 1000 && power < letters.size(); ++power) value /= 1000;
    return power == 0 ? fmt::format("{:.4g} ", value) : fmt::format("{:.3g} {}", value, letters[power - 1]);
}

std::string format_number(double value) {
    if (value < 1e6) return tool::format_count(static_cast<std::uint64_t>(std::llround(value)));
    std::string text = with_letter(value, "kMBT");
    return text.erase(text.find(' '), 1);
}

std::string format_flops(double value) {
    return with_letter(value, "kMGTPEZY") + "FLOP";
}

std::string format_figure(double value, Unit unit) {
    switch (unit) {
        case Unit::flops:
            return format_flops(value);
        case Unit::bytes:
            return tool::format_bytes(value);
        case Unit::ms:
            return tool::format_duration_ms(value);
        case Unit::share:
            return tool::format_percent(value);
        case Unit::number:
            break;
    }
    return format_number(value);
}

/// A figure, and the key of its section.
struct FigureLine {
    std::string_view section;
    const Figure* figure;
};

Fields<FigureLine> figure_fields(const std::string& title) {
    using L = FigureLine;
    const auto of = [](auto member) { return [member](const L& line) { return line.figure->*member; }; };
    const auto text = [](const L& line, double value) { return format_figure(value, line.figure->unit); };
    return {{"section", "", "part of the estimate", &L::section},
            {"key", "", "name in JSON", of(&Figure::key)},
            {"", title, "", of(&Figure::name)},
            {"value", "estimate", "in FLOPs, bytes, ms, or a share", of(&Figure::value), text},
            {"how", "how", "formula", of(&Figure::how), [](const L& line) { return line.figure->how; }}};
}

Table figure_table(const std::vector<Section>& sections, const std::string& title, bool for_people) {
    const Fields<FigureLine> fields = figure_fields(title);
    Table table(columns_of(fields), title);
    for (const Section& section : sections)
        for (const Figure& figure : section.figures) table.add({cells_of(fields, {section.key, &figure}), for_people});
    table.keep_whole();
    return table;
}

const BucketSize* best_of(const std::vector<BucketSize>& sizes) {
    const auto best = std::min_element(sizes.begin(), sizes.end(), [](const BucketSize& one, const BucketSize& other) {
        return one.exposed_ms < other.exposed_ms;
    });
    return best == sizes.end() ? nullptr : &*best;
}

Fields<BucketSize> bucket_fields(const BucketSize* best) {
    using B = BucketSize;
    const auto megabytes = [best](const B& size) {
        return fmt::format("{} MiB{}", size.megabytes, &size == best ? " (best)" : "");
    };
    return {{"megabytes", "bucket", "bucket_cap_mb", &B::megabytes, megabytes},
            {"buckets", "buckets", "in a step", &B::buckets},
            {"transfer_ms", "transfers", "of all buckets", &B::transfer_ms, tool::format_duration_ms},
            {"exposed_ms", "after backward", "what of them backward does not hide", &B::exposed_ms,
             tool::format_duration_ms},
            {"step_ms", "step", "by the replay", &B::step_ms, tool::format_duration_ms}};
}

Fields<Change> change_fields() {
    using C = Change;
    return {{"key", "", "name in JSON", &C::key},
            {"", "what if", "", &C::what},
            {"ranks", "ranks", "", &C::ranks},
            {"step_ms", "step", "by the replay", &C::step_ms, tool::format_duration_ms},
            {"speed", "work of a rank", "in a time, over what it does now", &C::speed, tool::format_percent}};
}

template <typename Record>
Table whole_table(const Fields<Record>& fields, const std::vector<Record>& records, std::string title) {
    Table table = table_of(fields, records, std::move(title));
    table.keep_whole();
    return table;
}

const Figure* find(const Estimate& estimate, std::string_view section, std::string_view key) {
    for (const Section& one : estimate.sections)
        for (const Figure& figure : one.figures)
            if (one.key == section && figure.key == key) return &figure;
    return nullptr;
}

std::string make_headline(const WhatIf& what_if) {
    constexpr double least = 0.01;
    if (!what_if.reason.empty()) return "Nothing can be said of other settings: " + what_if.reason + ".";
    const BucketSize* const best = best_of(what_if.buckets);
    const double saving = best == nullptr ? 0 : 1 - best->step_ms / what_if.step_ms;
    if (best == nullptr) return fmt::format("A step takes {}.", tool::format_duration_ms(what_if.step_ms));
    if (!what_if.latency_is_known)
        return fmt::format("A step takes {}, with buckets of {:.4g} MiB.", tool::format_duration_ms(what_if.step_ms),
                           what_if.bucket_bytes / 1048576);
    if (saving < least)
        return fmt::format("A step takes {}; no other size of DDP's buckets makes it over 1 % shorter.",
                           tool::format_duration_ms(what_if.step_ms));
    return fmt::format("With DDP buckets of {} MiB, steps would take {} less time ({} → {}).", best->megabytes,
                       tool::format_percent(saving), tool::format_duration_ms(what_if.step_ms),
                       tool::format_duration_ms(best->step_ms));
}

std::string make_headline(const Estimate& estimate) {
    std::string text = fmt::format("A model of {} parameters takes {} for each token",
                                   format_figure(find(estimate, "flops", "parameters")->value, Unit::number),
                                   format_figure(find(estimate, "flops", "flops_per_token")->value, Unit::flops));
    text += fmt::format(" and {} on each rank", format_figure(find(estimate, "memory", "peak")->value, Unit::bytes));
    if (find(estimate, "memory", "activations") == nullptr) text += " without its activations";
    if (const Figure* const mfu = find(estimate, "speed", "mfu"); mfu != nullptr)
        text += fmt::format("; its MFU is {}{}", tool::format_percent(mfu->value),
                            mfu->value > 1 ? ", which cannot be: look at the peak, the tokens and the time" : "");
    return text + ".";
}

std::vector<tool::Fact> make_facts(const Training& training) {
    const Layout& layout = training.layout;
    std::vector<tool::Fact> facts = {
        {"layout", fmt::format("{}: dp {}, tp {}, pp {}, ep {}; ZeRO {}",
                               tool::format_plural(static_cast<std::uint64_t>(layout.ranks), "rank"), layout.dp(),
                               layout.tp, layout.pp, layout.ep, layout.zero)}};
    if (training.machine.peak_flops)
        facts.push_back(
            {"device", fmt::format("{}{}/s", training.machine.device.empty() ? "" : training.machine.device + ", ",
                                   format_flops(*training.machine.peak_flops))});
    return facts;
}

void write_json(tool::JsonWriter& json, const Estimate& estimate) {
    json.members("schema", "cep.estimate/2");
    const Layout& layout = estimate.training.layout;
    json.object("layout", [&] {
        json.members("ranks", layout.ranks, "dp", layout.dp(), "tp", layout.tp, "pp", layout.pp, "ep", layout.ep,
                     "zero", layout.zero, "chunks", layout.chunks);
    });
    for (const Section& section : estimate.sections)
        json.object(section.key, [&] {
            for (const Figure& figure : section.figures)
                json.object(figure.key, [&] { json.members("value", figure.value, "how", figure.how); });
        });
}

void write_json(tool::JsonWriter& json, const WhatIf& what_if, const std::string& job) {
    json.members("schema", "cep.estimate/2", "job", job);
    json.object("what_if", [&] {
        json.members("reason", what_if.reason, "step_ms", what_if.step_ms, "replay_error", what_if.error,
                     "bucket_bytes", what_if.bucket_bytes, "latency_is_known", what_if.latency_is_known);
        write_records(json, "changes", change_fields(), what_if.changes);
        write_records(json, "buckets", bucket_fields(nullptr), what_if.buckets);
    });
}

}  // namespace

tool::Document make_document(Estimate made) {
    const auto estimate = std::make_shared<const Estimate>(std::move(made));
    tool::Document document;
    document.title = "Estimate";
    document.headline = make_headline(*estimate);
    document.facts = make_facts(estimate->training);
    for (const Section& section : estimate->sections)
        document.tables.push_back(figure_table({section}, section.title, true));
    document.notes = {"formulas, their sources and what they leave out: cep-estimate(1)"};
    document.csv_table = document.tables.size();
    document.tables.push_back(figure_table(estimate->sections, "Figures", false));
    document.write_json = [estimate](tool::JsonWriter& json) { write_json(json, *estimate); };
    return document;
}

tool::Document make_document(WhatIf made, const std::string& job) {
    const auto what_if = std::make_shared<const WhatIf>(std::move(made));
    tool::Document document;
    document.title = "What if";
    document.headline = make_headline(*what_if);
    if (what_if->reason.empty())
        document.facts = {{"replay", fmt::format("{:+.1f} % off the steps that were observed, {} on average",
                                                 100 * what_if->error, tool::format_duration_ms(what_if->step_ms))}};
    if (!what_if->buckets.empty())
        document.facts.push_back({"buckets", fmt::format("most of {:.4g} MiB", what_if->bucket_bytes / 1048576)});
    document.tables = {
        whole_table(change_fields(), what_if->changes, "What if"),
        whole_table(bucket_fields(best_of(what_if->buckets)), what_if->buckets, "What if DDP's buckets were of")};
    document.notes = what_if->notes;
    document.notes.emplace_back("what the figures rest on: cep-estimate(1)");
    document.write_json = [what_if, job](tool::JsonWriter& json) { write_json(json, *what_if, job); };
    return document;
}

}  // namespace cep::estimate
