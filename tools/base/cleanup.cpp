// SPDX-License-Identifier: Apache-2.0
#include "base/cleanup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace cep::tool {
namespace {

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

}  // namespace

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

void forget_temporary_file() {
    has_temporary.store(false);
}

}  // namespace cep::tool
