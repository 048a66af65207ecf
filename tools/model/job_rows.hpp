// SPDX-License-Identifier: Apache-2.0
//
// Job rows: the spans of a job that have a start, step by step, rank by rank.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/device_queue.hpp"
#include "model/job_spans.hpp"

namespace cep::tool {

/// The coordinates of a rank in the parallel layout: pp, dp, tp, ep, cp.
using RankCoordinates = std::array<std::optional<std::int64_t>, 5>;
[[nodiscard]] inline RankCoordinates coordinates_of(const RunInfo& run) {
    return {run.pp, run.dp, run.tp, run.ep, run.cp};
}

/// A span of local work or of communication. Times count from the first start in the job.
struct TimedRow {
    double start_ms = 0;
    double end_ms = 0;
    std::uint32_t collective = 0;  // 0 where no other rank has a span of it
    std::uint32_t seq = 0;
    std::uint16_t name = 0;  // index into JobRows::names()
    std::uint16_t stream = 0;
    std::uint8_t depth = 0;
    bool is_comm = false;
    bool is_of_host = false;  // its host timed it
    float waiting_ms = 0;     // of communication: until its transfer
    float lag_ms = NAN;       // from its launch to its start; NaN where that is not known

    [[nodiscard]] double length_ms() const { return end_ms - start_ms; }
};

/// One rank in one step.
struct RankRows {
    std::uint32_t rank = 0;  // index into JobRows::ranks()
    std::uint32_t first = 0;
    std::uint32_t last = 0;  // behind the last
    double step_start_ms = std::numeric_limits<double>::quiet_NaN();
    double step_end_ms = std::numeric_limits<double>::quiet_NaN();
};

struct StepRows {
    std::uint32_t step = 0;  // index into JobRows::steps()
    std::vector<TimedRow> rows;
    std::vector<RankRows> ranks;
};

struct NamedPhase {
    std::string_view name;
    schema::Kind kind = schema::Kind::other;
    bool may_share_name = false;  // see PhaseSeries

    [[nodiscard]] bool is_comm() const { return kind == schema::Kind::comm; }
};

/// A rank, and where it is.
struct JobRank {
    std::int64_t rank = 0;
    std::uint32_t host = 0;      // index into JobRows::hosts()
    bool host_is_known = false;  // else it is a host by itself
    RankCoordinates coordinates;
    const RunInfo* run = nullptr;  // of its last attempt
};

/// What the rows of a job are about. The job must outlive it.
class JobRows {
  public:
    /// `may_place`: where no row has a start, rows are taken as if they were one behind the other.
    JobRows(const Job& job, std::size_t threads, bool may_place = false);

    /// Why the rows cannot be put into a graph; "" if they can.
    [[nodiscard]] const std::string& reason() const { return reason_; }
    /// Whether all of them are taken so: that may be wrong.
    [[nodiscard]] bool are_placed() const { return are_placed_; }
    [[nodiscard]] const std::vector<JobRank>& ranks() const { return ranks_; }
    [[nodiscard]] const std::vector<std::string>& hosts() const { return hosts_; }
    [[nodiscard]] const std::vector<std::int64_t>& steps() const { return spans_.steps; }
    /// Indices into steps(), without those that only some ranks recorded.
    [[nodiscard]] const std::vector<std::uint32_t>& common_steps() const { return spans_.common; }
    [[nodiscard]] const std::vector<NamedPhase>& names() const { return names_; }
    [[nodiscard]] std::uint64_t count() const { return count_; }
    /// By step: from the end of the step before to its own, the mean over ranks; 0 where there are no rows.
    [[nodiscard]] std::vector<double> step_lengths_ms() const;
    using NumberOf = std::function<std::uint32_t(const TimedRow&, std::uint32_t rank)>;
    /// Gives each span of a collective another number, in the job itself.
    void renumber(const NumberOf& number_of) const;

  private:
    friend class StepReader;
    static constexpr std::uint16_t step_name = 0xffff;   // the spans that are whole steps
    static constexpr std::uint16_t other_name = 0xfffe;  // spans of no interest
    [[nodiscard]] static constexpr bool is_row(std::uint16_t name) { return name < other_name; }

