// SPDX-License-Identifier: Apache-2.0
#include "report/bytes.hpp"

#include <zlib.h>

#include <cstdint>

#include "base/failure.hpp"

namespace cep::report {

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

}  // namespace cep::report
