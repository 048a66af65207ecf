// SPDX-License-Identifier: Apache-2.0
#include "model/job_rows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr double ns_per_row_ms = 1e6;
constexpr std::uint16_t host_stream = 1024;  // one more than Sample::max_stream
constexpr std::uint16_t unnamed_comm_stream = 1025;
constexpr double most_without_start = 0.01;  // of all rows
constexpr std::size_t fewest_steps = 8;
constexpr double least_tolerance_ms = 0.02;
constexpr double most_overlap = 0.25;         // of a row, by which clocks make it overlap the next one of its stream
constexpr double nearly_all_overlaps = 0.99;  // of the overlaps are within the tolerance
constexpr double over_overlaps = 1.5;         // times that

void add_overlaps(std::span<const TimedRow> rows, std::vector<double>& overlaps_ms) {
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const TimedRow& a = rows[i - 1];
        const TimedRow& b = rows[i];
        if (a.stream != b.stream || !(a.start_ms < b.start_ms && b.start_ms < a.end_ms && a.end_ms < b.end_ms))
            continue;
        const double overlap_ms = a.end_ms - b.start_ms;
        if (overlap_ms < most_overlap * std::min(a.length_ms(), b.length_ms())) overlaps_ms.push_back(overlap_ms);
    }
}

/// Numbers the rows of one phase in one step. Rows without numbers count in the order of their starts.
template <typename Row>
void count_rows(std::span<Row> rows) {
    const bool has_seq = std::any_of(rows.begin(), rows.end(), [](const TimedRow& row) { return row.seq != 0; });
    if (has_seq || rows.size() < 2) return;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const TimedRow& a, const TimedRow& b) { return a.start_ms < b.start_ms; });
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seq = static_cast<std::uint32_t>(i);
}

bool any_start(const PhaseSeries& phase) {
    for (const Sample& sample : phase.samples)
        if (sample.has_start()) return true;
    return false;
}

/// And where it is in the job.
struct LocatedRow : TimedRow {
    LocatedRow(const TimedRow& row, const Sample& of) : TimedRow(row), sample(&of) {}

    const Sample* sample;
};

}  // namespace

JobRows::JobRows(const Job& job, std::size_t threads, bool may_place)
    : collectives_(job.collectives), are_placed_(may_place && !any_phase(job.ranks, any_start)) {
    if (job.filter.has_phases()) {
        reason_ = "only some phases were asked for";
        return;
    }
    spans_ = JobSpans(job);
    if (const auto& end = job.early_end)
        std::erase_if(spans_.common, [&](std::uint32_t step) { return end->is_behind(steps()[step]); });
    for (const auto& [rank, of_rank] : job.ranks) add_rank(rank, of_rank);
    constexpr std::size_t most_means = 16'000'000;  // each is a few bytes in some table
    const bool are_too_many = ranks_.size() * std::max(names_.size(), steps().size()) > most_means;
    if (!are_too_many) lengths_.resize(steps().size());
    read_samples(threads);
    if (count_ == 0) {
        reason_ = "there are no spans";
    } else if (ranks_.size() < 2) {
        reason_ = "there is one rank only";
    } else if (are_too_many) {
        reason_ = "there are too many phases or steps for so many ranks";
    } else if (static_cast<double>(without_start_) > most_without_start * static_cast<double>(count_)) {
        reason_ = "spans have no start times";
    }
}

