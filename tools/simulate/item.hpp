// SPDX-License-Identifier: Apache-2.0
//
// Item: a span, counter or mark of a rank, before it becomes a row. Times are true times since the job's start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "schema.hpp"

namespace cep::simulation {

/// The names of rows. They begin with those of the phases of own work, in the order of Phase.
enum class Name : std::uint8_t {
    data_load,
    host_to_device,
    forward,
    backward,
    optimizer,
    training_step,
    all_reduce,
    send,
    recv,
    save_checkpoint,
    evaluation,
    mark_checkpoint,
    mark_evaluation,
    memory_allocated,
    memory_reserved,
};
inline constexpr std::string_view item_names[] = {"data_load",
                                                  "host_to_device",
                                                  "forward",
                                                  "backward",
                                                  "optimizer",
                                                  "training_step",
                                                  "all_reduce",
                                                  "send",
                                                  "recv",
                                                  "save_checkpoint",
                                                  "evaluation",
                                                  "checkpoint",
                                                  "evaluation",
                                                  "memory.allocated_bytes",
                                                  "memory.reserved_bytes"};
inline constexpr std::size_t name_count = std::size(item_names);

enum class ItemType : std::uint8_t { gpu_span, host_span, mark, counter };

inline constexpr std::uint32_t no_group = UINT32_MAX;

struct Item {
    std::int64_t step = 0;
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    std::int64_t host_ns = 0;
    std::int64_t lag_ns = 0;
    std::int64_t value = 0;  // bytes of a span, the value of a counter
    std::int64_t coll = 0;
    std::uint32_t group = no_group;
    std::uint32_t seq = 0;
    Name name = Name::training_step;
    ItemType type = ItemType::gpu_span;
    std::uint8_t depth = 1;
    std::uint8_t stream = 1;
};

using Items = std::vector<std::vector<Item>>;  // by rank

}  // namespace cep::simulation
