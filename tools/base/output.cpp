// SPDX-License-Identifier: Apache-2.0
#include "base/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/cleanup.hpp"
#include "base/descriptors.hpp"
#include "base/encoder.hpp"
#include "base/failure.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

void write_or_throw(int fd, std::string_view bytes, const std::string& name) {
    if (write_all(fd, bytes)) return;
    if (errno == EPIPE) throw OutputClosed{};
    throw WriteError(name + ": cannot write: " + std::strerror(errno));
}

bool exists_as_other_than_file(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

/// The file that a symbolic link points to, so that the link stays.
std::string follow_link(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::is_symlink(path, error)) return path;
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    return error ? path : target.native();
}

/// A file that is replaced keeps its mode; a new file has the mode that any new file gets.
mode_t mode_for(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) return info.st_mode & 0777;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return 0666 & ~mask;
}

}  // namespace

class Output::Impl {
  public:
    explicit Impl(const std::string& path) : path_(follow_link(path)), encoder_(make_encoder(compression_of(path))) {
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
        temporary_ = path_;
        fd_ = create_temporary_file(temporary_);
        if (fd_ >= 0) {
            static_cast<void>(::fchmod(fd_, mode_for(path_)));
            return;
        }
        temporary_.clear();
        throw WriteError(path_ + ": cannot create: " + std::strerror(errno));
    }

    void flush(bool finish) {
        emit(buffer_, finish);
        buffer_.clear();
    }

    void emit(std::string_view bytes, bool finish) {
        if (!encoder_) return write_or_throw(fd_, bytes, path_);
        encoder_->encode(bytes, finish, encoded_);
        write_or_throw(fd_, {encoded_.data(), encoded_.size()}, path_);
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

void write_output(const std::string& path, std::string_view text) {
    Output output(path);
    output.write(text);
    output.close();
}

}  // namespace cep::tool
