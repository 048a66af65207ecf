// SPDX-License-Identifier: Apache-2.0
#include "show/picture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t least_columns = 32;
constexpr std::size_t most_columns = 120;
constexpr std::size_t most_label_columns = 18;
constexpr std::string_view gap = "  ";

using Characters = std::vector<std::string_view>;

const Characters& heights(bool unicode) {
    static const Characters blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const Characters ascii = {"_", ".", "-", "~", "=", "+", "*", "#"};
    return unicode ? blocks : ascii;
}

/// The first is for what is not slow.
const Characters& shades(bool unicode) {
    static const Characters blocks = {"·", "░", "▒", "▓", "█"};
    static const Characters ascii = {".", "-", "+", "*", "#"};
    return unicode ? blocks : ascii;
}

/// What makes a shade seen from afar; index as shades().
constexpr std::array<std::string_view, 5> shade_colors = {"\033[2m", "", "\033[33m", "\033[33m", "\033[31m"};

/// What a shade begins at: the first with the noise below it, each other with twice the one before.
class HeatScale {
  public:
    explicit HeatScale(const std::vector<HeatStrip>& strips) {
        // Most cells of a job with a slow rank, host or window are still usual ones; the lower quarter is in any case.
        std::vector<double> values;
        for (const HeatStrip& strip : strips)
            for (const PictureLine& line : strip.lines)
                std::copy_if(line.values.begin(), line.values.end(), std::back_inserter(values),
                             [](double value) { return !std::isnan(value); });
        if (values.empty()) return;
        const auto quarter = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
        std::nth_element(values.begin(), quarter, values.end());
        constexpr double above_noise = 2.5;
        constexpr double most = 0.4;
        while (first_ < above_noise * *quarter && first_ < most) first_ *= 2;
    }

    [[nodiscard]] std::size_t shade_of(double value) const {
        std::size_t shade = 0;
        while (shade + 1 < shade_colors.size() && value >= begin_of(shade + 1)) ++shade;
        return shade;
    }

    [[nodiscard]] std::string legend(std::size_t columns, bool unicode) const {
        std::string text = fmt::format("{} less", shades(unicode)[0]);
        for (std::size_t shade = 1; shade < shade_colors.size(); ++shade)
            text += fmt::format("  {} +{:.3g} %", shades(unicode)[shade], 100 * begin_of(shade));
        text += " or more";
        return cut_to_width(text, columns, unicode ? "…" : "~") + "\n";
    }

  private:
    [[nodiscard]] double begin_of(std::size_t shade) const { return std::ldexp(first_, static_cast<int>(shade) - 1); }

    double first_ = 0.05;
};

/// Draws lines with one width for labels and one for values.
class Pen {
  public:
    Pen(const StepPicture& picture, const PictureStyle& style, bool colors)
        : unicode_(style.unicode), colors_(colors), columns_(std::min(style.columns, most_columns)) {
        std::size_t widest = display_width(shown(picture.time.line.label));
        for (const HeatStrip& strip : picture.strips)
            for (const PictureLine& line : strip.lines) widest = std::max(widest, display_width(shown(line.label)));
        label_columns_ = std::min({widest, most_label_columns, columns_ / 3});
        values_ = picture.time.line.values.size();
        drawn_columns_ = std::min(values_, columns_ - label_columns_ - gap.size());
    }

    void draw(const Sparkline& spark) {
        title(spark.title);
        const std::vector<double> values = fit(spark.line.values);
        const Range range = range_of(values);
        label(spark.line);
        for (const double value : values) text_ += height_of(value, range);
        end_line();
        if (spark.signs.empty()) return;
        std::string signs(drawn_columns_, ' ');
        for (const Sparkline::Sign& sign : spark.signs) signs[column_of(sign.index)] = sign.character;
        text_ += std::string(label_columns_, ' ').append(gap).append(signs);
        end_line();
    }

    void draw(const HeatStrip& strip, const HeatScale& scale) {
        title(strip.title);
        for (const PictureLine& line : strip.lines) {
            label(line);
            std::optional<std::size_t> before;
            for (const double value : fit(line.values)) {
                const std::optional<std::size_t> shade =
                    std::isnan(value) ? std::nullopt : std::optional(scale.shade_of(value));
                if (colors_ && shade != before) set_color(shade);
                text_ += shade ? shades(unicode_)[*shade] : " ";
                before = shade;
            }
            if (colors_) set_color(std::nullopt);
            end_line();
        }
    }

