// SPDX-License-Identifier: Apache-2.0
//
// Showing a manual page.
#pragma once

#include "manual/page.hpp"

namespace cep::tool {

/// On a terminal this process becomes man(1), if man and the page's file are there. Otherwise writes the page's text to
/// standard output, and throws as Output does.
void show_page(const Page& page);

}  // namespace cep::tool
