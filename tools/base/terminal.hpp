// SPDX-License-Identifier: Apache-2.0
//
// Terminals: whether there is one, and how wide it is.
#pragma once

#include <cstddef>

namespace cep::tool {

/// Whether a descriptor is a terminal that shows colours and moves its cursor, which TERM=dumb denies.
[[nodiscard]] bool is_terminal(int descriptor);

/// The width of texts: COLUMNS, else the width of the terminal on standard output, else 80; from 40 to 100.
[[nodiscard]] std::size_t text_columns();

}  // namespace cep::tool