    /// Over ranks. Integers, so that sums do not depend on the order in which threads add to them.
    struct StepLength {
        std::int64_t sum_ns = 0;
        std::uint32_t ranks = 0;
    };
    struct RankSamples;
    struct RankNames {
        std::vector<std::uint16_t> of_phase;  // of each series
        bool has_streams = false;             // some row names its stream
    };

    [[nodiscard]] TimedRow row_of(std::size_t rank, const PhaseSeries& phase, std::uint16_t name,
                                  const Sample& sample) const;
    [[nodiscard]] float waiting_ms_of(const Sample& sample) const;
    [[nodiscard]] bool has_time(const Sample& sample) const { return sample.has_start() != are_placed_; }
    /// Calls `use(name, walk)` for each phase of each series of a rank.
    template <typename Use>
    void for_each_phase(std::size_t rank, std::uint32_t first_step, Use use) const {
        auto name = rank_names_[rank].of_phase.begin();
        spans_.of_rank[rank].for_each_phase(std::nullopt, first_step,
                                            [&](std::uint32_t, const PhaseWalk& walk) { use(*name++, walk); });
    }
    void add_rank(std::int64_t rank, const std::vector<RunSeries>& of_rank);
    void read_samples(std::size_t threads);
    [[nodiscard]] RankSamples samples_of(std::size_t rank) const;
    void add_lengths(std::int64_t begin_ns, const std::vector<std::int64_t>& ends_ns);
    std::uint32_t host_of(const std::string& host);
    std::uint16_t name_of(const PhaseSeries& phase);

    const Collectives& collectives_;
    std::string reason_;
    std::vector<JobRank> ranks_;
    std::vector<std::string> hosts_;
    std::unordered_map<std::string, std::uint32_t> host_numbers_;
    JobSpans spans_;
    std::vector<NamedPhase> names_;
    std::map<std::pair<schema::Kind, std::string_view>, std::uint16_t> name_numbers_;
    std::vector<RankNames> rank_names_;
    std::vector<StepLength> lengths_;  // by step; none where reason() says that there are too many
    std::uint64_t count_ = 0;
    std::uint64_t without_start_ = 0;
    bool are_placed_ = false;
    std::int64_t origin_ns_ = std::numeric_limits<std::int64_t>::max();
};

/// Reads steps in ascending order, from some step on.
class StepReader {
  public:
    explicit StepReader(const JobRows& rows, std::uint32_t first_step = 0);
    [[nodiscard]] StepRows read(std::uint32_t step) { return std::move(read(std::span(&step, 1)).front()); }
    /// Several steps, in less time: what a rank has of them lies side by side. Valid until the next call.
    [[nodiscard]] std::span<StepRows> read(std::span<const std::uint32_t> steps);

  private:
    struct NamedWalk {
        std::uint16_t name;
        PhaseWalk walk;
    };

    [[nodiscard]] bool is_earlier_known(std::uint32_t step) const;
    void read_phase(NamedWalk& named, StepRows& step, RankRows& of_rank, DeviceQueue& queue) const;
    void hide_queued(std::span<TimedRow> rows, const DeviceQueue& queue) const;

    const JobRows& rows_;
    std::vector<std::vector<NamedWalk>> walks_;  // by rank: those with spans of interest
    std::vector<StepRows> found_;                // reused
    std::vector<RankRows> of_rank_;              // by step
    std::vector<DeviceQueue> queues_;            // by step, of the rank
};

/// Calls `use(i, rows)` with the rows of steps[i], which ascend. Each thread reads one range of them after the other.
void read_each(const JobRows& rows, std::span<const std::uint32_t> steps, std::size_t threads,
               const std::function<void(std::size_t, StepRows&)>& use);

/// Steps at regular intervals, with about so many rows.
[[nodiscard]] std::vector<StepRows> read_sample(const JobRows& rows, std::size_t row_count, std::size_t threads);

/// Sorts the rows of one rank: stream by stream, in the order of their starts, the outer ones first.
void sort_rows(std::span<TimedRow> rows);

/// How far times of one rank may be off: the overlap of rows that follow each other on a stream, where there is none.
/// Sorts the rows.
[[nodiscard]] double find_tolerance_ms(std::span<StepRows> steps);

}  // namespace cep::tool
