// SPDX-License-Identifier: Apache-2.0
//
// Group classes: which process groups of a kind are slower or faster than the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/transfer.hpp"

namespace cep::comm {

/// Groups whose transfers take about as long, for their sizes.
struct GroupClass {
    std::vector<std::uint32_t> groups;  // ascending
    double times_usual = 1;             // as long as those of the class with most groups; of equals, the fastest
};

/// One class, unless a gap between the groups is more than a tenth and more than chance, with what each group's own
/// transfers vary by and how long they stay so. The fastest class first, and four at most.
[[nodiscard]] std::vector<GroupClass> find_group_classes(const Transfers& transfers, std::size_t groups);

}  // namespace cep::comm
