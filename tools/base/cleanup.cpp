// SPDX-License-Identifier: Apache-2.0
#include "base/cleanup.hpp"

#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>

namespace cep::tool {
namespace {

// A signal handler may touch nothing but this.
char temporary_path[PATH_MAX];
std::atomic<bool> has_temporary{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remove_temporary_and_end(int signal_number) {
    if (has_temporary.load()) ::unlink(temporary_path);
    ::raise(signal_number);
}

}  // namespace

void remember_temporary_file(const std::string& path) {
    if (path.size() >= sizeof temporary_path) return;
    std::memcpy(temporary_path, path.c_str(), path.size() + 1);
    has_temporary.store(true);
    struct sigaction action {};
    action.sa_handler = remove_temporary_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction current {};
        // A signal that is ignored (nohup) stays ignored.
        if (::sigaction(signal_number, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
            ::sigaction(signal_number, &action, nullptr);
    }
}

void forget_temporary_file() {
    has_temporary.store(false);
}

}  // namespace cep::tool
