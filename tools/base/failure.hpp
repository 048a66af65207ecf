// SPDX-License-Identifier: Apache-2.0
//
// Failures that end a command, and its exit statuses.
#pragma once

#include <stdexcept>

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

/// An input cannot be opened or read. Other inputs are still read.
struct ReadError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The output or a temporary file cannot be written.
struct WriteError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The reader of the output has closed it (`cep merge … | head`). The command ends without a message.
struct OutputClosed {};

}  // namespace cep::tool
