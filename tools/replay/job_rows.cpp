// SPDX-License-Identifier: Apache-2.0
#include "replay/job_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace cep::tool {
namespace {

constexpr double ns_per_row_ms = 1e6;
constexpr std::uint16_t host_stream = 1024;  // one more than Sample::max_stream
constexpr std::uint16_t unnamed_comm_stream = 1025;
constexpr double most_without_start = 0.01;  // of all rows

}  // namespace

JobRows::JobRows(const Job& job) {
    if (job.choice.keeps_none()) {
        reason_ = "more durations than are kept";
        return;
    }
    if (job.filter.has_phases()) {
        reason_ = "only some phases were asked for";
        return;
    }
    collect_steps(job);
    spans_.reserve(job.ranks.size());
    const StepPhase step_phase = find_step_phase(all_series(job.ranks));
    for (const auto& [rank, of_rank] : job.ranks) add_rank(rank, of_rank, step_phase.name);
    constexpr std::size_t most_means = 16'000'000;  // each is a few bytes in some table
    if (count_ == 0) {
        reason_ = "there are no spans";
    } else if (ranks_.size() < 2) {
        reason_ = "there is one rank only";
    } else if (ranks_.size() * std::max(names_.size(), steps_.size()) > most_means) {
        reason_ = "there are too many phases or steps for so many ranks";
    } else if (static_cast<double>(without_start_) > most_without_start * static_cast<double>(count_)) {
        reason_ = "spans have no start times";
    }
}

void JobRows::collect_steps(const Job& job) {
    steps_ = all_steps(job.ranks);
    std::erase_if(steps_, [&job](std::int64_t step) { return !job.choice.keeps(step); });
    const std::vector<bool> is_uneven = find_uneven_steps(job.ranks, steps_);
    const std::optional<EarlyEnd> end = find_early_end(job.ranks, steps_);
    for (std::uint32_t place = 0; place < steps_.size(); ++place)
        if ((is_uneven.empty() || !is_uneven[place]) && !(end && end->is_behind(steps_[place])))
            even_steps_.push_back(place);
}

void JobRows::add_rank(std::int64_t rank, const std::vector<RunSeries>& of_rank, std::string_view step_phase) {
    const RunInfo& run = of_rank.back().run;
    PlacedRank& placed = ranks_.emplace_back();
    placed.rank = rank;
    placed.place = {run.pp, run.dp, run.tp, run.ep, run.cp};
    placed.host_is_known = !run.host.empty();
    placed.host = host_of(run.host);
    const RankSpans* const before = spans_.empty() ? nullptr : &spans_.back().spans;
    spans_.push_back({RankSpans(of_rank, steps_, before), {}, false});
    for (const RunSeries& series : of_rank)
        for (const PhaseSeries& phase : series.phases) add_part(spans_.back(), phase, step_phase);
}

std::vector<RankPlace> JobRows::places() const {
    std::vector<RankPlace> places;
    for (const PlacedRank& rank : ranks_) places.push_back(rank.place);
    return places;
}

std::uint32_t JobRows::host_of(const std::string& host) {
    const auto number = static_cast<std::uint32_t>(hosts_.size());
    if (!host.empty()) {
        const auto [known, is_new] = host_numbers_.try_emplace(host, number);
        if (!is_new) return known->second;
    }
    hosts_.push_back(host);
    return number;
}

std::uint16_t JobRows::name_of(const PhaseSeries& phase, std::string_view step_phase) {
    if (phase.kind == schema::Kind::step) return phase.name == step_phase ? step_name : other_name;
    const auto known = name_numbers_.find({phase.kind, phase.name});
    if (known != name_numbers_.end()) return known->second;
    constexpr std::size_t most_names = 4096;
    if (names_.size() == most_names) return other_name;
    names_.push_back({phase.name, phase.kind});
    name_numbers_[{phase.kind, phase.name}] = static_cast<std::uint16_t>(names_.size() - 1);
    return static_cast<std::uint16_t>(names_.size() - 1);
}

void JobRows::add_part(SpansOfRank& rank, const PhaseSeries& phase, std::string_view step_phase) {
    const std::uint16_t name = rank.names.emplace_back(name_of(phase, step_phase));
    if (name == other_name) return;
    for (const Sample sample : phase.samples) {
        if (!sample.has_start()) {
            without_start_ += name != step_name;
        } else {
            origin_ns_ = std::min(origin_ns_, sample.start_ns);
        }
        rank.has_streams |= sample.stream() != 0 && name != step_name;
    }
    if (name != step_name) count_ += phase.samples.size();
}

StepReader::StepReader(const JobRows& rows) : rows_(rows) {
    for (const JobRows::SpansOfRank& rank : rows.spans_) {
        std::vector<NamedWalk>& parts = parts_.emplace_back();
        auto name = rank.names.begin();
        rank.spans.for_each_part(std::nullopt, 0, [&](std::uint32_t, const PartWalk& walk) {
            if (*name != JobRows::other_name && !walk.series().samples.empty()) parts.push_back({*name, walk});
            ++name;
        });
    }
}

StepRows StepReader::read(std::uint32_t step) {
    StepRows found;
    found.step = step;
    for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
        RankRows of_rank;
        of_rank.rank = rank;
        of_rank.first = static_cast<std::uint32_t>(found.rows.size());
        for (NamedWalk& part : parts_[rank]) read_part(part, found, of_rank);
        of_rank.last = static_cast<std::uint32_t>(found.rows.size());
        if (of_rank.first < of_rank.last) found.ranks.push_back(of_rank);
    }
    return found;
}

void StepReader::read_part(NamedWalk& part, StepRows& step, RankRows& of_rank) const {
    const JobRows::SpansOfRank& rank = rows_.spans_[of_rank.rank];
    const std::uint16_t name = part.name;
    const bool is_step = name == JobRows::step_name;
    const bool is_comm = !is_step && rows_.names_[name].is_comm();
    const std::size_t first = step.rows.size();
    bool has_seq = false;
    PartWalk& walk = part.walk;
    const bool is_host = walk.series().clock == Clock::host;
    for (walk.advance_to_step(step.step); walk.is_in_step(step.step); walk.advance()) {
        const Sample sample = walk.sample();
        if (!sample.has_start()) continue;
        const double start_ms = static_cast<double>(sample.start_ns - rows_.origin_ns_) / ns_per_row_ms;
        const double end_ms = start_ms + sample.duration_ms;
        if (is_step) {
            of_rank.step_start_ms = std::fmin(of_rank.step_start_ms, start_ms);
            of_rank.step_end_ms = std::fmax(of_rank.step_end_ms, end_ms);
            continue;
        }
        auto stream = static_cast<std::uint16_t>(sample.stream());
        if (is_host && stream == 0) stream = host_stream;
        if (!rank.has_streams && is_comm) stream = unnamed_comm_stream;
        step.rows.push_back({start_ms, end_ms, sample.collective, sample.seq(), name, stream,
                             static_cast<std::uint8_t>(sample.depth()), is_comm});
        has_seq |= sample.seq() != 0;
    }
    if (has_seq || step.rows.size() - first < 2) return;
    // Rows without numbers: they count in the order of their starts.
    std::stable_sort(step.rows.begin() + static_cast<std::ptrdiff_t>(first), step.rows.end(),
                     [](const TimedRow& a, const TimedRow& b) { return a.start_ms < b.start_ms; });
    for (std::size_t i = first; i < step.rows.size(); ++i) step.rows[i].seq = static_cast<std::uint32_t>(i - first);
}

}  // namespace cep::tool
