// SPDX-License-Identifier: Apache-2.0
#include "simulate/compress.hpp"

#include <zlib.h>
#include <zstd.h>

#include "base/failure.hpp"

namespace cep::simulation {

std::string gzip_member(std::string_view text) {
    constexpr int gzip_header = 16;
    constexpr int memory_level = 8;
    z_stream stream{};
    if (::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip_header + MAX_WBITS, memory_level, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        throw tool::WriteError("gzip: out of memory");
    std::string out(::deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int result = ::deflate(&stream, Z_FINISH);
    out.resize(out.size() - stream.avail_out);
    ::deflateEnd(&stream);
    if (result != Z_STREAM_END) throw tool::WriteError("gzip: cannot compress");
    return out;
}

std::string zstd_frame(std::string_view text) {
    std::string out(::ZSTD_compressBound(text.size()), '\0');
    const std::size_t size = ::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1);
    if (::ZSTD_isError(size) != 0) throw tool::WriteError(std::string("zstd: ") + ::ZSTD_getErrorName(size));
    out.resize(size);
    return out;
}

}  // namespace cep::simulation
