// SPDX-License-Identifier: Apache-2.0
//
// Picture style: with which characters pictures are drawn, and how wide.
#pragma once

#include <cstddef>
#include <string>

namespace cep::tool {

struct PictureStyle {
    std::size_t columns = 0;  // of a line; 0: no pictures
    bool unicode = false;     // else ASCII
};

/// A horizontal bar for a value from 0 to 1, at most `columns` wide.
[[nodiscard]] std::string bar(double value, std::size_t columns, bool unicode);

}  // namespace cep::tool
