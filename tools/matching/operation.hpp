// SPDX-License-Identifier: Apache-2.0
//
// Operations of collectives, by the names of their spans.
#pragma once

#include <cstdint>
#include <string_view>

namespace cep::tool {

enum class Operation : std::uint8_t {
    other,
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    broadcast,
    reduce,
    gather,
    scatter,
    send_recv,
    barrier,
};
inline constexpr std::string_view operation_names[] = {"other",      "all_reduce", "all_gather", "reduce_scatter",
                                                       "all_to_all", "broadcast",  "reduce",     "gather",
                                                       "scatter",    "send_recv",  "barrier"};

[[nodiscard]] constexpr std::string_view operation_name(Operation operation) {
    return operation_names[static_cast<std::size_t>(operation)];
}

/// From whole words of the name: "ncclDevKernel_AllReduce_Sum" and "all_reduce.bucket3" are all_reduce. A send and a
/// receive are the two ends of one transfer.
[[nodiscard]] Operation operation_of_name(std::string_view name);

}  // namespace cep::tool
