// SPDX-License-Identifier: Apache-2.0
//
// Kernels document: a kernel report as people and programs read it.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/kernel_report.hpp"
#include "show/document.hpp"

namespace cep::kernels {

/// JSON has schema cep.kernels/1, and at most `max_kernels` kernels of each rank; 0: all. CSV has a line for each rank
/// and one for all.
[[nodiscard]] tool::Document make_document(KernelReport report, std::size_t max_kernels);

/// What the traces lacked, in one line; "" for nothing.
[[nodiscard]] std::string describe_gaps(const KernelReport& report);

}  // namespace cep::kernels