    void draw_axis(std::int64_t first_step, std::int64_t last_step) {
        const std::string first = fmt::format("step {}", format_integer(first_step));
        const std::string last = format_integer(last_step);
        text_ += std::string(label_columns_, ' ').append(gap);
        if (drawn_columns_ < first.size() + last.size() + 1) {
            text_ += cut(fmt::format("{} to {}", first, last), columns_ - label_columns_ - gap.size());
        } else {
            text_ += first + std::string(drawn_columns_ - first.size() - last.size(), ' ') + last;
        }
        end_line();
    }

    void draw_legend(const HeatScale& scale) { text_ += scale.legend(columns_, unicode_); }

    [[nodiscard]] std::string finish() { return std::move(text_); }

  private:
    struct Range {
        double low = 0;
        double high = 0;
    };

    // Small differences look small. One step that takes very long, or was cut off, does not hide the others.
    static Range range_of(const std::vector<double>& values) {
        constexpr double least_spread = 1.2;
        constexpr double most_above = 3;
        constexpr double most_below = 0.5;
        std::vector<double> known;
        std::copy_if(values.begin(), values.end(), std::back_inserter(known), [](double v) { return !std::isnan(v); });
        if (known.empty()) return {};
        std::sort(known.begin(), known.end());
        const double usual = known[known.size() / 2];
        const double low = std::max(known[known.size() / 50], most_below * usual);
        return {low, std::clamp(known.back(), least_spread * low, most_above * usual)};
    }

    [[nodiscard]] std::string_view height_of(double value, const Range& range) const {
        if (std::isnan(value)) return " ";
        const Characters& characters = heights(unicode_);
        const double fraction = range.high > range.low ? (value - range.low) / (range.high - range.low) : 0;
        const auto count = static_cast<double>(characters.size());
        return characters[static_cast<std::size_t>(std::clamp(fraction * count, 0.0, count - 1))];
    }

    [[nodiscard]] std::size_t column_of(std::size_t value) const {
        return std::min(value, values_ - 1) * drawn_columns_ / values_;
    }

    /// The means of what comes to lie on one column.
    [[nodiscard]] std::vector<double> fit(const std::vector<double>& values) const {
        std::vector<double> sums(drawn_columns_, 0);
        std::vector<double> counts(drawn_columns_, 0);
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (std::isnan(values[i])) continue;
            sums[column_of(i)] += values[i];
            counts[column_of(i)] += 1;
        }
        for (std::size_t i = 0; i < drawn_columns_; ++i) sums[i] /= counts[i];  // NaN where there is none
        return sums;
    }

    /// Safe for the terminal, and for one without UTF-8.
    [[nodiscard]] std::string shown(std::string_view text) const {
        std::string safe = printable(text);
        if (unicode_) return safe;
        std::string ascii;
        for (std::string_view rest = safe; !rest.empty();) {
            const std::string_view character = take_character(rest);
            ascii += character.size() == 1 ? character.front() : character == "µ" ? 'u' : '?';
        }
        return ascii;
    }

    [[nodiscard]] std::string cut(std::string_view text, std::size_t columns) const {
        return cut_to_width(text, columns, unicode_ ? "…" : "~");
    }

    void title(std::string_view title) {
        if (colors_) text_ += "\033[1m";
        text_ += cut(shown(title), columns_);
        if (colors_) text_ += "\033[0m";
        text_ += '\n';
    }

    void label(const PictureLine& line) {
        const std::string text = cut(shown(line.label), label_columns_);
        text_ += text + std::string(label_columns_ - display_width(text), ' ').append(gap);
    }

    void set_color(std::optional<std::size_t> shade) {
        text_ += "\033[0m";
        if (shade) text_ += shade_colors[*shade];
    }

    void end_line() {
        text_.erase(text_.find_last_not_of(' ') + 1);
        text_ += '\n';
    }

    const bool unicode_;
    const bool colors_;
    const std::size_t columns_;
    std::size_t label_columns_ = 0;
    std::size_t values_ = 0;
    std::size_t drawn_columns_ = 0;
    std::string text_;
};

}  // namespace

std::string StepPicture::text(const PictureStyle& style, bool colors) const {
    if (style.columns < least_columns || time.line.values.empty()) return {};
    Pen pen(*this, style, colors);
    pen.draw(time);
    const HeatScale scale(strips);
    for (const HeatStrip& strip : strips) pen.draw(strip, scale);
    pen.draw_axis(first_step, last_step);
    if (!strips.empty()) pen.draw_legend(scale);
    return pen.finish();
}

}  // namespace cep::tool
