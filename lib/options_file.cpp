// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.hpp"
#include "open_file.hpp"
#include "options.hpp"

namespace cep {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int number) noexcept : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    [[nodiscard]] int get() const noexcept { return number_; }

  private:
    int number_;
};

/// A path may be longer than a message. This leaves room for the reason.
constexpr int max_shown_path = 500;

[[nodiscard]] std::int32_t system_error(const char* path) noexcept {
    return fail(CEP_EIO, "%.*s: %s", max_shown_path, path, std::strerror(errno));
}

[[nodiscard]] const char* kind_of(mode_t mode) noexcept {
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a FIFO" : "a device";
}

[[nodiscard]] std::int32_t check_file(const char* path, int descriptor) noexcept {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return system_error(path);
    if (S_ISREG(status.st_mode)) return CEP_OK;
    return fail(CEP_EIO, "%.*s: is %s, not a regular file", max_shown_path, path, kind_of(status.st_mode));
}

}  // namespace

std::int32_t read_config_file(const char* path, std::string& text) {
    // O_NONBLOCK: open(2) must not wait on a FIFO without a writer.
    const Descriptor file(open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file.get() < 0) return system_error(path);
    if (const std::int32_t code = check_file(path, file.get()); code != CEP_OK) return code;
    char block[4096];
    while (text.size() <= max_config_bytes) {
        const ssize_t size = ::read(file.get(), block, sizeof block);
        if (size == 0) return CEP_OK;
        if (size > 0)
            text.append(block, static_cast<std::size_t>(size));
        else if (errno != EINTR)
            return system_error(path);
    }
    return fail(CEP_EIO, "%.*s: the configuration is longer than %zu bytes", max_shown_path, path, max_config_bytes);
}

}  // namespace cep
