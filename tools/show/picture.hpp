// SPDX-License-Identifier: Apache-2.0
//
// Pictures: values over the steps of a job, which a terminal shows as lines of characters over one axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cep::tool {

/// With which characters pictures are drawn, and how wide.
struct PictureStyle {
    std::size_t columns = 0;  // of a line; 0: no pictures
    bool unicode = false;     // else ASCII
};

/// A line of values, from the first step to the last; NaN where there is none. All lines of a picture are equally long.
struct PictureLine {
    std::string label;
    std::vector<double> values;
};

/// Lines of heights: the higher a value, the higher its character.
struct Sparkline {
    struct Sign {
        std::size_t index = 0;  // into the values
        char character = ' ';

        friend bool operator==(const Sign&, const Sign&) = default;
    };
    std::string title;
    PictureLine line;
    std::vector<Sign> signs;  // below the line; of two in one column, the later one is shown
};

/// Lines of shades: the more a value exceeds 0, the darker its character. Values are fractions.
struct HeatStrip {
    std::string title;
    std::vector<PictureLine> lines;
};

struct StepPicture {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    Sparkline time;
    std::vector<HeatStrip> strips;  // with one scale

    /// Lines of at most `style.columns` columns; "" if these are too few for a picture.
    [[nodiscard]] std::string text(const PictureStyle& style, bool colors) const;
};

}  // namespace cep::tool
