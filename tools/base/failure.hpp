// SPDX-License-Identifier: Apache-2.0
//
// What stops a command, and the exit status that each stop has.
#pragma once

#include <stdexcept>
#include <string>

namespace cep::tool {

/// Exit statuses of every command; documented in cep(1).
enum class Status : int {
    done = 0,
    finding = 1,
    usage = 2,
    nothing_readable = 3,
    incomplete = 4,
    system_failure = 5,
};

/// An argument is wrong.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// One input cannot be opened or read. The other inputs still are.
struct ReadError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The output or a temporary file cannot be written.
struct WriteError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Whoever read the output has closed it (`cep merge … | head`): stop, and say nothing.
struct OutputClosed {};

}  // namespace cep::tool
