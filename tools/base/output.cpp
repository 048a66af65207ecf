// SPDX-License-Identifier: Apache-2.0
#include "base/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/cleanup.hpp"
#include "base/failure.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

/// Compresses blocks; `finish` ends the stream.
class Encoder {
  public:
    virtual ~Encoder() = default;
    virtual void encode(std::string_view input, bool finish, std::vector<char>& out) = 0;
};

class GzipEncoder : public Encoder {
  public:
    GzipEncoder() {
        constexpr int gzip_header = 16;
        constexpr int memory_level = 8;
        // Without a header of its own the member has no name and no time: the same input gives the same bytes.
        if (::deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_header + MAX_WBITS, memory_level,
                           Z_DEFAULT_STRATEGY) != Z_OK)
            throw WriteError("gzip: out of memory");
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
    ZstdEncoder() : stream_(::ZSTD_createCCtx()) {
        if (stream_ == nullptr) throw WriteError("zstd: out of memory");
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

std::unique_ptr<Encoder> make_encoder(const std::string& path) {
    if (path.ends_with(".gz")) return std::make_unique<GzipEncoder>();
    if (path.ends_with(".zst")) return std::make_unique<ZstdEncoder>();
    return nullptr;
}

void write_all(int fd, std::string_view bytes, const std::string& name) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EPIPE) throw OutputClosed{};
        if (count < 0) throw WriteError(name + ": cannot write: " + std::strerror(errno));
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

bool exists_as_other_than_file(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

}  // namespace

class Output::Impl {
  public:
    explicit Impl(const std::string& path) : path_(path), encoder_(make_encoder(path)) {
        buffer_.reserve(buffer_bytes);
        if (path.empty() || path == "-") {
            path_ = "standard output";
            fd_ = STDOUT_FILENO;
        } else if (exists_as_other_than_file(path)) {
            fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        } else {
            open_temporary();
        }
        if (fd_ < 0) throw WriteError(path_ + ": " + std::strerror(errno));
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl() {
        if (fd_ > STDERR_FILENO) ::close(fd_);
        if (temporary_.empty()) return;
        ::unlink(temporary_.c_str());
        forget_temporary_file();
    }

    void write(std::string_view bytes) {
        if (buffer_.size() + bytes.size() > buffer_bytes) flush(false);
        if (bytes.size() > buffer_bytes) return emit(bytes, false);
        buffer_.append(bytes);
    }

    void write_line(std::string_view text) {
        if (buffer_.size() + text.size() < buffer_bytes) {
            buffer_.append(text).push_back('\n');
        } else {
            write(text);
            write("\n");
        }
    }

    void close() {
        flush(true);
        if (fd_ == STDOUT_FILENO) return;
        const int closed = ::close(std::exchange(fd_, -1));
        if (closed != 0) throw WriteError(path_ + ": cannot write: " + std::strerror(errno));
        if (temporary_.empty()) return;
        if (::rename(temporary_.c_str(), path_.c_str()) != 0)
            throw WriteError(path_ + ": cannot rename: " + std::strerror(errno));
        temporary_.clear();
        forget_temporary_file();
    }

  private:
    void open_temporary() {
        temporary_ = path_ + ".XXXXXX";
        fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
        if (fd_ < 0) {
            const int error = errno;
            temporary_.clear();
            throw WriteError(path_ + ": cannot create: " + std::strerror(error));
        }
        remember_temporary_file(temporary_);
        const mode_t mask = ::umask(0);
        ::umask(mask);
        // mkostemp gives 0600; an output file has the mode that any new file has.
        static_cast<void>(::fchmod(fd_, 0666 & ~mask));
    }

    void flush(bool finish) {
        emit(buffer_, finish);
        buffer_.clear();
    }

    void emit(std::string_view bytes, bool finish) {
        if (!encoder_) return write_all(fd_, bytes, path_);
        encoder_->encode(bytes, finish, encoded_);
        write_all(fd_, {encoded_.data(), encoded_.size()}, path_);
    }

    std::string path_;
    std::string temporary_;
    int fd_ = -1;
    std::unique_ptr<Encoder> encoder_;
    std::string buffer_;
    std::vector<char> encoded_;
};

Output::Output(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
Output::~Output() = default;
void Output::write(std::string_view bytes) {
    impl_->write(bytes);
}
void Output::write_line(std::string_view text) {
    impl_->write_line(text);
}
void Output::close() {
    impl_->close();
}

void write_standard_output(std::string_view text) {
    Output output("");
    output.write(text);
    output.close();
}

}  // namespace cep::tool
