// SPDX-License-Identifier: Apache-2.0
//
// Terminals: whether there is one, and how wide it is.
#pragma once

#include <cstddef>

namespace cep::tool {

/// Whether a descriptor is a terminal that shows colours and moves its cursor, which TERM=dumb denies.
[[nodiscard]] bool is_terminal(int descriptor);

/// COLUMNS, else the width of the terminal on standard output, else 80.
[[nodiscard]] std::size_t output_columns();

/// The width of texts: that of the output, from 40 to 100.
[[nodiscard]] std::size_t text_columns();

/// Whether the locale's characters are UTF-8, by LC_ALL, LC_CTYPE and LANG. It need not be installed.
[[nodiscard]] bool locale_is_utf8();

}  // namespace cep::tool
