// SPDX-License-Identifier: Apache-2.0
#include "estimate/estimate_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/units.hpp"

namespace cep::estimate {
namespace {

using tool::Align;
using tool::Cell;
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

Table figure_table(const Section& section, bool has_measured) {
    std::vector<tool::Column> columns = {{"section", "", Align::left, "", "part of the estimate"},
                                         {"key", "", Align::left, "", "name in JSON"},
                                         {"", section.title, Align::left},
                                         {"value", "estimate", Align::right, "", "in FLOPs, bytes, ms, or a share"}};
    if (has_measured) columns.push_back({"measured", "measured", Align::right, "", "by the job"});
    columns.push_back({"how", "how", Align::left, "", "formula"});
    Table table(std::move(columns), section.title);
    for (const Figure& figure : section.figures) {
        std::vector<Cell> cells = {Cell::text_of(section.key), Cell::text_of(figure.key), Cell::words(figure.name),
                                   Cell::shown(figure.value, format_figure(figure.value, figure.unit))};
        if (has_measured)
            cells.push_back(
                Cell::shown_if(figure.measured, [&](double value) { return format_figure(value, figure.unit); }));
        cells.push_back(Cell::shown(figure.how, figure.how));
        table.add(std::move(cells));
    }
    table.keep_whole();
    return table;
}

/// All figures, for CSV.
Table all_table(const Estimate& estimate, bool has_measured) {
    Section all{"", "Figures", {}};
    Table table = figure_table(all, has_measured);
    for (const Section& section : estimate.sections) {
        const Table figures = figure_table(section, has_measured);
        for (Table::Line line : figures.lines()) {
            line.for_people = false;
            table.add(std::move(line));
        }
    }
    return table;
}

const BucketSize* best_of(const std::vector<BucketSize>& sizes) {
    const auto best = std::min_element(sizes.begin(), sizes.end(), [](const BucketSize& one, const BucketSize& other) {
        return one.exposed_ms < other.exposed_ms;
    });
    return best == sizes.end() ? nullptr : &*best;
}

Table bucket_table(const std::vector<BucketSize>& sizes, double backward_ms) {
    const bool is_replayed = sizes.front().step_ms.has_value();
    Table table({{"megabytes", "bucket", Align::right, "MiB", "bucket_cap_mb"},
                 {"buckets", "buckets", Align::right, "", "in a step"},
                 {"transfer_ms", "transfers", Align::right, "ms", "of all buckets"},
                 {"exposed_ms", "after backward", Align::right, "ms", "what of them backward does not hide"},
                 is_replayed ? tool::Column{"step_ms", "step", Align::right, "ms", "by the replay"}
                             : tool::Column{"backward_ms", "backward with them", Align::right, "ms",
                                            "until the last gradient is there"}},
                is_replayed ? "What if DDP's buckets were of" : "DDP buckets");
    const BucketSize* const best = best_of(sizes);
    const auto time = [](double ms) { return Cell::shown(ms, tool::format_duration_ms(ms)); };
    for (const BucketSize& size : sizes)
        table.add({Cell::shown(size.megabytes, fmt::format("{} MiB{}", size.megabytes, &size == best ? " (best)" : "")),
                   Cell::count(static_cast<std::uint64_t>(size.buckets)), time(size.transfer_ms), time(size.exposed_ms),
                   time(size.step_ms.value_or(backward_ms + size.exposed_ms))});
    table.keep_whole();
    return table;
}

Table change_table(const WhatIf& what_if) {
    Table table({{"key", "", Align::left, "", "name in JSON"},
                 {"", "what if", Align::left},
                 {"ranks", "ranks", Align::right, "", ""},
                 {"step_ms", "step", Align::right, "ms", "by the replay"},
                 {"speed", "work of a rank", Align::right, "", "in a time, over what it does now"}},
                "What if");
    for (const Change& change : what_if.changes)
        table.add({Cell::text_of(change.key), Cell::words(change.what),
                   Cell::count(static_cast<std::uint64_t>(change.ranks)),
                   Cell::shown(change.step_ms, tool::format_duration_ms(change.step_ms)),
                   Cell::shown(change.speed, tool::format_percent(change.speed))});
    table.keep_whole();
    return table;
}

const Figure* find(const Estimate& estimate, std::string_view section, std::string_view key) {
    for (const Section& one : estimate.sections)
        for (const Figure& figure : one.figures)
            if (one.key == section && figure.key == key) return &figure;
    return nullptr;
}

/// For a job alone.
std::string make_headline(const WhatIf& what_if) {
    constexpr double least = 0.01;
    if (!what_if.reason.empty()) return "Nothing can be said of other settings: " + what_if.reason + ".";
    const BucketSize* const best = best_of(what_if.buckets);
    const double saving = best == nullptr ? 0 : 1 - *best->step_ms / what_if.step_ms;
    if (best == nullptr) return fmt::format("A step takes {}.", tool::format_duration_ms(what_if.step_ms));
    if (!what_if.latency_is_known)
        return fmt::format("A step takes {}, with buckets of {:.4g} MiB.", tool::format_duration_ms(what_if.step_ms),
                           what_if.bucket_bytes / 1048576);
    if (saving < least)
        return fmt::format("A step takes {}; no other size of DDP's buckets makes it over 1 % shorter.",
                           tool::format_duration_ms(what_if.step_ms));
    return fmt::format("With DDP buckets of {} MiB, steps would take {} less time ({} → {}).", best->megabytes,
                       tool::format_percent(saving), tool::format_duration_ms(what_if.step_ms),
                       tool::format_duration_ms(*best->step_ms));
}

std::string make_headline(const Estimate& estimate) {
    if (estimate.sections.empty()) return make_headline(*estimate.what_if);
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

std::vector<tool::Fact> make_facts(const Estimate& estimate, const std::string& measured) {
    const Training& training = estimate.training;
    const Layout& layout = training.layout;
    std::vector<tool::Fact> facts = {
        {"layout", fmt::format("{}: dp {}, tp {}, pp {}, ep {}; ZeRO {}",
                               tool::format_plural(static_cast<std::uint64_t>(layout.ranks), "rank"), layout.dp(),
                               layout.tp, layout.pp, layout.ep, layout.zero)}};
    if (training.machine.peak_flops)
        facts.push_back(
            {"device", fmt::format("{}{}/s", training.machine.device.empty() ? "" : training.machine.device + ", ",
                                   format_flops(*training.machine.peak_flops))});
    if (!measured.empty()) facts.push_back({"measured", measured});
    if (!estimate.what_if || !estimate.what_if->reason.empty()) return facts;
    facts.push_back(
        {"replay", fmt::format("{:+.1f} % off the steps that were observed, {} on average",
                               100 * estimate.what_if->error, tool::format_duration_ms(estimate.what_if->step_ms))});
    if (estimate.what_if->bucket_bytes > 0 && !estimate.what_if->buckets.empty())
        facts.push_back({"buckets", fmt::format("most of {:.4g} MiB", estimate.what_if->bucket_bytes / 1048576)});
    return facts;
}

void write_json(tool::JsonWriter& json, const Estimate& estimate, const std::string& measured) {
    json.members("schema", "cep.estimate/1", "measured", measured.empty() ? std::nullopt : std::optional(measured));
    const Layout& layout = estimate.training.layout;
    json.object("layout", [&] {
        json.members("ranks", layout.ranks, "dp", layout.dp(), "tp", layout.tp, "pp", layout.pp, "ep", layout.ep,
                     "zero", layout.zero, "chunks", layout.chunks);
    });
    for (const Section& section : estimate.sections)
        json.object(section.key, [&] {
            for (const Figure& figure : section.figures)
                json.object(figure.key, [&] {
                    json.members("value", figure.value, "measured", figure.measured, "how", figure.how);
                });
        });
    const auto write_bucket = [&](const BucketSize& size) {
        json.members("megabytes", size.megabytes, "buckets", size.buckets, "transfer_ms", size.transfer_ms,
                     "exposed_ms", size.exposed_ms);
        if (size.step_ms) json.members("step_ms", *size.step_ms);
    };
    json.objects("buckets", estimate.buckets, write_bucket);
    if (!estimate.what_if) return;
    const WhatIf& what_if = *estimate.what_if;
    json.object("what_if", [&] {
        json.members("reason", what_if.reason, "step_ms", what_if.step_ms, "replay_error", what_if.error,
                     "bucket_bytes", what_if.bucket_bytes, "latency_is_known", what_if.latency_is_known);
        json.objects("changes", what_if.changes, [&](const Change& change) {
            json.members("key", change.key, "ranks", change.ranks, "step_ms", change.step_ms, "speed", change.speed);
        });
        json.objects("buckets", what_if.buckets, write_bucket);
    });
}

}  // namespace

tool::Document make_document(Estimate made, const std::string& measured) {
    const auto estimate = std::make_shared<const Estimate>(std::move(made));
    tool::Document document;
    document.title = "Estimate";
    document.headline = make_headline(*estimate);
    document.facts = make_facts(*estimate, measured);
    for (const Section& section : estimate->sections)
        document.tables.push_back(figure_table(section, !measured.empty()));
    if (!estimate->buckets.empty())
        document.tables.push_back(bucket_table(estimate->buckets, estimate->training.machine.backward_ms));
    document.notes = {"formulas, their sources and what they leave out: cep-estimate(1)"};
    if (const auto& what_if = estimate->what_if) {
        if (!what_if->changes.empty()) document.tables.push_back(change_table(*what_if));
        if (!what_if->buckets.empty()) document.tables.push_back(bucket_table(what_if->buckets, 0));
        document.notes.insert(document.notes.begin(), what_if->notes.begin(), what_if->notes.end());
        if (!what_if->reason.empty() && !estimate->sections.empty())
            document.notes.insert(document.notes.begin(), "what if: " + what_if->reason);
    }
    document.csv_table = document.tables.size();
    document.tables.push_back(all_table(*estimate, !measured.empty()));
    document.write_json = [estimate, measured](tool::JsonWriter& json) { write_json(json, *estimate, measured); };
    return document;
}

}  // namespace cep::estimate
