// SPDX-License-Identifier: Apache-2.0
#include "advice/ledger_document.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.hpp"
#include "show/fields.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t most_lines = 10;
constexpr double worth_a_line = 0.001;  // of the time
constexpr double worth_saying = 0.05;   // by which the mean step and the typical one differ
constexpr double worth_saying_of_stride = 0.02;

std::string format_seconds(double ms) {
    const double seconds = ms * 1e-3;
    if (seconds >= 36'000) return fmt::format("{:.1f} h", seconds / 3600);
    return seconds >= 100 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.{}f} s", seconds, seconds >= 10 ? 1 : 2);
}

std::string format_hours(double hours) {
    return hours >= 100   ? fmt::format("{:.0f}", hours)
           : hours >= 0.1 ? fmt::format("{:.1f}", hours)
                          : fmt::format("{:.4f}", hours);
}

struct LossLine {
    std::string_view meaning;
    TimeLoss loss;
};

Fields<TimeLoss> loss_fields() {
    using L = TimeLoss;
    using F = Field<L>;
    return {{"", "time", "", &L::ms, format_seconds},
            {"", "share", "", &L::share, describe_percent},
            F("", "GPU-hours", "", &L::gpu_hours, format_hours).detail(2),
            F("", "phase and steps", "", &L::where).detail(1)};
}

void write_throughput(JsonWriter& json, const Throughput& throughput) {
    json.members("elapsed_ms", throughput.elapsed_ms, "steps", throughput.steps, "step_ms", throughput.step_ms,
                 "tokens_per_s", throughput.tokens_per_s, "mfu", throughput.mfu, "hfu", throughput.hfu);
}

void write_losses(JsonWriter& json, const std::vector<TimeLoss>& losses) {
    json.objects("losses", losses, [&](const TimeLoss& loss) {
        json.members("id", facts_of(loss.piece).key, "piece", facts_of(loss.piece).key, "ms", loss.ms, "share",
                     loss.share, "gpu_hours", loss.gpu_hours, "phase", text_or_null(loss.phase), "steps",
                     text_or_null(loss.steps), "ranks", loss.ranks, "what", loss.describe(), "next", loss.next, "check",
                     loss.check, "guide", fmt::format("advice.html#{}", facts_of(loss.piece).key));
    });
}

std::string describe_sampling(const SamplingFact& sampling) {
    return fmt::format("a recorded step takes {}, one of those between them {}: {}",
                       format_duration_ms(sampling.recorded_ms), format_duration_ms(sampling.other_ms),
                       sampling.other_ms < sampling.recorded_ms
                           ? "what only recorded steps have counts once, not for each step"
                           : "something happens in steps that are not recorded");
}

/// The readings of rows without starts, the one that is taken first.
void write_readings(JsonWriter& json, const Ledger& ledger) {
    if (!ledger.other_reading_ms) return static_cast<void>(json.key("readings").null());
    const double mean_ms = ledger.step_times.mean_ms;
    const double other_ms = *ledger.other_reading_ms;
    constexpr std::string_view beside = "phases in front of the step span are beside it";
    constexpr std::string_view inside = "phases in front of the step span are inside of it";
    json.objects("readings", std::array{mean_ms, other_ms}, [&](double ms) {
        const bool is_longer = ms > (ms == mean_ms ? other_ms : mean_ms);
        json.members("what", is_longer ? beside : inside, "step_ms", ms);
    });
}

std::vector<const PhaseLedger*> by_time(const Ledger& ledger) {
    std::vector<const PhaseLedger*> phases;
    for (const PhaseLedger& phase : ledger.phases) phases.push_back(&phase);
    std::stable_sort(phases.begin(), phases.end(),
                     [](const PhaseLedger* a, const PhaseLedger* b) { return a->visible_ms > b->visible_ms; });
    return phases;
}

void write_ranks(JsonWriter& json, const Ledger& ledger) {
    json.objects("ranks", ledger.ranks, [&](const RankLedger& rank) {
        json.members("rank", rank.rank, "elapsed_ns", rank.elapsed_ns, "steps", rank.steps);
        json.object("pieces_ns", [&] {
            for (std::size_t i = 0; i < piece_count; ++i)
                if (rank.pieces.ns[i] != 0) json.members(piece_facts[i].key, rank.pieces.ns[i]);
        });
    });
}

}  // namespace

