// SPDX-License-Identifier: Apache-2.0
#include "report/heat_picture.hpp"

#include <zlib.h>

#include <charconv>
#include <cmath>

#include "report/bytes.hpp"

namespace cep::report {
namespace {

constexpr std::size_t shades = 255;  // and 0 for missing cells

void append_big_endian(std::string& out, std::uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift & 255);
}

void append_chunk(std::string& png, std::string_view type, std::string_view content) {
    append_big_endian(png, static_cast<std::uint32_t>(content.size()));
    const std::string all = std::string(type) + std::string(content);
    png += all;
    append_big_endian(png, static_cast<std::uint32_t>(
                               crc32(0, reinterpret_cast<const Bytef*>(all.data()), static_cast<uInt>(all.size()))));
}

std::array<int, 3> rgb_of(std::string_view color) {
    std::array<int, 3> rgb{};
    for (std::size_t i = 0; i < 3; ++i) std::from_chars(&color[1 + 2 * i], &color[1 + 2 * i] + 2, rgb[i], 16);
    return rgb;
}

/// The colour of missing cells, which does not matter, and those of the scale.
std::string make_palette() {
    std::string palette(3, '\0');
    for (std::size_t shade = 0; shade < shades; ++shade) {
        const double at = static_cast<double>(shade) / (shades - 1) * (heat_colors.size() - 1);
        const auto below = std::min<std::size_t>(static_cast<std::size_t>(at), heat_colors.size() - 2);
        const std::array<int, 3> a = rgb_of(heat_colors[below]);
        const std::array<int, 3> b = rgb_of(heat_colors[below + 1]);
        for (std::size_t i = 0; i < 3; ++i)
            palette += static_cast<char>(std::lround(a[i] + (b[i] - a[i]) * (at - static_cast<double>(below))));
    }
    return palette;
}

/// `pixels`: rows, each after a byte for its filter.
std::string make_png(std::size_t width, std::size_t height, std::string_view pixels) {
    std::string png = "\x89PNG\r\n\x1a\n";
    std::string header;
    append_big_endian(header, static_cast<std::uint32_t>(width));
    append_big_endian(header, static_cast<std::uint32_t>(height));
    header += std::string("\x08\x03\0\0\0", 5);  // 8 bits, a palette
    append_chunk(png, "IHDR", header);
    append_chunk(png, "PLTE", make_palette());
    append_chunk(png, "tRNS", std::string_view("\0", 1));
    append_chunk(png, "IDAT", deflate(pixels));
    append_chunk(png, "IEND", "");
    return base64(png);
}

}  // namespace

std::string heat_png(const StepMatrix& values, const Scale& scale) {
    std::string pixels;
    for (std::size_t row = 0; row < values.ranks(); ++row) {
        pixels += '\0';
        for (const float value : values.of_rank(row))
            pixels +=
                std::isnan(value) ? '\0' : static_cast<char>(1 + std::lround(scale.place_of(value) * (shades - 1)));
    }
    return make_png(values.steps(), values.ranks(), pixels);
}

std::string heat_legend_png() {
    std::string pixels(1, '\0');
    for (std::size_t shade = 0; shade < shades; ++shade) pixels += static_cast<char>(1 + shade);
    return make_png(shades, 1, pixels);
}

}  // namespace cep::report
