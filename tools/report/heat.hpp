// SPDX-License-Identifier: Apache-2.0
//
// Heat map: each phase's time by rank and step, in the measures that are known, and its quantiles over ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/job_view.hpp"
#include "report/row_heat.hpp"

namespace cep::report {

enum class Measure : std::uint8_t { duration, own, wait, relative };
inline constexpr std::array<std::string_view, 4> measure_names = {"duration", "own", "wait", "relative"};

/// Where the colours begin and end.
struct Scale {
    bool is_log = true;
    double low = 0;
    double high = 1;

    /// From 0 to 1.
    [[nodiscard]] double place_of(double value) const;
};

struct Layer {
    std::size_t phase = 0;
    Measure measure = Measure::duration;
    Scale scale;
    StepMatrix overview;             // binned, the maximum of each bin
    std::vector<float> by_rank;      // the mean over steps
    std::optional<Block> of_chosen;  // HeatMap::chosen, all columns
    std::optional<Block> full;       // all ranks, all columns

    [[nodiscard]] std::string_view unit() const { return measure == Measure::relative ? "×" : "ms"; }
};

/// Quantiles of a phase over ranks, by column.
struct Band {
    std::size_t phase = 0;
    std::vector<double> p10_ms;
    std::vector<double> p50_ms;
    std::vector<double> p90_ms;
    std::vector<double> max_ms;
    std::vector<std::size_t> max_rank;  // index; ranks.size() where there is no value
};

struct HeatMap {
    static constexpr std::size_t max_rows = 512;
    static constexpr std::size_t max_columns = 1000;
    static constexpr std::size_t band_columns = 500;

    std::vector<Layer> layers;  // the most useful first
    std::vector<Band> bands;    // by phase
    Bins rank_bins;             // of overviews
    Bins step_bins;             // of overviews
    Bins band_steps;
    std::vector<std::size_t> chosen;  // indices of the ranks that matter most; empty where all fit
    bool is_whole = false;            // overviews have every rank and column

    /// nullptr where there is none.
    [[nodiscard]] const Layer* find(std::size_t phase, Measure measure) const;
};

struct HeatSources {
    const tool::Job* job = nullptr;
    const tool::JobTable* table = nullptr;  // nullptr: own work and waiting are not known
    const RowHeat* rows = nullptr;          // instead of the job's samples, where not all steps are kept
};

/// Fills in JobView::slowness_ms. Encoded blocks take at most about `max_bytes` each kind.
[[nodiscard]] HeatMap build_heat(const HeatSources& sources, JobView& view, std::size_t max_bytes);

/// The own work of each rank and step; empty without a table.
[[nodiscard]] StepMatrix own_work_of(const tool::JobTable& table);

}  // namespace cep::report
