// SPDX-License-Identifier: Apache-2.0
#include "read/start_notes.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace cep::tool {
namespace {

bool is_number(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Where nobody sets an id, the library writes HOST-PID-START of the process that started the trainer. A shell starts
// one job after the other.
bool names_launcher(const RunInfo& run) {
    const std::string_view id = run.run_id;
    if (run.host.empty() || !id.starts_with(run.host + "-")) return false;
    const std::string_view rest = id.substr(run.host.size() + 1);
    const std::size_t dash = rest.find('-');
    return dash != std::string_view::npos && is_number(rest.substr(0, dash)) && is_number(rest.substr(dash + 1));
}

}  // namespace

void StartNotes::set_noted(std::int64_t rank, bool is_noted) {
    constexpr std::int64_t max_rank = std::int64_t{1} << 22;
    if (rank < 0 || rank >= max_rank) return;
    const auto index = static_cast<std::size_t>(rank);
    if (index >= noted_.size()) noted_.resize(std::max(index + 1, 2 * noted_.size()));
    noted_[index] = is_noted;
}

void StartNotes::note(const Row& row) {
    const RunTracker::Assignment assigned = tracker_.observe(row);
    if (assigned.ignored) return;
    RankStarts& rank = ranks_[*row.rank];
    if (row.type == RowType::run) {
        note_run(*row.run, assigned, rank);
    } else if (row.type != RowType::stats && row.step) {
        note_step(row, assigned.run, rank);
    }
    set_noted(*row.rank, row.type != RowType::run && rank.without_step == 0);
}

void StartNotes::note_run(const RunInfo& run, const RunTracker::Assignment& assigned, RankStarts& rank) {
    rank.in_turn |= assigned.returning;
    has_too_many_ |= rank.starts.size() == max_starts && assigned.new_run;
    if (has_too_many_) return;
    if (assigned.new_run) {
        rank.starts.emplace_back();
        ++rank.without_step;
    }
    TrainerStart& start = rank.starts[static_cast<std::size_t>(assigned.run)];
    start.rank = run.rank;
    start.index = assigned.run;
    start.run_id = run.run_id;
    start.is_of_launcher = names_launcher(run);
    start.world_size = run.world_size;
    start.start_ns = run.start_unix_ns;
}

void StartNotes::note_step(const Row& row, int run, RankStarts& rank) {
    if (run == RunTracker::no_run && !rank.before) {
        rank.before.emplace();
        rank.before->rank = *row.rank;
        rank.before->start_ns = row.start_ns;
    }
    TrainerStart& start = run == RunTracker::no_run ? *rank.before : rank.starts[static_cast<std::size_t>(run)];
    if (!start.first_step && start.has_run_row()) --rank.without_step;
    if (!start.first_step) start.first_step = row.step;
}

std::vector<TrainerStart> StartNotes::finish() {
    std::vector<TrainerStart> all;
    if (has_too_many_) return all;
    for (auto& [number, rank] : ranks_) {
        for (TrainerStart& start : rank.starts) start.in_turn = rank.in_turn;
        if (rank.before) all.push_back(std::move(*rank.before));
        std::move(rank.starts.begin(), rank.starts.end(), std::back_inserter(all));
    }
    return all;
}

}  // namespace cep::tool
