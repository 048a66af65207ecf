// SPDX-License-Identifier: Apache-2.0
//
// Selection: the ranks and steps of a job that are worth a timeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "read/file_report.hpp"
#include "read/run_tracker.hpp"
#include "trace/trace_rows.hpp"

namespace cep::tool {

/// What a trace shows of a job, and what there is.
struct Selection {
    std::vector<std::int64_t> ranks;  // the fastest, the median and the slowest, or all where there are at most three
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::size_t ranks_of_job = 0;
    std::int64_t first_step_of_job = 0;

    [[nodiscard]] bool has_all_ranks() const { return ranks.size() == ranks_of_job; }
};

/// The costs of the last steps on each rank. It takes 40 bytes for each of these steps, whatever the job's length.
class Survey {
  public:
    static constexpr std::size_t kept_steps = 50;

    /// Takes a row with a rank and a step, or a run row.
    void take(const Row& row);
    void merge(Survey&& other);
    [[nodiscard]] bool empty() const { return ranks_.empty(); }
    /// Whether ranks run on more than one, as far as run rows say.
    [[nodiscard]] bool has_several_hosts() const { return hosts_.size() > 1; }
    /// Not of an empty survey.
    [[nodiscard]] Selection select() const;

  private:
    /// Sums over the spans of one step.
    struct StepCost {
        std::int64_t step = 0;
        double step_ms = 0;  // of spans of the kind `step`
        double comm_ms = 0;
        std::int64_t begin_ns = INT64_MAX;
        std::int64_t end_ns = INT64_MIN;

        void add(const StepCost& other);
        /// Without communication, in which a rank waits for slower ones.
        [[nodiscard]] double own_work_ms() const;
    };
    /// The costs of the last steps, in the order of steps.
    using LastSteps = std::vector<StepCost>;

    static void add(LastSteps& steps, const StepCost& cost);
    [[nodiscard]] std::int64_t first_kept_step() const;

    std::map<std::int64_t, LastSteps> ranks_;
    std::int64_t first_step_ = INT64_MAX;
    std::set<std::string> hosts_;
};

/// Surveys the rows of one file.
class FileSurvey : public RowSink {
  public:
    explicit FileSurvey(const TraceFilter& filter) : filter_(filter) {}
    void take(const Row& row, std::uint64_t line) override;
    [[nodiscard]] Survey& survey() { return survey_; }

  private:
    const TraceFilter& filter_;
    RunTracker tracker_;
    Survey survey_;
};

}  // namespace cep::tool
