// SPDX-License-Identifier: Apache-2.0
//
// Model builder: finds in a sample of a job's steps what its graphs are built with.
#pragma once

#include "replay/step_graph.hpp"

namespace cep::tool {

[[nodiscard]] JobModel build_model(const JobRows& rows);

}  // namespace cep::tool
