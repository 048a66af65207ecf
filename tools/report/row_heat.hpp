// SPDX-License-Identifier: Apache-2.0
//
// Row heat: durations by rank and column straight from rows, for jobs with more durations than are kept.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "read/file_report.hpp"
#include "read/filter.hpp"
#include "report/job_view.hpp"

namespace cep::report {

/// For each phase of the view a matrix of its ranks and columns, with the longest step of each column.
class RowHeat {
  public:
    static constexpr std::size_t max_cells = std::size_t{1} << 27;  // of all phases: 512 MiB

    explicit RowHeat(const JobView& view);

    [[nodiscard]] const StepMatrix& of_phase(std::size_t phase) const { return matrices_[phase]; }
    /// The columns of a view whose matrices all find room.
    [[nodiscard]] static Bins columns_for(const JobView& view);

  private:
    friend class FileHeat;

    const JobView& view_;
    std::unordered_map<std::string_view, std::size_t> phases_;  // by name
    std::vector<StepMatrix> matrices_;
};

/// The rows of one file. Ranks of different files may be the same.
class FileHeat : public tool::RowSink {
  public:
    FileHeat(const RowHeat& heat, const tool::Filter& filter) : heat_(heat), filter_(filter) {}
    void take(const tool::Row& row, std::uint64_t line) override;
    void end() override;
    /// After end(), from one thread at a time.
    void merge_into(RowHeat& heat) const;

  private:
    /// A phase of one rank.
    struct Part {
        std::vector<float> longest_ms;  // by column
        std::int64_t step = 0;          // of the last rows
        double step_ms = 0;             // in that step; NaN for none
    };

    void close(Part& part) const;

    const RowHeat& heat_;
    const tool::Filter& filter_;
    std::unordered_map<std::int64_t, std::vector<Part>> ranks_;  // by phase
};

}  // namespace cep::report
