// SPDX-License-Identifier: Apache-2.0
//
// Summary document: a job's figures, led by the verdict, as people and programs read them.
#pragma once

#include <cstddef>

#include "show/document.hpp"
#include "summary/summary.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// `verdict`: nullptr for none. `limit`: how many lines a table will show people (0: all), as windows of steps that
/// are few enough stay in the order of time. The document refers to all three arguments.
[[nodiscard]] Document summary_document(const Job& job, const Summary& summary, const Verdict* verdict,
                                        std::size_t limit);

}  // namespace cep::tool
