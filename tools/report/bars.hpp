// SPDX-License-Identifier: Apache-2.0
//
// Bars: lengths beside each other, as HTML that is as wide as the page.
#pragma once

#include <string>
#include <vector>

namespace cep::report {

struct BarSegment {
    std::string style;  // its class
    double from = 0;
    double to = 0;
    std::string tip;
    std::string text{};  // on it, if there is room
};

struct Bar {
    std::string label;
    std::string note;  // below the label
    std::vector<BarSegment> segments;
    std::string value;  // behind the bar
};

/// `most`: the length of the whole width. `description` stands for the picture where it cannot be seen.
[[nodiscard]] std::string bars_html(const std::vector<Bar>& bars, double most, const std::string& description);

struct KeyEntry {
    std::string style;
    std::string name;
};
/// What colours mean.
[[nodiscard]] std::string key_html(const std::vector<KeyEntry>& entries);

}  // namespace cep::report
