// SPDX-License-Identifier: Apache-2.0
#include "read/byte_source.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/failure.hpp"
#include "read/row.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t block_bytes = std::size_t{256} << 10;
constexpr std::size_t magic_bytes = 4;
// Rank files decompress to 10 to 30 times their size. A file of blanks decompresses to 100,000 times its size.
constexpr std::uint64_t max_ratio = 100;
constexpr std::uint64_t always_allowed_bytes = std::uint64_t{64} << 20;

class PlainSource : public ByteSource {
  public:
    explicit PlainSource(const InputFile& file) : path_(file.path), fd_(open_descriptor(file)) {
        if (fd_ < 0) throw ReadError(path_ + ": " + std::strerror(errno));
    }
    PlainSource(const PlainSource&) = delete;
    PlainSource& operator=(const PlainSource&) = delete;
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

/// What gzip and zstd share: a block of compressed input, and why the stream stopped.
class CompressedSource : public ByteSource {
  public:
    explicit CompressedSource(std::unique_ptr<ByteSource> input) : input_(std::move(input)), block_(block_bytes) {}
    [[nodiscard]] const std::string& damage() const override { return damage_; }
    [[nodiscard]] std::uint64_t bytes_taken() const override { return input_->bytes_taken(); }

  protected:
    // Fills the whole block: a pipe may return few bytes at a time.
    std::size_t refill() {
        std::size_t size = 0;
        for (std::size_t count = 1; count > 0 && size < block_.size(); size += count)
            count = input_->read(block_.data() + size, block_.size() - size);
        return size;
    }
    [[nodiscard]] char* block() { return block_.data(); }
    void stop(std::string damage) {
        damage_ = std::move(damage);
        stopped_ = true;
    }
    [[nodiscard]] bool stopped() const { return stopped_; }
    // Counts decompressed bytes, and stops the stream when there are too many.
    std::size_t count(std::size_t bytes) {
        given_bytes_ += bytes;
        if (!stopped_ && given_bytes_ > always_allowed_bytes + max_ratio * bytes_taken())
            stop(std::string(too_compressed) + ": the rest is not read; decompress the file to read all of it");
        return bytes;
    }

  private:
    std::unique_ptr<ByteSource> input_;
    std::vector<char> block_;
    std::string damage_;
    std::uint64_t given_bytes_ = 0;
    bool stopped_ = false;
};

class GzipSource : public CompressedSource {
  public:
    explicit GzipSource(std::unique_ptr<ByteSource> input) : CompressedSource(std::move(input)) {
        constexpr int gzip_only = 16;
        if (::inflateInit2(&stream_, gzip_only + MAX_WBITS) != Z_OK) throw ReadError("gzip: out of memory");
    }
    GzipSource(const GzipSource&) = delete;
    GzipSource& operator=(const GzipSource&) = delete;
    ~GzipSource() override { ::inflateEnd(&stream_); }

    std::size_t read(char* out, std::size_t capacity) override {
        stream_.next_out = reinterpret_cast<Bytef*>(out);
        stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(capacity, UINT32_MAX));
        const uInt room = stream_.avail_out;
        while (stream_.avail_out == room && !stopped()) inflate_some();
        return count(room - stream_.avail_out);
    }

  private:
    void inflate_some() {
        if (stream_.avail_in == 0) {
            stream_.avail_in = static_cast<uInt>(refill());
            stream_.next_in = reinterpret_cast<Bytef*>(block());
            if (stream_.avail_in == 0 && between_members_) return stop("");
        }
        if (between_members_ && !begin_member()) return;
        // Call inflate() without input too: the decoder may still hold output.
        const bool no_input = stream_.avail_in == 0;
        const uInt room = stream_.avail_out;
        const int result = ::inflate(&stream_, Z_NO_FLUSH);
        between_members_ = result == Z_STREAM_END;
        if (no_input && !between_members_ && stream_.avail_out == room) return stop("the gzip stream is cut off");
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) stop("the gzip stream is damaged");
    }

    // Members follow each other (`cat a.gz b.gz`), possibly padded with zeros.
    bool begin_member() {
        while (stream_.avail_in > 0 && *stream_.next_in == 0) {
            ++stream_.next_in;
            --stream_.avail_in;
        }
        if (stream_.avail_in == 0) return false;
        ::inflateReset(&stream_);
        between_members_ = false;
        return true;
    }

    z_stream stream_{};
    bool between_members_ = false;
};

