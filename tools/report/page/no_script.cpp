// SPDX-License-Identifier: Apache-2.0
//
// In place of the bundle where it cannot be built.
#include "report/script.hpp"

namespace cep::tool {

std::string_view report_script() { return {}; }

} // namespace cep::tool
