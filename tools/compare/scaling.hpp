// SPDX-License-Identifier: Apache-2.0
//
// Scaling: how much work a rank does in jobs of different sizes, and what the larger ones lose it to.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/ledger.hpp"
#include "model/job.hpp"
#include "show/document.hpp"

namespace cep::compare {

struct ScaledJob {
    std::string name;
    double ranks = 1;
    double step_ms = 0;                                 // mean, of iterations and the time between them
    double tokens = 0;                                  // of a step, of all ranks; 0: not known
    double flops = 0;                                   // likewise
    std::array<double, tool::piece_count> pieces_ms{};  // of a step; add up to step_ms
    // Filled in by compare_scaling():
    double efficiency = 1;                         // work of a rank in a time, over that in the smallest job
    std::array<double, tool::piece_count> lost{};  // add up to 1 − efficiency
};

struct Scaling {
    std::vector<ScaledJob> jobs;  // ascending by ranks
    std::string_view unit;        // of the work: "FLOP" or "token"; "step of a rank" where not all jobs say
};

[[nodiscard]] ScaledJob scaled_job(std::string name, const tool::Job& job, const tool::Ledger& ledger);
/// `jobs`: two or more.
[[nodiscard]] Scaling compare_scaling(std::vector<ScaledJob> jobs);
[[nodiscard]] tool::Document make_document(Scaling scaling);

}  // namespace cep::compare
