// SPDX-License-Identifier: Apache-2.0
#include "base/say.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptors.hpp"
#include "base/text.hpp"

namespace cep::tool {

void say_text(std::string_view message) noexcept {
    try {
        show_status(printable_lines(message));
    } catch (...) {  // not enough memory for the escaped copy
        show_status("cep: not enough memory for a message\n");
    }
}

void show_status(std::string_view text) noexcept {
    static_cast<void>(write_all(STDERR_FILENO, text));  // nobody could be told of a failure
}

void fill_standard_descriptors() noexcept {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
        // open() returns the lowest free number, which is this one. The wrong direction makes its use fail.
        static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
}

}  // namespace cep::tool
