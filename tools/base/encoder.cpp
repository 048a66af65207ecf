// SPDX-License-Identifier: Apache-2.0
#include "base/encoder.hpp"

#include <zlib.h>
#include <zstd.h>

#include <string>

#include "base/failure.hpp"

namespace cep::tool {
namespace {

class GzipEncoder : public Encoder {
  public:
    explicit GzipEncoder(Effort effort) {
        constexpr int gzip_header = 16;
        constexpr int memory_level = 8;
        const int level = effort == Effort::least ? Z_BEST_SPEED : Z_DEFAULT_COMPRESSION;
        // The header that zlib writes by itself has no name and no time, so that the same input gives the same bytes.
        if (::deflateInit2(&stream_, level, Z_DEFLATED, gzip_header + MAX_WBITS, memory_level, Z_DEFAULT_STRATEGY) !=
            Z_OK)
            throw WriteError("gzip: not enough memory");
    }
    GzipEncoder(const GzipEncoder&) = delete;
    GzipEncoder& operator=(const GzipEncoder&) = delete;
    ~GzipEncoder() override { ::deflateEnd(&stream_); }

    void encode(std::string_view input, bool finish, std::vector<char>& out) override {
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
        stream_.avail_in = static_cast<uInt>(input.size());
        out.resize(::deflateBound(&stream_, static_cast<uLong>(input.size())) + 64);
        std::size_t size = 0;
        int result = Z_OK;
        do {
            if (size == out.size()) out.resize(2 * out.size());
            stream_.next_out = reinterpret_cast<Bytef*>(out.data() + size);
            stream_.avail_out = static_cast<uInt>(out.size() - size);
            result = ::deflate(&stream_, finish ? Z_FINISH : Z_NO_FLUSH);
            size = out.size() - stream_.avail_out;
        } while (stream_.avail_out == 0 || (finish && result == Z_OK));
        out.resize(size);
    }

  private:
    z_stream stream_{};
};

class ZstdEncoder : public Encoder {
  public:
    explicit ZstdEncoder(Effort effort) : stream_(::ZSTD_createCCtx()) {
        if (stream_ == nullptr) throw WriteError("zstd: not enough memory");
        if (effort == Effort::least) ::ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, 1);
    }
    ZstdEncoder(const ZstdEncoder&) = delete;
    ZstdEncoder& operator=(const ZstdEncoder&) = delete;
    ~ZstdEncoder() override { ::ZSTD_freeCCtx(stream_); }

    void encode(std::string_view input, bool finish, std::vector<char>& out) override {
        ZSTD_inBuffer from{input.data(), input.size(), 0};
        out.resize(::ZSTD_compressBound(input.size()) + 64);
        ZSTD_outBuffer to{out.data(), out.size(), 0};
        std::size_t left = 0;
        do {
            if (to.pos == to.size) {
                out.resize(2 * out.size());
                to = {out.data(), out.size(), to.pos};
            }
            left = ::ZSTD_compressStream2(stream_, &to, &from, finish ? ZSTD_e_end : ZSTD_e_continue);
            if (::ZSTD_isError(left) != 0) throw WriteError(std::string("zstd: ") + ::ZSTD_getErrorName(left));
        } while (from.pos < from.size || (finish && left > 0));
        out.resize(to.pos);
    }

  private:
    ZSTD_CCtx* stream_;
};

}  // namespace

std::unique_ptr<Encoder> make_encoder(std::string_view path, Effort effort) {
    if (path.ends_with(".gz")) return std::make_unique<GzipEncoder>(effort);
    if (path.ends_with(".zst")) return std::make_unique<ZstdEncoder>(effort);
    return nullptr;
}

}  // namespace cep::tool
