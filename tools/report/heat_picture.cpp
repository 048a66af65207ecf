// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/failure.hpp"
#include "report/heat.hpp"

namespace cep::report {
namespace {

constexpr double smallest_of_high = 1e-3;  // of the largest value: less is as good as zero

/// A byte for each value: 0 where there is none, 1 for the low end and less, 255 for the high one, logarithmic between.
std::string bytes_of(const StepMatrix& values, const Range& range, std::string_view before_row = {}) {
    std::string bytes;
    for (std::size_t row = 0; row < values.ranks(); ++row) {
        bytes += before_row;
        for (const float value : values.of_rank(row))
            bytes += std::isnan(value) ? '\0' : static_cast<char>(1 + std::lround(254 * range.log_share_of(value)));
    }
    return bytes;
}

/// zlib's format (RFC 1950). Throws WriteError.
std::string deflate(std::string_view bytes) {
    uLongf size = compressBound(static_cast<uLong>(bytes.size()));
    std::string out(size, '\0');
    const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()), 6);
    if (result != Z_OK) throw tool::WriteError("cannot compress the data of the report");
    out.resize(size);
    return out;
}

std::string base64(std::string_view bytes) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto byte = [&](std::size_t at) {
            return at < bytes.size() ? std::uint32_t{static_cast<unsigned char>(bytes[at])} : 0U;
        };
        const std::uint32_t word = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
        out += letters[word >> 18];
        out += letters[word >> 12 & 63];
        out += i + 1 < bytes.size() ? letters[word >> 6 & 63] : '=';
        out += i + 2 < bytes.size() ? letters[word & 63] : '=';
    }
    return out;
}

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

/// Like "inferno" backwards (van der Walt and Smith, 2015): the lightness falls linearly; a dark page inverts it.
constexpr std::array<std::uint32_t, 8> stops = {0xf3efec, 0x8edcfb, 0x4cb0fb, 0x2b7af3,
                                                0x4248d4, 0x632a9f, 0x6e1565, 0x4f0a2b};  // BGR

/// What has a colour at all is told from the ground.
std::uint32_t bgr_of(std::size_t shade) {
    if (shade == 0) return stops[0];
    const double at = 1 + static_cast<double>(shade - 1) / (shades - 2) * (stops.size() - 2);
    const auto below = std::min<std::size_t>(static_cast<std::size_t>(at), stops.size() - 2);
    std::uint32_t bgr = 0;
    for (const int shift : {16, 8, 0}) {
        const double a = stops[below] >> shift & 255;
        const double b = stops[below + 1] >> shift & 255;
        bgr |= static_cast<std::uint32_t>(std::lround(a + (b - a) * (at - static_cast<double>(below)))) << shift;
    }
    return bgr;
}

/// The colour of missing cells, which does not matter, and those of the scale.
std::string make_palette() {
    std::string palette(3, '\0');
    for (std::size_t shade = 0; shade < shades; ++shade)
        for (const int shift : {0, 8, 16}) palette += static_cast<char>(bgr_of(shade) >> shift & 255);
    return palette;
}

constexpr std::string_view no_filter("\0", 1);  // before each row of pixels

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

Cells encode(const StepMatrix& values, const Range& known, double least) {
    Range range{1, 1};
    if (known.high > 0) {
        const double low = std::max({known.low, smallest_of_high * known.high, least});
        range = {std::min(low, known.high), known.high};
    }
    return {range, base64(deflate(bytes_of(values, range)))};
}

std::string heat_png(const StepMatrix& values, const Range& scale) {
    return make_png(values.steps(), values.ranks(), bytes_of(values, scale, no_filter));
}

std::vector<std::int64_t> heat_pixels() {
    std::vector<std::int64_t> pixels;
    for (std::size_t shade = 0; shade < shades; ++shade) pixels.push_back(std::int64_t{0xff000000} | bgr_of(shade));
    return pixels;
}

std::string heat_legend_png() {
    std::string pixels(no_filter);
    for (std::size_t shade = 0; shade < shades; ++shade) pixels += static_cast<char>(1 + shade);
    return make_png(shades, 1, pixels);
}

}  // namespace cep::report
