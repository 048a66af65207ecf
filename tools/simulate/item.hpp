// SPDX-License-Identifier: Apache-2.0
//
// Item: a span, counter or mark of a rank, before it becomes a row. Times are true times since the job's start.
#pragma once

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
enum class ItemType : std::uint8_t { gpu_span, host_span, mark, counter };

struct NameFacts {
    std::string_view text;
    ItemType type;
};
inline constexpr NameFacts name_facts[] = {
    {"data_load", ItemType::host_span},
    {"host_to_device", ItemType::gpu_span},
    {"forward", ItemType::gpu_span},
    {"backward", ItemType::gpu_span},
    {"optimizer", ItemType::gpu_span},
    {"training_step", ItemType::gpu_span},
    {"all_reduce", ItemType::gpu_span},
    {"send", ItemType::gpu_span},
    {"recv", ItemType::gpu_span},
    {"save_checkpoint", ItemType::host_span},
    {"evaluation", ItemType::gpu_span},
    {"checkpoint", ItemType::mark},
    {"evaluation", ItemType::mark},
    {"memory.allocated_bytes", ItemType::counter},
    {"memory.reserved_bytes", ItemType::counter},
};
inline constexpr std::size_t name_count = std::size(name_facts);

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
    std::uint8_t depth = 1;
    std::uint8_t stream = 1;

    [[nodiscard]] ItemType type() const { return name_facts[static_cast<std::size_t>(name)].type; }
    [[nodiscard]] bool is_span() const { return type() == ItemType::gpu_span || type() == ItemType::host_span; }
};

using Items = std::vector<std::vector<Item>>;  // by rank

}  // namespace cep::simulation
