// SPDX-License-Identifier: Apache-2.0
//
// Shared names: one name, or none, may stand for the groups of many communicators. Which rows of it are one collective
// shows in their times.
#pragma once

#include "model/job.hpp"

namespace cep::tool {

/// Finds the names that stand for many groups, and replaces the numbers of collectives by keys: those of
/// different groups have different ones. Returns false if there are none, and leaves the numbers.
[[nodiscard]] bool separate_groups(Job& job, std::size_t threads);

}  // namespace cep::tool
