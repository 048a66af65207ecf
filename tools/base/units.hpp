// SPDX-License-Identifier: Apache-2.0
//
// Numbers for people: thousands separated, times and sizes in the unit that suits them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cep::tool {

/// "1,234,567".
[[nodiscard]] std::string format_count(std::uint64_t count);
[[nodiscard]] std::string format_integer(std::int64_t number);
/// "1.2 GB": powers of 1000.
[[nodiscard]] std::string format_bytes(double bytes);
/// "3 files", "1 file".
[[nodiscard]] std::string format_plural(std::uint64_t count, std::string_view noun);
/// "12.35 ms": four significant digits.
[[nodiscard]] std::string format_duration_ms(double duration_ms);
/// "3, 7–12 and 40 more": sorted numbers as ranges, at most `max_ranges` of them.
[[nodiscard]] std::string format_ranges(const std::vector<std::int64_t>& sorted, std::size_t max_ranges = 8);

/// Times that are compared with each other (a row of a table) in one unit and with the same number of decimals.
class DurationFormat {
  public:
    /// In the unit of the large one, unless the small one would vanish; with four digits of the small one where it has
    /// as many.
    DurationFormat(double small_ms, double large_ms);
    [[nodiscard]] std::string operator()(double duration_ms) const;

  private:
    std::string_view unit_;
    double per_ms_;
    int decimals_;
};

}  // namespace cep::tool
