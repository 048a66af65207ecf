// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "cep/cep.h"

namespace cep {
namespace {

// A plain array needs no destructor, so it stays readable while its thread exits.
thread_local char message[1024];

}  // namespace

std::int32_t fail(std::int32_t code, const char* format, ...) noexcept {
    const int saved_errno = errno;
    char text[sizeof message];  // formatted here first: the arguments may point into the old message
    std::va_list arguments;
    va_start(arguments, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the check misses va_start() if vsnprintf() is fortified
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    std::memcpy(message, text, sizeof message);
    errno = saved_errno;
    return code;
}

void prefix_error(const char* prefix) noexcept {
    fail(0, "%.200s: %.800s", prefix, message);
}

const char* last_error() noexcept {
    return message;
}

const char* describe(std::int32_t code) noexcept {
    switch (code) {
        case CEP_OK:
            return "success";
        case CEP_EINVAL:
            return "invalid argument";
        case CEP_EOPTION:
            return "invalid option";
        case CEP_EJSON:
            return "invalid JSON";
        case CEP_EIO:
            return "input/output error";
        case CEP_ENOMEM:
            return "out of memory";
        case CEP_ETIMEDOUT:
            return "timed out";
        case CEP_ELIMIT:
            return "a limit is reached";
        case CEP_EINTERNAL:
            return "internal error";
        default:
            return "unknown code";
    }
}

}  // namespace cep
