// SPDX-License-Identifier: Apache-2.0
#include "read/run_tracker.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/hash.hpp"
#include "base/say.hpp"

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

RunOrder order_of(const RunStart& run) {
    return {run.start_unix_ns.value_or(INT64_MIN), run.attempt};
}

bool same_run(const RunInfo& a, const RunInfo& b) {
    return a.run_id == b.run_id && a.attempt == b.attempt && a.rank == b.rank;
}

template <typename IsWanted>
RunTracker::Slot& RunTracker::find_slot(std::uint32_t hash, IsWanted is_wanted) {
    for (std::size_t i = hash;; ++i) {
        Slot& slot = slots_[i & (slots_.size() - 1)];
        if (slot == 0 || ((slot ^ hash) >> number_bits == 0 && is_wanted(known(slot)))) return slot;
    }
}

// Keeps at least half of the slots empty.
void RunTracker::make_room() {
    if (2 * known_.size() <= slots_.size()) return;
    for (const Slot slot : std::exchange(slots_, std::vector<Slot>(2 * slots_.size())))
        if (slot != 0) find_slot(known(slot).hash, [](const Known&) { return false; }) = slot;
}

std::string_view RunTracker::keep_id(std::string_view run_id) {
    auto* const kept = static_cast<char*>(ids_->allocate(run_id.size(), 1));
    std::copy(run_id.begin(), run_id.end(), kept);
    return {kept, run_id.size()};
}

RunOfRow RunTracker::observe_run(RankRuns& rank, std::int64_t number, const RunInfo& run) {
    make_room();
    const std::uint64_t of_rank = mix_bits(static_cast<std::uint64_t>(number));
    const std::uint64_t of_attempt = mix_bits(of_rank + static_cast<std::uint64_t>(run.attempt));
    const auto hash = static_cast<std::uint32_t>(mix_bits(of_attempt + std::hash<std::string_view>()(run.run_id)));
    Slot& slot = find_slot(hash, [&](const Known& other) {
        if (other.rank != &rank) return false;
        const RunStart& start = rank.runs[other.index];
        return start.attempt == run.attempt && start.run_id == run.run_id;
    });
    if (slot != 0) return repeat_run(rank, known(slot).index, run);
    if (known_.size() == max_runs) {
        if (!std::exchange(has_too_many_runs_, true))
            say("more than {} runs in one input: rows of the others count for the runs before them\n", max_runs);
        const int before = static_cast<int>(rank.block_end) - 1;
        return {before < 0 ? nullptr : &rank.runs[rank.block_end - 1], before, false, false, true};
    }
    const auto index = static_cast<std::uint32_t>(rank.runs.size());
    known_.push_back({&rank, index, hash});
    slot = (hash >> number_bits << number_bits) | static_cast<Slot>(known_.size());
    const std::string_view run_id =
        index > 0 && rank.runs.back().run_id == run.run_id ? rank.runs.back().run_id : keep_id(run.run_id);
    rank.runs.push_back({run_id, run.attempt, run.start_unix_ns, run.clock_error_ns, run.world_size, std::nullopt,
                         names_launcher(run)});
    ++rank.without_step;
    if (rank.other_rows_since) rank.block_begin = index;
    rank.block_end = index + 1;
    rank.block.reset();
    rank.other_rows_since = false;
    return {&rank.runs.back(), static_cast<int>(index), true};
}

RunOfRow RunTracker::repeat_run(RankRuns& rank, std::size_t index, const RunInfo& run) {
    RunStart& old = rank.runs[index];
    const bool is_changed = old.start_unix_ns != run.start_unix_ns || old.clock_error_ns != run.clock_error_ns;
    old = {old.run_id,     old.attempt,    run.start_unix_ns,  run.clock_error_ns,
           run.world_size, old.first_step, names_launcher(run)};
    const bool in_block = index >= rank.block_begin && index < rank.block_end;
    const bool returning = !in_block || (rank.other_rows_since && rank.block_end - rank.block_begin > 1);
    rank.in_turn |= returning;
    // A run that returns with another start begins a block too: to sort a block for each such row takes long.
    if (!in_block || (returning && is_changed)) {
        rank.block_begin = index;
        rank.block_end = index + 1;
    }
    if (!in_block || is_changed) rank.block.reset();
    return {&old, static_cast<int>(index), false, returning};
}

void RunTracker::note_step(RankRuns& rank, int index, const Row& row) {
    if (row.type == RowType::stats || !row.step) return;
    if (index == RunOfRow::none && !rank.before) rank.before.emplace().start_unix_ns = row.start_ns;
    RunStart& start = index == RunOfRow::none ? *rank.before : rank.runs[static_cast<std::size_t>(index)];
    if (start.first_step) return;
    start.first_step = row.step;
    rank.without_step -= index != RunOfRow::none;
}

std::unique_ptr<RunTracker::Block> RunTracker::sort_block(const RankRuns& rank) {
    const auto start_of = [](const RunStart& run) {
        return run.start_unix_ns ? *run.start_unix_ns - run.clock_error_ns.value_or(0) : INT64_MIN;
    };
    const auto make_list = [&](bool by_attempt) {
        std::vector<Started> list;
        for (std::size_t i = rank.block_begin; i < rank.block_end; ++i)
            list.push_back({by_attempt ? rank.runs[i].attempt : 0, start_of(rank.runs[i]), i});
        std::sort(list.begin(), list.end(), [](const Started& a, const Started& b) {
            return std::tie(a.attempt, a.time_ns, a.run) < std::tie(b.attempt, b.time_ns, b.run);
        });
        const auto later = [&rank](std::size_t a, std::size_t b) {
            return std::tuple(order_of(rank.runs[a]), a) > std::tuple(order_of(rank.runs[b]), b);
        };
        for (std::size_t i = 1; i < list.size(); ++i)
            if (list[i].attempt == list[i - 1].attempt && later(list[i - 1].run, list[i].run))
                list[i].run = list[i - 1].run;
        return list;
    };
    return std::make_unique<Block>(Block{make_list(false), make_list(true)});
}

int RunTracker::choose(RankRuns& rank, const Row& row) {
    if (rank.block_end == rank.block_begin) return RunOfRow::none;
    if (!rank.block) rank.block = sort_block(rank);
    const bool by_attempt = row.stats != nullptr && row.stats->attempt;
    const std::int64_t attempt = by_attempt ? *row.stats->attempt : 0;
    const std::int64_t time_ns = row.start_ns.value_or(INT64_MAX);
    const auto& list = by_attempt ? rank.block->started_by_attempt : rank.block->started;
    const auto behind = std::partition_point(list.begin(), list.end(), [&](const Started& started) {
        return std::tie(started.attempt, started.time_ns) <= std::tie(attempt, time_ns);
    });
    const bool any = behind != list.begin() && std::prev(behind)->attempt == attempt;
    return static_cast<int>(any ? std::prev(behind)->run : rank.block_begin);
}

const std::vector<RunStart>& RunTracker::runs(std::int64_t rank) const {
    static const std::vector<RunStart> none;
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? none : found->second.runs;
}

}  // namespace cep::tool
