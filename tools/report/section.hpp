// SPDX-License-Identifier: Apache-2.0
//
// Section: a part of the page. What to look for, pictures, and the same as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cep::report {

struct Figure {
    std::string svg;
    std::string caption;  // plain text
};

struct Section {
    std::string id;
    std::string heading;
    std::string look;   // one sentence: what to look for
    std::string empty;  // why there is nothing to show; else ""
    std::vector<Figure> figures;
    std::string details;  // HTML: the same as tables

    [[nodiscard]] static Section without(std::string id, std::string heading, std::string why) {
        return {std::move(id), std::move(heading), {}, std::move(why), {}, {}};
    }
};

[[nodiscard]] std::string html_of(const Section& section);

}  // namespace cep::report
