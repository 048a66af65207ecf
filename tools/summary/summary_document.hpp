// SPDX-License-Identifier: Apache-2.0
//
// Summary document: a job's figures, led by the verdict, as people and programs read them.
#pragma once

#include "show/document.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// `verdict`: nullptr for none. `rendering`: how it will be shown, as a table of groups, of which there may be hundreds
/// of thousands, has only the lines that this needs. The document refers to the first three arguments.
[[nodiscard]] Document summary_document(const Job& job, const Summary& summary, const Verdict* verdict,
                                        const Rendering& rendering);

}  // namespace cep::tool
