// SPDX-License-Identifier: Apache-2.0
//
// Step picture: the time of the steps, and by how much ranks and phases exceed the work of the median rank.
#pragma once

#include <optional>

#include "model/job.hpp"
#include "show/picture.hpp"
#include "verdict/verdict.hpp"

namespace cep::tool {

/// None without steps. It points at steps with a mark, lasting changes, and the phases of slow ranks.
[[nodiscard]] std::optional<StepPicture> draw_steps(const Job& job, const Judgement& judgement);

}  // namespace cep::tool
