// SPDX-License-Identifier: Apache-2.0
//
// The temporary file of an output: a signal that ends the command removes it.
#pragma once

#include <string>

namespace cep::tool {

/// Creates and opens a file whose name is `path` and six more characters, which are appended to `path`. Returns its
/// descriptor, or -1 with errno. From now on the signals that end a process remove the file first; ignored signals
/// (nohup) stay ignored. Only the file created last is removed.
[[nodiscard]] int create_temporary_file(std::string& path);
/// The file has been renamed or removed.
void forget_temporary_file();

}  // namespace cep::tool
