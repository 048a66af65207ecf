// SPDX-License-Identifier: Apache-2.0
//
// Numbers for people: with separators of thousands, and with units that fit the size.
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
/// "130.0 → 101.4 ms": a time that changes, in one unit.
[[nodiscard]] std::string format_times_ms(double before_ms, double after_ms);
/// "+12.35 ms", "-12.35 ms". The minus of all text is ASCII's, as fmt writes it.
[[nodiscard]] std::string format_change_ms(double change_ms);
/// "7.3 %", "22 %" of 0.073 and 0.22.
[[nodiscard]] std::string format_percent(double share);
/// "3, 7–12 and 40 more": sorted numbers as ranges, at most `max_ranges` of them.
[[nodiscard]] std::string format_ranges(const std::vector<std::int64_t>& sorted, std::size_t max_ranges = 8);
/// "rank 3" or "ranks 3, 5–7": the noun and the numbers.
[[nodiscard]] std::string format_numbers(std::string_view noun, const std::vector<std::int64_t>& sorted,
                                         std::size_t max_ranges = 8);
/// "rank 3" or "one of ranks 3, 5–7".
[[nodiscard]] std::string format_one_of(std::string_view noun, const std::vector<std::int64_t>& sorted,
                                        std::size_t max_ranges = 8);
/// "1,000 to 2,000"; of one number, that alone.
[[nodiscard]] std::string format_from_to(std::int64_t first, std::int64_t last);

/// Formats times that people compare, such as those in a row of a table: in one unit, with as many decimals each.
class DurationFormat {
  public:
    /// Uses the unit of the large time, unless the small one would be 0.00 in it. Shows four digits of the small time.
    DurationFormat(double small_ms, double large_ms);
    [[nodiscard]] std::string operator()(double duration_ms) const;

  private:
    std::string_view unit_;
    double per_ms_;
    int decimals_;
};

}  // namespace cep::tool