class ZstdSource : public CompressedSource {
  public:
    explicit ZstdSource(std::unique_ptr<ByteSource> input)
        : CompressedSource(std::move(input)), stream_(::ZSTD_createDStream()) {
        if (stream_ == nullptr) throw ReadError("zstd: out of memory");
    }
    ZstdSource(const ZstdSource&) = delete;
    ZstdSource& operator=(const ZstdSource&) = delete;
    ~ZstdSource() override { ::ZSTD_freeDStream(stream_); }

    std::size_t read(char* out, std::size_t capacity) override {
        while (given_ == decompressed_.pos && !stopped()) {
            decompressed_.pos = given_ = 0;
            decompress_some(decompressed_);
        }
        const std::size_t size = std::min(capacity, decompressed_.pos - given_);
        std::memcpy(out, piece_.data() + given_, size);
        given_ += size;
        return count(size);
    }

  private:
    void decompress_some(ZSTD_outBuffer& output) {
        if (input_.pos == input_.size) {
            input_ = {block(), refill(), 0};
            // The decoder may still hold output: call it once more before the end.
            if (input_.size == 0 && !more_inside_) return stop(between_frames_ ? "" : "the zstd stream is cut off");
        }
        const std::size_t result = ::ZSTD_decompressStream(stream_, &output, &input_);
        if (::ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
            return stop("the zstd stream needs more than 128 MiB of memory");
        if (::ZSTD_isError(result) != 0) return stop("the zstd stream is damaged");
        between_frames_ = result == 0;
        more_inside_ = result != 0 && output.pos == output.size;
    }

    ZSTD_DStream* stream_;
    ZSTD_inBuffer input_{nullptr, 0, 0};
    // At damage, the decoder drops the output of the current call: small calls of a fixed size lose little, and the
    // same in every run.
    std::array<char, 4096> piece_;
    ZSTD_outBuffer decompressed_{piece_.data(), piece_.size(), 0};
    std::size_t given_ = 0;
    bool between_frames_ = true;
    bool more_inside_ = false;
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

// Reads until the block has `room` bytes or the source ends. An error is kept until the lines before it are delivered.
void BlockReader::fill(Block& block, std::size_t room) {
    if (block.bytes.size() < room + RowParser::padding_bytes) block.bytes.resize(room + RowParser::padding_bytes);
    try {
        while (block.size < room && !ended_) {
            const std::size_t count = source_.read(block.bytes.data() + block.size, room - block.size);
            block.size += count;
            ended_ = count == 0;
        }
    } catch (const ReadError& error) {
        error_ = error.what();
        ended_ = true;
    }
}

void BlockReader::keep_rest(Block& block, std::size_t lines_size) {
    rest_.assign(block.bytes.data() + lines_size, block.size - lines_size);
    block.size = lines_size;
}

void BlockReader::skip_line(Block& block) {
    block.too_long = true;
    for (;;) {
        block.size = 0;
        fill(block, std::min(block_bytes_, line_limit_bytes_));
        const std::size_t newline = block.text().find('\n');
        block.complete = newline != std::string_view::npos;
        if (block.complete) keep_rest(block, newline + 1);
        if (block.complete || ended_) break;
    }
    block.size = 0;
}

bool BlockReader::next(Block& block) {
    block.too_long = block.complete = false;
    block.size = 0;
    // A long line needed much memory; short ones do not.
    if (block.bytes.size() > 8 * block_bytes_ + RowParser::padding_bytes) block.bytes = {};
    std::size_t room = std::min(std::max(block_bytes_, rest_.size()), line_limit_bytes_);
    if (block.bytes.size() < room + RowParser::padding_bytes) block.bytes.resize(room + RowParser::padding_bytes);
    std::memcpy(block.bytes.data(), rest_.data(), rest_.size());
    block.size = rest_.size();
    rest_.clear();
    while (!ended_) {
        fill(block, room);
        if (ended_) break;
        const std::size_t newline = block.text().rfind('\n');
        if (newline != std::string_view::npos) {
            keep_rest(block, newline + 1);
            break;
        }
        if (room == line_limit_bytes_) {
            skip_line(block);
            break;
        }
        room = std::min(2 * room, line_limit_bytes_);
    }
    // Drop the part of a line in front of an error.
    if (ended_ && !error_.empty() && !block.too_long) block.size = block.text().rfind('\n') + 1;
    std::memset(block.bytes.data() + block.size, 0, RowParser::padding_bytes);
    if (block.size == 0 && !block.too_long && !error_.empty()) throw ReadError(std::exchange(error_, {}));
    return block.size > 0 || block.too_long;
}

}  // namespace cep::tool
