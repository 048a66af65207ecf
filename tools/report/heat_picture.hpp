// SPDX-License-Identifier: Apache-2.0
//
// Heat picture: a matrix of ranks and steps as bytes for the page's script and as a PNG, and the colours of heat maps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/grid.hpp"

namespace cep::report {

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

}  // namespace cep::report
