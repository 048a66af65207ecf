// SPDX-License-Identifier: Apache-2.0
//
// Kernel reports for people, and for programs.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/kernel_report.hpp"

namespace cep::kernels {

/// `top`: how many kernels are shown; 0 for all.
[[nodiscard]] std::string report_text(const KernelReport& report, std::size_t top, bool colors);
[[nodiscard]] std::string report_markdown(const KernelReport& report, std::size_t top);
/// A line for each rank and one for all, times in milliseconds.
[[nodiscard]] std::string report_csv(const KernelReport& report);
/// Schema cep.kernels/1.
[[nodiscard]] std::string report_json(const KernelReport& report, std::size_t top);

/// Kernels with the longest total first; `top` of them, 0 for all.
[[nodiscard]] std::vector<const KernelTotals::value_type*> top_kernels(const KernelTotals& kernels, std::size_t top);

/// What the traces lacked in one line; "" for nothing.
[[nodiscard]] std::string describe_gaps(const KernelReport& report);

}  // namespace cep::kernels
