// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/hash.hpp"
#include "replay/step_graph.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t mined_rows = 100'000;

// Ranks of a role take turns, so that few steps show many of them.
std::vector<RoleSample> sample_roles(std::vector<StepRows>& steps, const JobModel& model) {
    constexpr std::size_t most_cells = 1'000'000;  // instances times pieces
    constexpr std::size_t most_instances = 1'500;
    struct Instance {
        std::size_t step;
        std::size_t rank;
    };
    std::vector<std::vector<Instance>> by_role(model.roles.count());
    for (std::size_t step = 0; step < steps.size(); ++step)
        for (std::size_t rank = 0; rank < steps[step].ranks.size(); ++rank)
            by_role[model.roles.of_rank[steps[step].ranks[rank].rank]].push_back({step, rank});
    std::vector<RoleSample> samples(by_role.size());
    for (std::size_t role = 0; role < by_role.size(); ++role) {
        const std::vector<Instance>& all = by_role[role];
        if (all.empty()) continue;
        std::size_t rows = 0;
        for (const Instance& instance : all)
            rows += steps[instance.step].ranks[instance.rank].last - steps[instance.step].ranks[instance.rank].first;
        const std::size_t most = std::max<std::size_t>(50, most_cells * all.size() / std::max<std::size_t>(1, rows));
        const std::size_t wanted = std::min({all.size(), most, most_instances});
        for (std::size_t i = 0; i < wanted; ++i) {
            const Instance& instance = all[i * all.size() / wanted];
            samples[role].push_back(
                pieces_of(steps[instance.step], steps[instance.step].ranks[instance.rank], model.tolerance_ms));
        }
    }
    return samples;
}

void find_collectives(const std::vector<StepRows>& steps, JobModel& model) {
    std::size_t slots = 0;
    for (const RoleTemplate& role : model.templates) slots = std::max(slots, role.slots.size());
    DisjointSets joined(model.rows->ranks().size() * slots);
    std::vector<bool> is_seen(model.rows->ranks().size() * slots);
    // Among the slots of all ranks.
    const auto slot_of = [&](const CommRow& row) -> std::optional<std::size_t> {
        const RoleTemplate& role = model.templates[model.roles.of_rank[row.rank]];
        const auto found = role.slot_of.find(PieceKey::pack(row.stream, row.name, row.seq, 0));
        return found == role.slot_of.end() ? std::nullopt : std::optional(row.rank * slots + found->second);
    };
    for (const StepRows& step : steps) {
        const std::vector<CommRow> rows = comm_rows(step);
        for_each_collective(rows, [&](std::span<const CommRow> members) {
            std::optional<std::size_t> first;
            for (const CommRow& member : members) {
                const std::optional<std::size_t> slot = slot_of(member);
                if (!slot) continue;
                is_seen[*slot] = true;
                if (!first) first = slot;
                joined.join(*first, *slot);
            }
        });
    }
    model.collectives = CollectiveSlots(slots, std::move(joined), is_seen);
}

}  // namespace

// Slots of which a rank has two in one collective say nothing: their numbers shift from step to step.
CollectiveSlots::CollectiveSlots(std::size_t slots, DisjointSets joined, const std::vector<bool>& is_seen)
    : slots_(slots), numbers_(is_seen.size(), no_index) {
    std::vector<std::uint32_t> number_of(is_seen.size(), no_index);  // by the one that stands for the collective
    std::vector<std::size_t> last_rank;
    std::vector<bool> is_valid;
    for (std::size_t at = 0; at < is_seen.size(); ++at) {
        if (!is_seen[at]) continue;
        std::uint32_t& number = number_of[joined.find(at)];
        const bool is_new = number == no_index;
        if (is_new) number = static_cast<std::uint32_t>(sizes_.size());
        if (is_new) sizes_.push_back(0);
        const std::size_t rank = at / slots;
        last_rank.resize(sizes_.size(), rank);
        is_valid.resize(sizes_.size(), true);
        if (!is_new && last_rank[number] == rank) is_valid[number] = false;
        last_rank[number] = rank;
        ++sizes_[number];
        numbers_[at] = number;
    }
    for (std::uint32_t& number : numbers_)
        if (number != no_index && !is_valid[number]) number = no_index;
}

void JobModel::number_keys() {
    const auto names = static_cast<std::uint32_t>(rows->names().size());
    first_keys.assign(1, 0);
    keys.clear();
    is_of_few_.clear();
    for (std::uint32_t role = 0; role < templates.size(); ++role) {
        std::vector<bool> has_slot(names);
        for (const TemplateSlot& slot : templates[role].slots) {
            keys.push_back({role, PieceKey::name(slot.key), slot.is_comm, slot.segment, PieceKey::seq(slot.key)});
            has_slot[PieceKey::name(slot.key)] = true;
        }
        is_of_few_.resize(keys.size());
        for (std::uint32_t name = 0; name < names; ++name) {
            keys.push_back({role, static_cast<std::uint16_t>(name), rows->names()[name].is_comm(), 0, 0});
            is_of_few_.push_back(!has_slot[name] && !keys.back().is_comm);
        }
        keys.push_back({role, 0, false, PieceKey::max_segment, 0});
        is_of_few_.push_back(false);
        first_keys.push_back(static_cast<std::uint32_t>(keys.size()));
    }
}

JobModel build_model(const JobRows& rows, std::size_t threads) {
    JobModel model(rows);
    std::vector<StepRows> sample = read_sample(rows, mined_rows, threads);
    model.tolerance_ms = find_tolerance_ms(sample);
    model.clocks = find_clock_facts(sample, rows, model.tolerance_ms);
    if (model.clocks.are_apart)
        for (StepRows& step : sample) shift_clocks(step, find_clock_offsets_ms(comm_rows(step), rows), rows);
    model.leave_together = !rows.are_placed() || leave_together(sample);
    model.roles = find_roles(sample, rows, model.tolerance_ms);
    std::vector<RoleSample> samples = sample_roles(sample, model);
    model.templates = find_templates(samples, model.tolerance_ms);
    model.number_keys();
    find_collectives(sample, model);
    return model;
}

}  // namespace cep::tool
