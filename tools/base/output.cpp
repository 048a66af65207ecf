// SPDX-License-Identifier: Apache-2.0
#include "base/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/descriptors.hpp"
#include "base/failure.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

// Without SIGPIPE and SIGXFSZ: main() ignores them, so that write() fails instead.
constexpr int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};

// All that the signal handler uses.
char temporary_path[PATH_MAX];
std::atomic<bool> has_temporary{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remove_temporary_and_end(int signal_number) {
    if (has_temporary.load()) ::unlink(temporary_path);
    ::raise(signal_number);
}

void handle_ending_signals() {
    struct sigaction action {};
    action.sa_handler = remove_temporary_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    for (const int signal_number : ending_signals) {
        struct sigaction current {};
        if (::sigaction(signal_number, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
            ::sigaction(signal_number, &action, nullptr);
    }
}

/// Appends seven characters to `path`, and creates and opens the file of that name. Returns its descriptor, or -1 with
/// errno. From then on a signal that ends the process removes the file first. Ignored signals (nohup) stay ignored.
/// Only the last file created is removed.
int create_temporary_file(std::string& path) {
    path += ".XXXXXX";
    if (path.size() >= sizeof temporary_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    // No signal may come between creating the file and remembering its name.
    sigset_t ending;
    sigset_t before;
    ::sigemptyset(&ending);
    for (const int signal_number : ending_signals) ::sigaddset(&ending, signal_number);
    ::pthread_sigmask(SIG_BLOCK, &ending, &before);
    const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
    const int error = errno;
    if (descriptor >= 0) {
        has_temporary.store(false);
        std::memcpy(temporary_path, path.c_str(), path.size() + 1);
        has_temporary.store(true);
        handle_ending_signals();
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return descriptor;
}

/// To be called when the file has been renamed or removed.
void forget_temporary_file() {
    has_temporary.store(false);
}

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

Output::Output(const std::string& path) : path_(follow_link(path)), encoder_(make_encoder(path)) {
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

Output::~Output() {
    if (fd_ > STDERR_FILENO) ::close(fd_);
    if (temporary_.empty()) return;
    ::unlink(temporary_.c_str());
    forget_temporary_file();
}

void Output::write(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > buffer_bytes) flush(false);
    if (bytes.size() > buffer_bytes) return emit(bytes, false);
    buffer_.append(bytes);
}

void Output::write_line(std::string_view text) {
    if (buffer_.size() + text.size() < buffer_bytes) {
        buffer_.append(text).push_back('\n');
    } else {
        write(text);
        write("\n");
    }
}

void Output::close() {
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

void Output::open_temporary() {
    temporary_ = path_;
    fd_ = create_temporary_file(temporary_);
    if (fd_ >= 0) {
        static_cast<void>(::fchmod(fd_, mode_for(path_)));
        return;
    }
    temporary_.clear();
    throw WriteError(path_ + ": cannot create: " + std::strerror(errno));
}

void Output::flush(bool finish) {
    emit(buffer_, finish);
    buffer_.clear();
}

void Output::emit(std::string_view bytes, bool finish) {
    if (!encoder_) return write_or_throw(fd_, bytes, path_);
    encoder_->encode(bytes, finish, encoded_);
    write_or_throw(fd_, {encoded_.data(), encoded_.size()}, path_);
}

void write_output(const std::string& path, std::string_view text) {
    Output output(path);
    output.write(text);
    output.close();
}

}  // namespace cep::tool
