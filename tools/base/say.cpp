// SPDX-License-Identifier: Apache-2.0
#include "base/say.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/text.hpp"

namespace cep::tool {
namespace {

void write_all(std::string_view bytes) noexcept {
    while (!bytes.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

}  // namespace

void say_text(std::string_view message) noexcept {
    try {
        write_all(printable_lines(message));
    } catch (...) {  // not enough memory for the escaped copy
        write_all("cep: not enough memory for a message\n");
    }
}

void show_status(std::string_view text) noexcept {
    write_all(text);
}

void fill_standard_descriptors() noexcept {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
        // open() returns the lowest free number, which is this one. The wrong direction makes its use fail.
        static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
}

}  // namespace cep::tool
