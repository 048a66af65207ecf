// SPDX-License-Identifier: Apache-2.0
//
// Copies: the bytes that copy engines moved, by direction and by the host's memory.
#pragma once

#include "kernels/rank_trace.hpp"
#include "show/json_writer.hpp"
#include "show/table.hpp"

namespace cep::kernels {

/// Whether a GPU event is a copy from or to memory of the host that is not pinned.
[[nodiscard]] bool is_pageable_copy(std::string_view name);
[[nodiscard]] tool::Table copy_table(const KernelTotals& kernels);
/// The member "copies".
void write_copies(tool::JsonWriter& json, const KernelTotals& kernels);

}  // namespace cep::kernels
