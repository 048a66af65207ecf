// SPDX-License-Identifier: Apache-2.0
//
// Terminals: whether there is one, and how wide it is.
#pragma once

#include <cstddef>

namespace cep::tool {

/// Whether a descriptor is a terminal that moves its cursor and shows colours. TERM=dumb says that it does not.
[[nodiscard]] bool is_terminal(int descriptor);

/// Columns for text: COLUMNS, else those of the terminal on standard output, else 80. From 40 to 100.
[[nodiscard]] std::size_t text_columns();

}  // namespace cep::tool
