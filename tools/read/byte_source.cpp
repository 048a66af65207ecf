// SPDX-License-Identifier: Apache-2.0
#include "read/byte_source.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "base/failure.hpp"
#include "read/row.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t source_buffer_bytes = std::size_t{256} << 10;
constexpr std::size_t magic_bytes = 4;
// Rank files decompress to 10 to 30 times their size. A file of blanks decompresses to 100,000 times its size.
constexpr std::uint64_t max_ratio = 100;
constexpr std::uint64_t always_allowed_bytes = std::uint64_t{64} << 20;

class PlainSource : public ByteSource {
  public:
    explicit PlainSource(const InputFile& file) : path_(file.path), fd_(open_descriptor(file)) {
        if (fd_ < 0) throw ReadError(path_ + ": " + std::strerror(errno));
    }
    ~PlainSource() override {
        if (fd_ > STDIN_FILENO) ::close(fd_);
    }

    /// The first bytes, by which the format is recognised; read() gives them too. Call it first.
    std::string_view read_head() {
        char bytes[magic_bytes];
        for (std::size_t count = 1; count > 0 && head_.size() < magic_bytes;) {
            count = read_file(bytes, magic_bytes - head_.size());
            head_.append(bytes, count);
        }
        return head_;
    }
    std::size_t read(char* out, std::size_t capacity) override {
        if (head_given_ == head_.size()) return read_file(out, capacity);
        const std::size_t count = head_.copy(out, capacity, head_given_);
        head_given_ += count;
        return count;
    }
    [[nodiscard]] const std::string& damage() const override { return no_damage_; }
    [[nodiscard]] std::uint64_t bytes_taken() const override { return bytes_taken_; }

  private:
    static int open_descriptor(const InputFile& file) {
        if (file.copy.empty() && file.is_standard_input()) return STDIN_FILENO;
        return ::open((file.copy.empty() ? file.path : file.copy).c_str(), O_RDONLY | O_CLOEXEC);
    }
    std::size_t read_file(char* out, std::size_t capacity) {
        for (;;) {
            const ssize_t count = ::read(fd_, out, capacity);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) throw ReadError(path_ + ": " + std::strerror(errno));
            bytes_taken_ += static_cast<std::uint64_t>(count);
            return static_cast<std::size_t>(count);
        }
    }

    const std::string path_;
    const int fd_;
    std::string head_;
    std::size_t head_given_ = 0;
    std::uint64_t bytes_taken_ = 0;
    const std::string no_damage_;
};

/// What gzip and zstd share. Both may follow one another in a file (`cat a.gz b.gz`): members of gzip, frames of zstd.
class CompressedSource : public ByteSource {
  public:
    CompressedSource(std::unique_ptr<ByteSource> input, std::size_t piece_bytes)
        : input_(std::move(input)), block_(source_buffer_bytes), piece_(piece_bytes) {}

    std::size_t read(char* out, std::size_t capacity) override {
        std::size_t size = give(out, capacity);
        // An error of the file comes after what was made before it.
        while (!stopped_ && size < capacity && (size == 0 || !left_.empty())) {
            make_piece();
            size += give(out + size, capacity - size);
        }
        given_bytes_ += size;
        if (!stopped_ && given_bytes_ > always_allowed_bytes + max_ratio * bytes_taken())
            stop(std::string(too_compressed) + ": the rest is not read; decompress the file to read all of it");
        return size;
    }
    [[nodiscard]] const std::string& damage() const override { return damage_; }
    [[nodiscard]] std::uint64_t bytes_taken() const override { return input_->bytes_taken(); }

  protected:
    /// Takes some of the input from its front, and returns how many bytes it made. Without input too, as the decoder
    /// may still hold output. `is_between`: the input so far ends with a whole member.
    virtual std::size_t decompress(std::string_view& input, std::span<char> out, bool& is_between) = 0;
    [[nodiscard]] virtual std::string_view format() const = 0;

    void stop(std::string damage) {
        damage_ = std::move(damage);
        stopped_ = true;
    }

  private:
    std::size_t give(char* out, std::size_t capacity) {
        const std::size_t size = std::min(capacity, made_ - given_);
        std::memcpy(out, piece_.data() + given_, size);
        given_ += size;
        return size;
    }
    void make_piece() {
        given_ = made_ = 0;
        if (left_.empty()) left_ = {block_.data(), refill()};
        const bool has_ended = left_.empty();
        if (has_ended && is_between_) return stop("");
        made_ = decompress(left_, piece_, is_between_);
        if (has_ended && made_ == 0 && !stopped_) stop(fmt::format("the {} stream is cut off", format()));
    }
    // Fills the whole block: a pipe may return few bytes at a time.
    std::size_t refill() {
        std::size_t size = 0;
        for (std::size_t count = 1; count > 0 && size < block_.size(); size += count)
            count = input_->read(block_.data() + size, block_.size() - size);
        return size;
    }

