// SPDX-License-Identifier: Apache-2.0
#include "report/row_heat.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cep::report {

Bins RowHeat::columns_for(const JobView& view) {
    const std::size_t rows = std::max<std::size_t>(1, view.ranks.size() * view.phases.size());
    return merge_bins(view.steps, std::clamp<std::size_t>(max_cells / rows, 1, 1000));
}

RowHeat::RowHeat(const JobView& view) : view_(view) {
    for (std::size_t i = 0; i < view.phases.size(); ++i) {
        phases_.try_emplace(view.phases[i].name, i);
        matrices_.emplace_back(view.ranks.size(), view.steps.size());
    }
}

void FileHeat::take(const tool::Row& row, std::uint64_t /*line*/) {
    if (row.type != tool::RowType::span || !filter_.accepts(row)) return;
    const auto phase = heat_.phases_.find(row.name);
    if (phase == heat_.phases_.end()) return;
    std::vector<Part>& parts = ranks_[*row.rank];
    if (parts.empty()) parts.resize(heat_.view_.phases.size(), Part{{}, 0, NAN});
    Part& part = parts[phase->second];
    if (part.step != *row.step || std::isnan(part.step_ms)) {
        close(part);
        part.step = *row.step;
        part.step_ms = 0;
    }
    part.step_ms += row.duration_ms;
}

void FileHeat::close(Part& part) const {
    if (std::isnan(part.step_ms)) return;
    const Bins& steps = heat_.view_.steps;
    const std::size_t column = steps.index_of(part.step);
    if (part.longest_ms.empty()) part.longest_ms.assign(steps.size(), NAN);
    if (column < steps.size())
        part.longest_ms[column] = std::fmax(part.longest_ms[column], static_cast<float>(part.step_ms));
    part.step_ms = NAN;
}

void FileHeat::end() {
    for (auto& [rank, parts] : ranks_)
        for (Part& part : parts) close(part);
}

void FileHeat::merge_into(RowHeat& heat) const {
    for (const auto& [rank, parts] : ranks_) {
        const std::size_t index = heat.view_.index_of(rank);
        if (index == heat.view_.ranks.size()) continue;
        for (std::size_t phase = 0; phase < parts.size(); ++phase) {
            const std::span<float> into = heat.matrices_[phase].of_rank(index);
            const std::vector<float>& longest_ms = parts[phase].longest_ms;
            for (std::size_t column = 0; column < longest_ms.size(); ++column)
                into[column] = std::fmax(into[column], longest_ms[column]);
        }
    }
}

}  // namespace cep::report
