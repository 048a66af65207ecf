// SPDX-License-Identifier: Apache-2.0
//
// A kernel report in sentences.
#pragma once

#include <string>

#include "kernels/kernel_report.hpp"

namespace cep::kernels {

/// How long the GPUs were busy.
[[nodiscard]] std::string describe_busy(const KernelReport& report);
/// Which classes of kernels took the time.
[[nodiscard]] std::string describe_classes(const GpuTime& time);
/// How much communication was exposed.
[[nodiscard]] std::string describe_exposed(const GpuTime& time);

/// Whether the other ranks wait for one of them.
struct RankVerdict {
    bool stands_out = false;
    std::string text;    // "" for a single rank
    std::string advice;  // ""; where to look next
};
[[nodiscard]] RankVerdict judge_ranks(const KernelReport& report);

/// "" where the GPUs are busy.
[[nodiscard]] std::string advise_on_idle(const KernelReport& report);

}  // namespace cep::kernels