    std::unique_ptr<ByteSource> input_;
    std::vector<char> block_;
    std::string_view left_;  // of the block
    std::vector<char> piece_;
    std::size_t made_ = 0;
    std::size_t given_ = 0;  // of the piece
    bool is_between_ = true;
    std::string damage_;
    std::uint64_t given_bytes_ = 0;
    bool stopped_ = false;
};

class GzipSource : public CompressedSource {
  public:
    explicit GzipSource(std::unique_ptr<ByteSource> input)
        : CompressedSource(std::move(input), source_buffer_bytes) {  // inflate() is slow at the end of a piece
        constexpr int gzip_only = 16;
        if (::inflateInit2(&stream_, gzip_only + MAX_WBITS) != Z_OK) throw ReadError("gzip: out of memory");
    }
    ~GzipSource() override { ::inflateEnd(&stream_); }

  private:
    [[nodiscard]] std::string_view format() const override { return "gzip"; }

    std::size_t decompress(std::string_view& input, std::span<char> out, bool& is_between) override {
        if (is_between) {  // members may be padded with zeros
            input.remove_prefix(std::min(input.find_first_not_of('\0'), input.size()));
            if (input.empty()) return 0;
            ::inflateReset(&stream_);
        }
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
        stream_.avail_in = static_cast<uInt>(input.size());
        stream_.next_out = reinterpret_cast<Bytef*>(out.data());
        stream_.avail_out = static_cast<uInt>(out.size());
        const int result = ::inflate(&stream_, Z_NO_FLUSH);
        input.remove_prefix(input.size() - stream_.avail_in);
        is_between = result == Z_STREAM_END;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) stop("the gzip stream is damaged");
        return out.size() - stream_.avail_out;
    }

    z_stream stream_{};
};

class ZstdSource : public CompressedSource {
  public:
    explicit ZstdSource(std::unique_ptr<ByteSource> input)
        : CompressedSource(std::move(input), lost_bytes), stream_(::ZSTD_createDStream()) {
        if (stream_ == nullptr) throw ReadError("zstd: out of memory");
    }
    ~ZstdSource() override { ::ZSTD_freeDStream(stream_); }

  private:
    // At damage, the decoder drops the output of the current call: small calls of a fixed size lose little, and the
    // same in every run.
    static constexpr std::size_t lost_bytes = 4096;

    [[nodiscard]] std::string_view format() const override { return "zstd"; }

    std::size_t decompress(std::string_view& input, std::span<char> out, bool& is_between) override {
        ZSTD_inBuffer from{input.data(), input.size(), 0};
        ZSTD_outBuffer to{out.data(), out.size(), 0};
        const std::size_t result = ::ZSTD_decompressStream(stream_, &to, &from);
        input.remove_prefix(from.pos);
        is_between = result == 0;
        if (::ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
            stop("the zstd stream needs more than 128 MiB of memory");
        else if (::ZSTD_isError(result) != 0)
            stop("the zstd stream is damaged");
        return to.pos;
    }

    ZSTD_DStream* stream_;
};

bool is_zstd(std::string_view head) {
    using namespace std::string_view_literals;
    if (head == "\x28\xb5\x2f\xfd"sv) return true;
    return head.size() == magic_bytes && (head[0] & '\xf0') == '\x50' && head.substr(1) == "\x2a\x4d\x18"sv;
}

}  // namespace

std::unique_ptr<ByteSource> open_source(const InputFile& file) {
    auto input = std::make_unique<PlainSource>(file);
    const std::string_view head = input->read_head();
    if (head.starts_with("\x1f\x8b")) return std::make_unique<GzipSource>(std::move(input));
    if (is_zstd(head)) return std::make_unique<ZstdSource>(std::move(input));
    return input;
}

ByteWindow::ByteWindow(ByteSource& source, Progress& progress, std::size_t block_bytes, std::size_t limit_bytes)
    : source_(source),
      progress_(progress),
      block_bytes_(block_bytes),
      limit_bytes_(limit_bytes),
      bytes_(block_bytes + RowParser::padding_bytes) {
    at = bytes_.data();
}

bool ByteWindow::extend() {
    const auto done = static_cast<std::size_t>(at - bytes_.data());
    const std::size_t kept = size_ - done;
    if (ended_ || kept >= limit_bytes_) return false;
    std::memmove(bytes_.data(), at, kept);
    first_offset_ += done;
    // Room for as much again keeps the moving linear in the bytes.
    const std::size_t room = std::min(std::max(block_bytes_, 2 * kept), limit_bytes_);
    if (bytes_.size() < room + RowParser::padding_bytes) bytes_.resize(room + RowParser::padding_bytes);
    at = bytes_.data();
    size_ = kept;
    size_ += source_.read(bytes_.data() + kept, room - kept);
    ended_ = size_ == kept;
    std::memset(bytes_.data() + size_, 0, RowParser::padding_bytes);
    const std::uint64_t taken = source_.bytes_taken();
    progress_.advance(taken - std::exchange(reported_bytes_, taken));
    return !ended_;
}

}  // namespace cep::tool
