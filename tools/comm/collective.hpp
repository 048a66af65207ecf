// SPDX-License-Identifier: Apache-2.0
//
// Collectives: the operation of a span, and the bytes that each rank sends for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cep::comm {

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

/// Bus bandwidth over algorithm bandwidth: the share of the bytes that each rank sends, as nccl-tests defines it
/// (doc/PERFORMANCE.md). Nothing for one rank, or an operation that is not known or moves no bytes.
[[nodiscard]] std::optional<double> bus_factor(Operation operation, std::uint64_t ranks);

/// The name of a group without what numbers it: "dp" of "dp.tp0.pp1", "dp_3" and "dp".
[[nodiscard]] std::string group_kind(std::string_view group);

}  // namespace cep::comm
