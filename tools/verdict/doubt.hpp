// SPDX-License-Identifier: Apache-2.0
//
// Doubt: nobody is slow among the ranks that were seen. Whether that is all there is to know.
#pragma once

#include "verdict/judged_job.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// Makes the verdict abstain, or name the rank for which the others wait, if it is not.
void doubt(const JudgedJob& judged, Verdict& verdict);

}  // namespace cep::tool