void JobRows::add_rank(std::int64_t rank, const std::vector<RunSeries>& of_rank) {
    const RunInfo& run = of_rank.back().run;
    JobRank& added = ranks_.emplace_back();
    added.rank = rank;
    added.run = &run;
    added.coordinates = coordinates_of(run);
    added.host_is_known = !run.host.empty();
    added.host = host_of(run.host);
    RankNames& names = rank_names_.emplace_back();
    for (const RunSeries& series : of_rank)
        for (const PhaseSeries& phase : series.phases) {
            const std::uint16_t name = names.of_phase.emplace_back(name_of(phase));
            if (is_row(name)) names_[name].may_share_name |= phase.may_share_name;
        }
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

std::uint16_t JobRows::name_of(const PhaseSeries& phase) {
    if (phase.kind == schema::Kind::step) return phase.name == spans_.step_phase.name ? step_name : other_name;
    const auto known = name_numbers_.find({phase.kind, phase.name});
    if (known != name_numbers_.end()) return known->second;
    constexpr std::size_t most_names = 4096;
    if (names_.size() == most_names) return other_name;
    names_.push_back({phase.name, phase.kind});
    name_numbers_[{phase.kind, phase.name}] = static_cast<std::uint16_t>(names_.size() - 1);
    return static_cast<std::uint16_t>(names_.size() - 1);
}

/// What the samples of one rank say.
struct JobRows::RankSamples {
    std::uint64_t count = 0;  // of rows
    std::uint64_t without_start = 0;
    std::int64_t origin_ns = std::numeric_limits<std::int64_t>::max();
    bool has_streams = false;
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> ends_ns;  // by step; no_start for none
};

// There are so many samples that looking at all of them takes time: once.
void JobRows::read_samples(std::size_t threads) {
    std::mutex mutex;
    for_all(ranks_.size(), threads, [&](std::size_t rank) {
        const RankSamples samples = samples_of(rank);
        rank_names_[rank].has_streams = samples.has_streams;
        const std::lock_guard guard(mutex);
        count_ += samples.count;
        without_start_ += samples.without_start;
        origin_ns_ = std::min(origin_ns_, samples.origin_ns);
        add_lengths(samples.begin_ns, samples.ends_ns);
    });
}

JobRows::RankSamples JobRows::samples_of(std::size_t rank) const {
    RankSamples found;
    found.ends_ns.assign(lengths_.size(), Sample::no_start);
    for_each_phase(rank, 0, [&](std::uint16_t name, PhaseWalk walk) {
        if (is_row(name)) found.count += walk.series().samples.size();
        for (; !walk.is_at_end(); walk.advance()) {
            const Sample& sample = walk.sample();
            found.has_streams |= is_row(name) && sample.stream() != 0;
            if (!has_time(sample)) {
                found.without_start += is_row(name);
                continue;
            }
            if (name != other_name) found.origin_ns = std::min(found.origin_ns, sample.start_ns);
            if (walk.position() % 2 == 0 || lengths_.empty()) continue;
            std::int64_t& end_ns = found.ends_ns[walk.position() / 2];
            found.begin_ns = std::min(found.begin_ns, sample.start_ns);
            end_ns = std::max(end_ns, sample.interval().end_ns);
        }
    });
    return found;
}

void JobRows::add_lengths(std::int64_t begin_ns, const std::vector<std::int64_t>& ends_ns) {
    const std::int64_t most_ns = std::numeric_limits<std::int64_t>::max() / std::ssize(ranks_);  // no sum overflows
    std::int64_t before_ns = begin_ns;
    for (std::size_t step = 0; step < ends_ns.size(); ++step) {
        if (ends_ns[step] == Sample::no_start) continue;
        lengths_[step].sum_ns += std::clamp(ends_ns[step] - before_ns, -most_ns, most_ns);
        ++lengths_[step].ranks;
        before_ns = ends_ns[step];
    }
}

std::vector<double> JobRows::step_lengths_ms() const {
    std::vector<double> lengths_ms;
    for (const StepLength& length : lengths_)
        lengths_ms.push_back(static_cast<double>(length.sum_ns) / ns_per_row_ms / std::max<double>(1, length.ranks));
    return lengths_ms;
}

StepReader::StepReader(const JobRows& rows, std::uint32_t first_step) : rows_(rows) {
    for (std::size_t rank = 0; rank < rows.ranks().size(); ++rank) {
        std::vector<NamedWalk>& walks = walks_.emplace_back();
        rows.for_each_phase(rank, first_step, [&](std::uint16_t name, const PhaseWalk& walk) {
            if (name != JobRows::other_name && !walk.series().samples.empty()) walks.push_back({name, walk});
        });
    }
}

std::span<StepRows> StepReader::read(std::span<const std::uint32_t> steps) {
    if (found_.size() < steps.size()) found_.resize(steps.size());
    of_rank_.resize(steps.size());
    queues_.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        found_[i].step = steps[i];
        found_[i].rows.clear();
        found_[i].ranks.clear();
    }
    for (std::uint32_t rank = 0; rank < walks_.size(); ++rank) {
        for (std::size_t i = 0; i < steps.size(); ++i) {
            of_rank_[i] = {};
            queues_[i] = {};
            of_rank_[i].rank = rank;
            of_rank_[i].first = static_cast<std::uint32_t>(found_[i].rows.size());
        }
        for (const NamedWalk& named : walks_[rank]) named.walk.prefetch(steps);
        for (NamedWalk& named : walks_[rank])
            for (std::size_t i = 0; i < steps.size(); ++i) read_phase(named, found_[i], of_rank_[i], queues_[i]);
        for (std::size_t i = 0; i < steps.size(); ++i) {
            of_rank_[i].last = static_cast<std::uint32_t>(found_[i].rows.size());
            hide_queued(std::span(found_[i].rows).subspan(of_rank_[i].first), queues_[i]);
            if (of_rank_[i].first < of_rank_[i].last) found_[i].ranks.push_back(of_rank_[i]);
        }
    }
    return std::span(found_).first(steps.size());
}

