// SPDX-License-Identifier: Apache-2.0
//
// Text of slow ranks: who is slow, in what, when, by how much, and what to look at.
#pragma once

#include <string>
#include <vector>

#include "replay/finding.hpp"

namespace cep::tool {

/// "in nearly every step", "in steps 3 to 20".
[[nodiscard]] std::string when(const Finding& slow);
/// "rank 3: forward takes 1.40 times as long as on its peers, …".
[[nodiscard]] std::string describe_straggler(const Finding& straggler);
/// "forward takes 45.0 ms on ranks 0–4, 30.0 ms on ranks 5–7 (1.50 times as long)".
[[nodiscard]] std::string compare_groups(const Finding& group);
/// The same, with its stage and the steps in which it is so.
[[nodiscard]] std::string describe_group(const Finding& group);
[[nodiscard]] std::vector<std::string> next_steps_at(const Finding& worst, bool is_on_slow_host);

}  // namespace cep::tool