Table ledger_table(const Ledger& ledger, const std::vector<TimeLoss>& losses) {
    std::vector<LossLine> lines;
    for (const TimeLoss& loss : losses) lines.push_back({facts_of(loss.piece).meaning, loss});
    TimeLoss compute;
    compute.piece = TimeKind::compute;
    compute.ms = ledger.mean_ms(TimeKind::compute);
    compute.share = ledger.share(TimeKind::compute);
    compute.gpu_hours = gpu_hours(ledger.pieces[TimeKind::compute]);
    const auto at =
        std::find_if(lines.begin(), lines.end(), [&](const LossLine& line) { return line.loss.ms < compute.ms; });
    lines.insert(at, {facts_of(TimeKind::compute).meaning, compute});
    lines.resize(std::min(lines.size(), most_lines - 2));
    TimeLoss all;
    all.ms = ledger.mean_elapsed_ms();
    all.share = 1;
    all.gpu_hours = gpu_hours(ledger.elapsed_ns);
    TimeLoss rest = all;
    for (const LossLine& line : lines) {
        rest.ms -= line.loss.ms;
        rest.gpu_hours -= line.loss.gpu_hours;
        rest.share -= line.loss.share;
    }
    if (rest.share >= worth_a_line) lines.push_back({"all the rest", rest});
    lines.push_back({ledger.is_timed ? "all" : "all recorded steps", all});
    if (ledger.empty()) lines.clear();
    Fields<LossLine> fields = {{"", "where the time went", "", &LossLine::meaning}};
    add_within(fields, loss_fields(), &LossLine::loss);
    Table table = table_of(fields, lines, "Where the time went");
    table.keep_whole();
    return table;
}

std::vector<std::string> describe_steps(const Ledger& ledger) {
    std::vector<std::string> lines;
    if (ledger.empty()) return lines;
    const StepTimes& times = ledger.step_times;
    std::string text = fmt::format("a step takes {} on average", format_duration_ms(times.mean_ms));
    if (std::abs(times.mean_ms - times.typical_ms) > worth_saying * times.typical_ms)
        text += fmt::format("; the typical one {}, one in a hundred more than {}", format_duration_ms(times.typical_ms),
                            format_duration_ms(times.p99_ms));
    lines.push_back(text);
    if (const auto& sampling = ledger.sampling;
        sampling && std::abs(sampling->other_ms - sampling->recorded_ms) > worth_saying_of_stride * times.mean_ms)
        lines.push_back(describe_sampling(*sampling));
    if (ledger.pieces[TimeKind::restart] > 0)
        lines.push_back(fmt::format("between attempts the job stood still for {}, {} of its time",
                                    format_duration_ms(ledger.mean_ms(TimeKind::restart)),
                                    format_percent(ledger.share(TimeKind::restart))));
    if (ledger.pieces[TimeKind::redone] > 0)
        lines.push_back(fmt::format("steps that a later attempt did again took {}, {} of the time",
                                    format_duration_ms(ledger.mean_ms(TimeKind::redone)),
                                    format_percent(ledger.share(TimeKind::redone))));
    if (ledger.other_reading_ms)
        lines.push_back(fmt::format(
            "rows have no starts: read the other way, with the phases in front of the step span {} it, a step "
            "takes {}",
            *ledger.other_reading_ms > times.mean_ms ? "beside" : "inside of",
            format_duration_ms(*ledger.other_reading_ms)));
    return lines;
}

void write_ledger(JsonWriter& json, const Ledger& ledger, const std::vector<TimeLoss>& losses) {
    json.object_or_null("ledger", ledger.empty() ? nullptr : &ledger, [&](const Ledger& of_job) {
        double steps = 0;
        for (const RankLedger& rank : of_job.ranks)
            steps += static_cast<double>(rank.steps) / static_cast<double>(of_job.ranks.size());
        json.members("elapsed_ms", of_job.mean_elapsed_ms(), "gpu_hours", gpu_hours(of_job.elapsed_ns), "steps", steps,
                     "recorded_steps", of_job.steps.size(), "goodput", of_job.share(TimeKind::compute), "is_timed",
                     of_job.is_timed);
        json.key("pieces").begin_array();
        for (std::size_t i = 0; i < piece_count; ++i) {
            json.begin_object();
            json.members("piece", piece_facts[i].key, "ms", of_job.mean_ms(TimeKind(i)), "share",
                         of_job.share(TimeKind(i)), "gpu_hours", gpu_hours(of_job.pieces.ns[i]));
            json.end_object();
        }
        json.end_array();
        json.object("step_ms", [&] {
            const StepTimes& times = of_job.step_times;
            json.members("mean", times.mean_ms, "typical", times.typical_ms, "sd", times.sd_ms, "p90", times.p90_ms,
                         "p99", times.p99_ms, "max", times.max_ms);
        });
        json.object("run", [&] { write_throughput(json, of_job.run); });
        json.object("steady", [&] { write_throughput(json, of_job.steady); });
        json.objects("phases", by_time(of_job), [&](const PhaseLedger* phase) {
            const double ms = phase->visible_ms / static_cast<double>(of_job.ranks.size());
            json.members("name", phase->name, "kind", schema::kind_name(phase->kind), "piece",
                         facts_of(phase->piece).key, "ms", ms, "share", of_job.share(*phase));
        });
        write_losses(json, losses);
        json.object_or_null("sampling", of_job.sampling, [&](const SamplingFact& sampling) {
            json.members("stride", of_job.stride, "recorded_step_ms", sampling.recorded_ms, "other_step_ms",
                         sampling.other_ms, "what", describe_sampling(sampling));
        });
        write_readings(json, of_job);
        write_ranks(json, of_job);
    });
}

}  // namespace cep::tool
