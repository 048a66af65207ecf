// SPDX-License-Identifier: Apache-2.0
#include "show/picture_style.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace cep::tool {

std::string bar(double value, std::size_t columns, bool unicode) {
    constexpr std::array<std::string_view, 8> eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!(value > 0)) return {};
    const double filled = std::min(value, 1.0) * static_cast<double>(columns);
    if (!unicode) return std::string(static_cast<std::size_t>(std::lround(filled)), '#');
    const auto parts = static_cast<std::size_t>(std::lround(filled * eighths.size()));
    std::string text;
    for (std::size_t i = 0; i < parts / eighths.size(); ++i) text += "█";
    return text.append(eighths[parts % eighths.size()]);
}

}  // namespace cep::tool
