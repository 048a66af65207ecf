// SPDX-License-Identifier: Apache-2.0
//
// Cleanup: a signal that ends the command removes the temporary file of its output.
#pragma once

#include <string>

namespace cep::tool {

/// Appends seven characters to `path`, and creates and opens the file of that name. Returns its descriptor, or -1 with
/// errno. From then on a signal that ends the process removes the file first. Ignored signals (nohup) stay ignored.
/// Only the last file created is removed.
[[nodiscard]] int create_temporary_file(std::string& path);
/// To be called when the file has been renamed or removed.
void forget_temporary_file();

}  // namespace cep::tool
