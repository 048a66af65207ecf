// SPDX-License-Identifier: Apache-2.0
//
// A kernel report in sentences.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_report.hpp"

namespace cep::kernels {

/// How long the GPUs were busy.
[[nodiscard]] std::string describe_busy(const KernelReport& report);
/// Which classes of kernels took the time, how much communication was exposed, how long kernels are, which matrix
/// products run on Tensor Cores, and copies from pageable memory.
[[nodiscard]] std::vector<std::string> describe_work(const KernelReport& report);

/// Whether the other ranks wait for one of them.
struct RankVerdict {
    bool stands_out = false;
    std::string text;    // "" for a single rank
    std::string advice;  // ""; where to look next
};
[[nodiscard]] RankVerdict judge_ranks(const KernelReport& report);

/// What to do, by thresholds that cep-kernels(1) lists.
[[nodiscard]] std::vector<std::string> advise(const KernelReport& report);

}  // namespace cep::kernels
