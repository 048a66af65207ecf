// SPDX-License-Identifier: Apache-2.0
//
// Counter series: what is kept of the values of a counter. The order of the rows does not matter, nor that some come
// twice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace cep::tool {

/// One counter on one rank in one run: memory in use, or anything else.
struct CounterSeries {
    std::string name;
    double max = 0;
    std::int64_t last_step = 0;
    double last = 0;  // of that step; of several the largest

    CounterSeries(std::string_view counter, std::int64_t step, double value)
        : name(counter), max(value), last_step(step), last(value) {}

    void add(std::int64_t step, double value) {
        max = std::max(max, value);
        if (step < last_step) return;
        last = step > last_step ? value : std::max(last, value);
        last_step = step;
    }
};

}  // namespace cep::tool
