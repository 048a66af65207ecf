// SPDX-License-Identifier: Apache-2.0
//
// Heat map: each phase's time by rank and step, in the measures that are known, as bytes for the page's script and as a
// PNG; and its quantiles over ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/job_view.hpp"

namespace cep::report {

enum class Measure : std::uint8_t {
    excess,  // own work, or where that is not known the duration, less the median of the role's ranks in the step
    own,
    wait,
    duration
};
inline constexpr std::array<std::string_view, 4> measure_names = {"own work beyond the median", "own work",
                                                                  "waiting for other ranks", "as recorded"};

/// Values as bytes of a logarithmic scale; 0 where there is none.
struct Cells {
    Range range;
    std::string data;  // base64 of zlib's format
};
/// `known`: from the least to the largest of them. Values below `least` are as good as it.
[[nodiscard]] Cells encode(const StepMatrix& values, const Range& known, double least);

/// The colours from the neutral ground, which most cells have, to what stands out, as pixels of a canvas (ABGR).
[[nodiscard]] std::vector<std::int64_t> heat_pixels();
/// base64 of a PNG with a pixel for each cell, transparent where there is no value.
[[nodiscard]] std::string heat_png(const StepMatrix& values, const Range& scale);
/// The colours from low to high, a pixel each.
[[nodiscard]] std::string heat_legend_png();

struct Layer {
    std::size_t phase = 0;
    Measure measure = Measure::duration;
    Range scale;  // of the colours, logarithmic
    Cells cells;
    std::vector<float> by_rank;  // the mean over steps
};

/// "Own work beyond the median, forward".
[[nodiscard]] std::string describe(const Layer& layer, const JobView& view);

/// Quantiles of a phase over ranks, by column. Each is the value of a rank in a step.
struct Band {
    std::size_t phase = 0;
    std::vector<double> p10_ms{};
    std::vector<double> p50_ms{};
    std::vector<double> p90_ms{};
    std::vector<double> max_ms{};
    std::vector<std::size_t> max_rank{};  // index; ranks.size() where there is no value
};

struct HeatMap {
    static constexpr std::size_t max_rows = 512;
    static constexpr std::size_t picture_columns = 500;
    static constexpr std::size_t band_columns = 250;

    std::vector<Layer> layers;  // what the page shows at first comes first
    std::string png;            // of the first layer
    Rows rows;                  // slow ranks first, each by itself; then by rank
    std::size_t slow_rows = 0;
    std::vector<std::size_t> order;  // ranks, the blamed first, then those with the most in the first layer
    std::vector<Band> bands;         // by phase
    Bins band_steps;

    /// nullptr where there is none.
    [[nodiscard]] const Layer* find(std::size_t phase, Measure measure) const;
};

/// Fills in JobView::slowness_ms. `table`: nullptr where own work and waiting are not known.
[[nodiscard]] HeatMap build_heat(const tool::Job& job, const tool::JobTable* table, JobView& view);

/// The own work of each rank and step; empty without a table.
[[nodiscard]] StepMatrix own_work_of(const tool::JobTable& table);

}  // namespace cep::report