void StepReader::hide_queued(std::span<TimedRow> rows, const DeviceQueue& queue) const {
    const auto ns_of = [this](double ms) { return rows_.origin_ns_ + std::llround(ms * ns_per_row_ms); };
    const auto ms_of = [this](std::int64_t ns) { return static_cast<double>(ns - rows_.origin_ns_) / ns_per_row_ms; };
    for (TimedRow& row : rows) {
        if (!row.is_of_host || row.is_comm) continue;
        const Interval all{ns_of(row.start_ms), ns_of(row.end_ms)};
        const Interval seen = queue.seen_of(all);
        if (seen.length_ns() == all.length_ns()) continue;
        row.start_ms = ms_of(seen.begin_ns);
        row.end_ms = ms_of(seen.end_ns);
    }
}

/// Of a layout without spans of steps: those tell it themselves.
bool StepReader::is_earlier_known(std::uint32_t step) const {
    return rows_.spans_.step_phase.name.empty() && step > 0 && rows_.steps()[step - 1] == rows_.steps()[step] - 1;
}

void StepReader::read_phase(NamedWalk& named, StepRows& step, RankRows& of_rank, DeviceQueue& queue) const {
    const std::uint16_t name = named.name;
    const bool is_step = name == JobRows::step_name;
    const std::size_t first = step.rows.size();
    PhaseWalk& walk = named.walk;
    walk.advance_to_step(step.step);
    if (const Sample* earlier =
            walk.series().clock == Clock::gpu && is_earlier_known(step.step) ? walk.before_in(step.step - 1) : nullptr)
        queue.take_earlier(earlier->interval().end_ns);
    for (; walk.is_in_step(step.step); walk.advance()) {
        const Sample& sample = walk.sample();
        if (!rows_.has_time(sample)) continue;
        const TimedRow row = rows_.row_of(of_rank.rank, walk.series(), name, sample);
        if (is_step) {
            queue.take_step(sample, walk.series().clock);
            of_rank.step_start_ms = std::fmin(of_rank.step_start_ms, row.start_ms);
            of_rank.step_end_ms = std::fmax(of_rank.step_end_ms, row.end_ms);
            continue;
        }
        queue.take_row(sample, walk.series().clock);
        step.rows.push_back(row);
    }
    count_rows(std::span(step.rows).subspan(first));
}

float JobRows::waiting_ms_of(const Sample& sample) const {
    if (sample.collective == 0 || sample.collective >= collectives_.size()) return 0;
    return static_cast<float>(std::max(0.0, sample.duration_ms - collectives_[sample.collective].transfer_ms));
}

TimedRow JobRows::row_of(std::size_t rank, const PhaseSeries& phase, std::uint16_t name, const Sample& sample) const {
    const double start_ms = static_cast<double>(sample.start_ns - origin_ns_) / ns_per_row_ms;
    const bool is_comm = name != step_name && names_[name].is_comm();
    auto stream = static_cast<std::uint16_t>(sample.stream());
    if (phase.clock == Clock::host && stream == 0) stream = host_stream;
    if (!rank_names_[rank].has_streams && is_comm && !phase.blocks &&
        (sample.depth() == 0 || phase.clock != Clock::gpu))
        stream = unnamed_comm_stream;
    return {start_ms,
            start_ms + sample.duration_ms,
            sample.collective,
            sample.seq(),
            name,
            stream,
            static_cast<std::uint8_t>(sample.depth()),
            is_comm,
            phase.clock == Clock::host,
            waiting_ms_of(sample),
            phase.clock == Clock::gpu ? sample.lag_ms : NAN};
}

