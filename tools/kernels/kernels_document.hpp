// SPDX-License-Identifier: Apache-2.0
//
// Kernels document: a kernel report as people and programs read it.
#pragma once

#include <string>

#include "kernels/kernel_report.hpp"
#include "show/document.hpp"

namespace cep::kernels {

/// The document for one format. JSON has schema cep.kernels/2, and at most `rendering.limit` kernels of each rank; 0:
/// all. CSV has a line for each rank and one for all.
[[nodiscard]] tool::Document make_document(KernelReport report, const tool::Rendering& rendering);

/// What the traces lacked, in one line; "" for nothing.
[[nodiscard]] std::string describe_gaps(const KernelReport& report);

}  // namespace cep::kernels
