// SPDX-License-Identifier: Apache-2.0
//
// Heat picture: a matrix of ranks and steps as a PNG, and the colours that all heat maps have.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "report/heat.hpp"

namespace cep::report {

/// Cividis, made for colour-blind readers (Nuñez, Anderton, Renslow, PLOS ONE 13(7), 2018): it gets lighter evenly.
inline constexpr std::array<std::string_view, 10> heat_colors = {"#00224e", "#123570", "#3b496c", "#575d6d", "#707173",
                                                                 "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"};

/// base64 of a PNG with a pixel for each cell, transparent where there is no value.
[[nodiscard]] std::string heat_png(const StepMatrix& values, const Scale& scale);
/// The colours from low to high, a pixel each.
[[nodiscard]] std::string heat_legend_png();

}  // namespace cep::report
