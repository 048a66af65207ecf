// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace cep::tool {
namespace {

std::string with_separators(std::string_view digits) {
    const std::size_t first = digits.starts_with('-') ? 1 : 0;
    const std::size_t point = std::min(digits.find('.'), digits.size());
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > first && i < point && (point - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

struct Unit {
    std::string_view name;
    double per_ms;
};

Unit unit_for(double duration_ms) {
    const double size = std::abs(duration_ms);
    if (size == 0 || (size >= 1 && size < 1000)) return {"ms", 1};
    if (size >= 1000) return {"s", 1e-3};
    return size >= 1e-3 ? Unit{"µs", 1e3} : Unit{"ns", 1e6};
}

int decimals_for(double value) {
    constexpr int significant_digits = 4;
    const double size = std::abs(value);
    if (size < 1) return significant_digits - 1;
    const int before_point = static_cast<int>(std::floor(std::log10(size))) + 1;
    return before_point >= significant_digits ? 0 : significant_digits - before_point;
}

}  // namespace

std::string format_count(std::uint64_t count) {
    return with_separators(fmt::format("{}", count));
}

std::string format_integer(std::int64_t number) {
    return with_separators(fmt::format("{}", number));
}

std::string format_bytes(double bytes) {
    constexpr std::string_view units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    std::size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < std::size(units)) {
        bytes /= 1000;
        ++unit;
    }
    return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 99.5 ? 0 : 1, units[unit]);
}

std::string format_plural(std::uint64_t count, std::string_view noun) {
    return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_duration_ms(double duration_ms) {
    return DurationFormat(duration_ms, duration_ms)(duration_ms);
}

std::string format_times_ms(double before_ms, double after_ms) {
    const auto [small_ms, large_ms] = std::minmax(before_ms, after_ms);
    const DurationFormat duration(small_ms, large_ms);
    const std::string before = duration(before_ms);
    return before.substr(0, before.find(' ')) + " → " + duration(after_ms);
}

std::string format_change_ms(double change_ms) {
    return (change_ms < 0 ? "-" : "+") + format_duration_ms(std::abs(change_ms));
}

std::string format_percent(double share) {
    return share < 0.0995 ? fmt::format("{:.1f} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

std::string format_ranges(const std::vector<std::int64_t>& sorted, std::size_t max_ranges) {
    std::string text;
    std::size_t ranges = 0;
    for (std::size_t first = 0; first < sorted.size();) {
        if (ranges++ == max_ranges) return fmt::format("{} and {} more", text, format_count(sorted.size() - first));
        std::size_t last = first;
        while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
        const std::string_view separator = text.empty() ? "" : ", ";
        if (last - first >= 2) {
            text += fmt::format("{}{}–{}", separator, sorted[first], sorted[last]);
            first = last + 1;
        } else {
            text += fmt::format("{}{}", separator, sorted[first]);
            ++first;
        }
    }
    return text;
}

std::string format_numbers(std::string_view noun, const std::vector<std::int64_t>& sorted, std::size_t max_ranges) {
    return fmt::format("{}{} {}", noun, sorted.size() == 1 ? "" : "s", format_ranges(sorted, max_ranges));
}

std::string format_one_of(std::string_view noun, const std::vector<std::int64_t>& sorted, std::size_t max_ranges) {
    return (sorted.size() > 1 ? "one of " : "") + format_numbers(noun, sorted, max_ranges);
}

std::string format_from_to(std::int64_t first, std::int64_t last) {
    return first == last ? format_integer(first) : format_integer(first) + " to " + format_integer(last);
}

DurationFormat::DurationFormat(double small_ms, double large_ms) {
    constexpr double vanishing = 0.01;
    const Unit of_large = unit_for(large_ms);
    const bool vanishes = std::abs(small_ms) * of_large.per_ms < vanishing;
    const Unit unit = vanishes ? unit_for(small_ms) : of_large;
    unit_ = unit.name;
    per_ms_ = unit.per_ms;
    decimals_ = decimals_for(small_ms * per_ms_);
}

std::string DurationFormat::operator()(double duration_ms) const {
    return with_separators(fmt::format("{:.{}f}", duration_ms * per_ms_, decimals_)) + " " + std::string(unit_);
}

}  // namespace cep::tool
