// SPDX-License-Identifier: Apache-2.0
//
// Heat picture: a matrix of ranks and steps as a PNG, and the colours that all heat maps have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/heat.hpp"

namespace cep::report {

/// zlib's format (RFC 1950). Throws WriteError.
[[nodiscard]] std::string deflate(std::string_view bytes);
[[nodiscard]] std::string base64(std::string_view bytes);

/// The colours from the neutral ground, which most cells have, to what stands out, as pixels of a canvas (ABGR).
[[nodiscard]] std::vector<std::int64_t> heat_pixels();
/// base64 of a PNG with a pixel for each cell, transparent where there is no value.
[[nodiscard]] std::string heat_png(const StepMatrix& values, const Scale& scale);
/// The colours from low to high, a pixel each.
[[nodiscard]] std::string heat_legend_png();

}  // namespace cep::report
