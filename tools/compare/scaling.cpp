// SPDX-License-Identifier: Apache-2.0
#include "compare/scaling.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "base/units.hpp"
#include "show/fields.hpp"

namespace cep::compare {
namespace {

using namespace tool;

constexpr double worth_a_line = 0.002;  // of the time of a step

/// Start-up, restarts and steps done again say nothing of the size of a job.
bool is_of_steps(TimeKind piece) {
    return piece <= TimeKind::uncovered || piece == TimeKind::between;
}

std::string bar(double share) {
    constexpr double columns = 30;
    return std::string(static_cast<std::size_t>(std::lround(columns * std::clamp(share, 0.0, 1.0))), '#');
}

Fields<ScaledJob> job_fields() {
    using J = ScaledJob;
    const auto drawn = [](const J& job) { return bar(job.efficiency); };
    return {
        {"job", "job", "as on the command line", &J::name},
        {"ranks", "ranks", "", &J::ranks},
        {"step_ms", "step", "mean", &J::step_ms, format_duration_ms},
        {"efficiency", "work of a rank", "in a time, over that in the smallest job", &J::efficiency, describe_percent},
        {"", "of that in the smallest job", "", drawn}};
}

Table job_table(const Scaling& scaling) {
    Table table = table_of(job_fields(), scaling.jobs, "Scaling");
    table.keep_whole();
    return table;
}

/// A line for each piece, a column for each job but the smallest.
Table loss_table(const Scaling& scaling) {
    using Piece = std::size_t;
    const auto meaning = [](Piece piece, const Value&) { return std::string(piece_facts[piece].meaning); };
    Fields<Piece> fields = {
        {"piece", "lost to", "piece of the ledger", [](Piece piece) { return piece_facts[piece].key; }, meaning}};
    std::vector<Piece> order(piece_count);
    std::iota(order.begin(), order.end(), Piece{0});
    for (std::size_t i = 1; i < scaling.jobs.size(); ++i)
        fields.emplace_back(
            fmt::format("lost_{}", i), format_plural(static_cast<std::uint64_t>(scaling.jobs[i].ranks), "rank"),
            "share of the time of a step, more than in the smallest job",
            [&scaling, i](Piece piece) { return scaling.jobs[i].lost[piece]; },
            [](double lost) { return fmt::format("{:+.1f} %", 100 * lost); });
    std::erase_if(order, [&](Piece piece) {
        return std::all_of(scaling.jobs.begin() + 1, scaling.jobs.end(),
                           [&](const ScaledJob& job) { return std::abs(job.lost[piece]) < worth_a_line; });
    });
    const auto& largest = scaling.jobs.back().lost;
    std::stable_sort(order.begin(), order.end(), [&](Piece a, Piece b) { return largest[a] > largest[b]; });
    Table table = table_of(fields, order, "Where it is lost");
    table.keep_whole();
    return table;
}

std::string make_headline(const Scaling& scaling) {
    const ScaledJob& first = scaling.jobs.front();
    const ScaledJob& last = scaling.jobs.back();
    const auto most = std::max_element(last.lost.begin(), last.lost.end()) - last.lost.begin();
    std::string text = fmt::format("On {:.0f} ranks, a rank does {} of the work that it does on {:.0f}", last.ranks,
                                   format_percent(last.efficiency), first.ranks);
    if (last.efficiency < 1 && last.lost[static_cast<std::size_t>(most)] >= worth_a_line)
        text += fmt::format("; most of the difference is {}", piece_facts[static_cast<std::size_t>(most)].meaning);
    return text + ".";
}

void write_json(JsonWriter& json, const Scaling& scaling) {
    json.members("schema", "cep.scaling/1", "unit", scaling.unit);
    json.objects("jobs", scaling.jobs, [&](const ScaledJob& job) {
        write_fields(json, job_fields(), job);
        for (const auto& member : {std::pair("pieces_ms", &job.pieces_ms), std::pair("lost", &job.lost)})
            json.object(member.first, [&] {
                for (std::size_t piece = 0; piece < piece_count; ++piece)
                    if (job.pieces_ms[piece] != 0 || job.lost[piece] != 0)
                        json.members(piece_facts[piece].key, (*member.second)[piece]);
            });
    });
}

}  // namespace

ScaledJob scaled_job(std::string name, const Job& job, const Ledger& ledger) {
    ScaledJob scaled;
    scaled.name = std::move(name);
    scaled.ranks = static_cast<double>(job.coverage.ranks_expected.value_or(job.coverage.ranks_seen));
    for (std::size_t piece = 0; piece < piece_count; ++piece) {
        if (!is_of_steps(static_cast<TimeKind>(piece)) || !(ledger.run.steps > 0)) continue;
        scaled.pieces_ms[piece] = ledger.mean_ms(static_cast<TimeKind>(piece)) / ledger.run.steps;
        scaled.step_ms += scaled.pieces_ms[piece];
    }
    for (const auto& [rank, series] : job.ranks) {
        const RankRole role = role_of(rank, series);
        scaled.tokens = std::max(scaled.tokens, role.tokens_per_step.value_or(0));
        scaled.flops += role.flops_per_step.value_or(0);
    }
    return scaled;
}

Scaling compare_scaling(std::vector<ScaledJob> jobs) {
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const ScaledJob& a, const ScaledJob& b) { return a.ranks < b.ranks; });
    const auto all_have = [&](double ScaledJob::*work) {
        return std::all_of(jobs.begin(), jobs.end(), [&](const ScaledJob& job) { return job.*work > 0; });
    };
    Scaling scaling;
    scaling.unit = all_have(&ScaledJob::flops) ? "FLOP" : all_have(&ScaledJob::tokens) ? "token" : "step of a rank";
    const auto work_of = [&](const ScaledJob& job) {
        return scaling.unit == "FLOP" ? job.flops / job.ranks : scaling.unit == "token" ? job.tokens / job.ranks : 1;
    };
    const ScaledJob first = jobs.front();
    for (ScaledJob& job : jobs) {
        const double same_work = work_of(first) / work_of(job);
        job.efficiency = first.step_ms / (job.step_ms * same_work);
        for (std::size_t piece = 0; piece < piece_count; ++piece)
            job.lost[piece] = (job.pieces_ms[piece] * same_work - first.pieces_ms[piece]) / (job.step_ms * same_work);
    }
    scaling.jobs = std::move(jobs);
    return scaling;
}

Document make_document(Scaling compared) {
    const auto scaling = std::make_shared<const Scaling>(std::move(compared));
    Document document;
    document.title = "Scaling";
    document.headline = make_headline(*scaling);
    document.tables = {job_table(*scaling), loss_table(*scaling)};
    document.notes = {fmt::format("work: {}{}; shares are of the time of a step, and add up to what is lost",
                                  scaling->unit,
                                  scaling->unit == "step of a rank" ? ", as not all jobs say FLOPs or tokens" : "s")};
    document.write_json = [scaling](JsonWriter& json) { write_json(json, *scaling); };
    return document;
}

}  // namespace cep::compare
