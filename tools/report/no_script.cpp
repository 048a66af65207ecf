// SPDX-License-Identifier: Apache-2.0
#include "report/script.hpp"

namespace cep::tool {

std::string_view report_script() {
    return "";
}

}  // namespace cep::tool