void JobRows::renumber(const NumberOf& number_of) const {
    std::vector<LocatedRow> rows;  // of a phase in a step
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        for_each_phase(rank, 0, [&](std::uint16_t name, PhaseWalk walk) {
            if (name == other_name || name == step_name || !names_[name].is_comm()) return;
            for (std::uint32_t step = 0; step < steps().size(); ++step) {
                rows.clear();
                for (walk.advance_to_step(step); walk.is_in_step(step); walk.advance())
                    if (const Sample& sample = walk.sample(); sample.has_start())
                        rows.emplace_back(row_of(rank, walk.series(), name, sample), sample);
                count_rows(std::span(rows));
                for (const LocatedRow& row : rows)
                    if (row.collective != 0) row.sample->collective = number_of(row, rank);
            }
        });
    }
}

void read_each(const JobRows& rows, std::span<const std::uint32_t> steps, std::size_t threads,
               const std::function<void(std::size_t, StepRows&)>& use) {
    constexpr std::size_t most_at_once = 8;
    constexpr std::size_t most_rows_at_once = std::size_t{1} << 16;
    const std::size_t rows_of_all = most_rows_at_once * std::max<std::size_t>(1, rows.steps().size());
    const std::size_t at_once =
        std::clamp<std::size_t>(rows_of_all / std::max<std::size_t>(1, rows.count()), 1, most_at_once);
    const std::size_t blocks = std::min(steps.size(), threads > 1 ? 4 * threads : 1);
    for_all(blocks, threads, [&](std::size_t block) {
        const std::size_t first = block * steps.size() / blocks;
        const std::size_t last = (block + 1) * steps.size() / blocks;
        StepReader reader(rows, steps[first]);
        for (std::size_t i = first; i < last; i += at_once) {
            std::size_t at = i;
            for (StepRows& step : reader.read(steps.subspan(i, std::min(at_once, last - i)))) use(at++, step);
        }
    });
}

std::vector<StepRows> read_sample(const JobRows& rows, std::size_t row_count, std::size_t threads) {
    const std::vector<std::uint32_t>& common = rows.common_steps();
    const std::size_t steps = common.size();
    const std::size_t rows_per_step =
        std::max<std::size_t>(1, rows.count() / std::max<std::size_t>(1, rows.steps().size()));
    const std::size_t wanted = std::min(steps, std::max(fewest_steps, row_count / rows_per_step));
    std::vector<std::uint32_t> chosen;
    for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(common[index_in_segment(i, wanted, steps)]);
    std::vector<StepRows> sample(wanted);
    read_each(rows, chosen, threads, [&](std::size_t i, StepRows& step) { sample[i] = std::move(step); });
    std::erase_if(sample, [](const StepRows& step) { return step.ranks.empty(); });
    return sample;
}

void sort_rows(std::span<TimedRow> rows) {
    std::sort(rows.begin(), rows.end(), [](const TimedRow& a, const TimedRow& b) {
        if (a.stream != b.stream) return a.stream < b.stream;
        if (a.start_ms != b.start_ms) return a.start_ms < b.start_ms;
        if (a.end_ms != b.end_ms) return a.end_ms > b.end_ms;
        if (a.depth != b.depth) return a.depth < b.depth;
        return a.name != b.name ? a.name < b.name : a.seq < b.seq;
    });
}

double find_tolerance_ms(std::span<StepRows> steps) {
    constexpr double worth_looking = 0.001;  // of all rows
    std::vector<double> overlaps_ms;
    std::size_t rows = 0;
    for (StepRows& step : steps) {
        rows += step.rows.size();
        for (const RankRows& rank : step.ranks) {
            const auto of_rank = std::span(step.rows).subspan(rank.first, rank.last - rank.first);
            sort_rows(of_rank);
            add_overlaps(of_rank, overlaps_ms);
        }
    }
    if (static_cast<double>(overlaps_ms.size()) < worth_looking * static_cast<double>(rows)) return least_tolerance_ms;
    return std::max(least_tolerance_ms, over_overlaps * quantile_of(overlaps_ms, nearly_all_overlaps));
}

}  // namespace cep::tool
