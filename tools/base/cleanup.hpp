// SPDX-License-Identifier: Apache-2.0
//
// Cleaning up when a signal ends the command: no temporary stays behind.
#pragma once

#include <string>

namespace cep::tool {

/// From now on SIGINT, SIGTERM and SIGHUP remove this file before they end the process. One file at a time.
void remember_temporary_file(const std::string& path);
void forget_temporary_file();

}  // namespace cep::tool
