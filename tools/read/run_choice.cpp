// SPDX-License-Identifier: Apache-2.0
#include "read/run_choice.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include "base/disjoint_sets.hpp"
#include "base/failure.hpp"
#include "base/say.hpp"
#include "base/text.hpp"
#include "read/inputs.hpp"

namespace cep::tool {
namespace {

// Ranks that start together. Large jobs take this long to start everywhere, and clocks of hosts differ.
constexpr std::int64_t together_ns = 60'000'000'000;

std::int64_t time_of(const TrainerStart& start) {
    return start.start_unix_ns.value_or(INT64_MIN);
}

/// Starts of one id that are one run whatever else there is: all of them, but of a launcher's id those of one launch.
struct StartGroup {
    std::string_view run_id;
    bool is_of_launcher = false;
    bool has_run_rows = true;
    std::int64_t start_ns = INT64_MIN;  // the first
    std::int64_t last_ns = INT64_MIN;
    std::int64_t world_size = 0;  // 0: not known
    std::optional<std::int64_t> first_step{};
    NumberRanges ranks{};

    void add(const TrainerStart& start) {
        if (ranks.empty()) start_ns = time_of(start);
        last_ns = std::max(last_ns, time_of(start));
        world_size = std::max(world_size, start.world_size.value_or(0));
        if (start.first_step) first_step = std::min(first_step.value_or(*start.first_step), *start.first_step);
        ranks.insert(start.rank);
    }
};

bool share_ranks(const NumberRanges& a, const NumberRanges& b) {
    for (auto x = a.ranges().begin(), y = b.ranges().begin(); x != a.ranges().end() && y != b.ranges().end();) {
        if (x->second >= y->first && y->second >= x->first) return true;
        x->second < y->second ? ++x : ++y;
    }
    return false;
}

/// Finds the runs among all starts.
class RunFinder {
  public:
    explicit RunFinder(const std::vector<TrainerStart>& starts) : starts_(starts), group_of_(starts.size()) {
        make_groups();
        joined_.emplace(groups_.size());
        join_launches();
        join_resumed();
        join_in_turn();
        number_runs();
    }

    /// The run of each start, as an index into runs().
    [[nodiscard]] std::vector<std::size_t> run_of_start() {
        std::vector<std::size_t> runs;
        runs.reserve(group_of_.size());
        for (const std::size_t group : group_of_) runs.push_back(run_of_[joined_->find(group)]);
        return runs;
    }
    /// In the order of their last starts.
    [[nodiscard]] std::vector<InputRun> runs() && { return std::move(runs_); }

  private:
    void make_groups() {
        std::vector<std::size_t> order(starts_.size());
        std::iota(order.begin(), order.end(), std::size_t{});
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            const auto key = [](const TrainerStart& start) {
                return std::make_tuple(start.run_id, time_of(start), start.rank);
            };
            return key(starts_[a]) < key(starts_[b]);
        });
        std::vector<std::size_t> without_run_row;
        std::unordered_map<std::int64_t, std::int64_t> times_of_ranks;  // of the last group
        for (const std::size_t i : order) {
            const TrainerStart& start = starts_[i];
            if (!start.has_run_row()) {
                without_run_row.push_back(i);
                continue;
            }
            const auto known = times_of_ranks.find(start.rank);
            const bool again =
                known != times_of_ranks.end() && known->second != time_of(start);  // else a copy of the file
            if (groups_.empty() || groups_.back().run_id != start.run_id || (start.is_of_launcher && again)) {
                groups_.push_back({start.run_id, start.is_of_launcher});
                times_of_ranks.clear();
            }
            times_of_ranks[start.rank] = time_of(start);
            groups_.back().add(start);
            group_of_[i] = groups_.size() - 1;
        }
        place_without_run_rows(without_run_row);
    }

    // A file may have lost its first rows. What was written before any run row is older, or came from another program.
    void place_without_run_rows(const std::vector<std::size_t>& starts) {
        std::map<std::int64_t, std::size_t> groups_by_start;
        for (std::size_t i = 0; i < groups_.size(); ++i) groups_by_start[groups_[i].start_ns] = i;
        const std::size_t others = groups_.size();
        for (const std::size_t i : starts) {
            const TrainerStart& start = starts_[i];
            const auto later =
                start.start_unix_ns ? groups_by_start.upper_bound(*start.start_unix_ns) : groups_by_start.begin();
            const bool is_old = later == groups_by_start.begin();
            group_of_[i] = is_old ? others : std::prev(later)->second;
            if (!is_old) {
                groups_[group_of_[i]].ranks.insert(start.rank);
                continue;
            }
            if (groups_.size() == others) groups_.push_back({"", false, false});
            groups_[others].add(start);
        }
    }

    // Programs that set no id get one for each host, or for each rank. Those that start close together and share no
    // rank are one launch: the closest first, so that the last rank of a job does not join the first one of the next.
    void join_launches() {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < groups_.size(); ++i)
            if (groups_[i].start_ns != INT64_MIN && groups_[i].has_run_rows) order.push_back(i);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return groups_[a].start_ns < groups_[b].start_ns; });
        std::vector<std::pair<std::int64_t, std::size_t>> gaps;
        for (std::size_t i = 0; i + 1 < order.size(); ++i)
            gaps.emplace_back(groups_[order[i + 1]].start_ns - groups_[order[i]].start_ns, i);
        std::sort(gaps.begin(), gaps.end());
        std::unordered_map<std::size_t, NumberRanges> ranks;  // of launches
        for (const auto& [gap_ns, i] : gaps) {
            if (gap_ns > together_ns) break;
            const std::size_t a = joined_->find(order[i]);
            const std::size_t b = joined_->find(order[i + 1]);
            NumberRanges& ranks_a = ranks.try_emplace(a, groups_[a].ranks).first->second;
            NumberRanges& ranks_b = ranks.try_emplace(b, groups_[b].ranks).first->second;
            const std::int64_t world_size = groups_[a].world_size;
            const auto size = static_cast<std::int64_t>(ranks_a.size() + ranks_b.size());
            if (world_size != groups_[b].world_size || (world_size > 0 && size > world_size)) continue;
            if (share_ranks(ranks_a, ranks_b)) continue;
            NumberRanges both = std::move(ranks_a);
            both.merge(ranks_b);
            ranks[joined_->join(a, b)] = std::move(both);
        }
    }

    // A launcher that starts the trainer again goes on from a checkpoint; a shell starts another job.
    void join_resumed() {
        std::size_t first = 0;  // of the run
        for (std::size_t i = 1; i < groups_.size(); ++i) {
            const StartGroup& now = groups_[i];
            const StartGroup& before = groups_[first];
            const bool goes_on = !now.first_step || !before.first_step || *now.first_step > *before.first_step;
            if (now.is_of_launcher && now.run_id == before.run_id && goes_on)
                joined_->join(first, i);
            else
                first = i;
        }
    }

    void join_in_turn() {
        std::map<std::pair<std::size_t, std::int64_t>, std::size_t> groups;  // by file and rank
        for (std::size_t i = 0; i < starts_.size(); ++i) {
            if (!starts_[i].in_turn) continue;
            const auto [known, is_first] = groups.try_emplace({starts_[i].file, starts_[i].rank}, group_of_[i]);
            if (!is_first) joined_->join(known->second, group_of_[i]);
        }
    }

    // It has the name of its lowest rank.
    InputRun describe_run(const std::vector<std::size_t>& groups) const {
        InputRun run;
        NumberRanges ranks;
        std::int64_t lowest_rank = INT64_MAX;
        for (const std::size_t i : groups) {
            const StartGroup& group = groups_[i];
            ranks.merge(group.ranks);
            run.has_run_rows = group.has_run_rows;
            run.ids.emplace_back(group.has_run_rows ? group.run_id : "none");
            run.last_start_ns = std::max(run.last_start_ns, group.last_ns);
            if (group.has_run_rows && group.start_ns != INT64_MIN)
                run.start_unix_ns = std::min(run.start_unix_ns.value_or(group.start_ns), group.start_ns);
            if (group.first_step)
                run.first_step = std::min(run.first_step.value_or(*group.first_step), *group.first_step);
            if (group.ranks.ranges().begin()->first >= lowest_rank) continue;
            lowest_rank = group.ranks.ranges().begin()->first;
            run.name = run.ids.back();
        }
        run.ranks = ranks.size();
        return run;
    }

    void number_runs() {
        std::vector<std::vector<std::size_t>> groups_of(groups_.size());  // by the one that stands for the run
        for (std::size_t i = 0; i < groups_.size(); ++i) groups_of[joined_->find(i)].push_back(i);
        std::vector<std::pair<InputRun, std::size_t>> found;
        for (std::size_t root = 0; root < groups_.size(); ++root)
            if (!groups_of[root].empty()) found.emplace_back(describe_run(groups_of[root]), root);
        run_of_.resize(groups_.size());
        std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
            const auto key = [](const InputRun& run) {
                return std::tie(run.has_run_rows, run.last_start_ns, run.name);
            };
            return key(a.first) < key(b.first);
        });
        for (auto& [run, root] : found) {
            run_of_[root] = runs_.size();
            runs_.push_back(std::move(run));
        }
        name_runs();
    }

    void name_runs() {
        std::unordered_map<std::string, std::size_t> all;
        std::unordered_map<std::string, std::size_t> seen;
        for (const InputRun& run : runs_) ++all[run.name];
        for (InputRun& run : runs_)
            if (all.at(run.name) > 1) run.name += fmt::format("#{}", ++seen[run.name]);
    }

    const std::vector<TrainerStart>& starts_;
    std::vector<std::size_t> group_of_;  // by start
    std::vector<StartGroup> groups_;
    std::optional<DisjointSets> joined_;  // groups that are one run
    std::vector<std::size_t> run_of_;     // by the group that stands for it
    std::vector<InputRun> runs_;
};

std::string list_runs(const std::vector<InputRun>& runs) {
    constexpr std::size_t max_listed = 8;
    std::string text;
    for (std::size_t i = runs.size(); i > 0 && runs.size() - i < max_listed; --i)
        text += (text.empty() ? "" : ", ") + printable(runs[i - 1].name);
    return text + (runs.size() > max_listed ? ", …" : "");
}

}  // namespace

RunChoice RunChoice::parse(std::string_view text) {
    if (text == "latest") return {};
    if (text == "all") return {Mode::all, ""};
    if (text.empty()) throw UsageError("--run: '' is not latest, all or the name of a run");
    return {Mode::named, std::string(text)};
}

void RunSelection::add(RunTracker&& runs) {
    runs.for_each_start([&](std::int64_t, int index, const RunStart&, bool) {
        has_too_many_ |= index >= max_starts_of_rank || ++starts_ > max_starts;
    });
    trackers_.push_back(std::move(runs));
    if (has_too_many_) trackers_.clear();
    files_.emplace_back();
}

std::vector<TrainerStart> RunSelection::all_starts() const {
    std::vector<TrainerStart> all;
    all.reserve(starts_);
    for (std::size_t file = 0; file < trackers_.size(); ++file)
        trackers_[file].for_each_start([&](std::int64_t rank, int index, const RunStart& start, bool in_turn) {
            all.push_back({start, file, rank, index, in_turn});
        });
    return all;
}

void RunSelection::settle() {
    is_settled_ = true;
    if (has_too_many_) return say("too many starts of the trainer in the inputs: all are taken as one run\n");
    const std::vector<TrainerStart> starts = all_starts();
    RunFinder finder(starts);
    const std::vector<std::size_t> run_of_start = finder.run_of_start();
    runs_ = std::move(finder).runs();
    if (choice_.mode != RunChoice::Mode::all && !(runs_.size() <= 1 && choice_.mode == RunChoice::Mode::latest)) {
        const std::size_t chosen = choose();
        name_ = runs_[chosen].name;
        others_ = runs_.size() - 1;
        select_starts(starts, run_of_start, chosen);
    }
    trackers_.clear();
}

std::size_t RunSelection::choose() const {
    if (choice_.mode == RunChoice::Mode::latest) return runs_.size() - 1;
    for (std::size_t i = runs_.size(); i > 0; --i) {
        const std::vector<std::string>& ids = runs_[i - 1].ids;
        if (std::find(ids.begin(), ids.end(), choice_.name) != ids.end()) return i - 1;
    }
    for (std::size_t i = runs_.size(); i > 0; --i)
        if (runs_[i - 1].name == choice_.name) return i - 1;
    throw UsageError(fmt::format("--run: no run '{}' in the inputs; they have {}", choice_.name,
                                 runs_.empty() ? "none" : list_runs(runs_)));
}

void RunSelection::select_starts(const std::vector<TrainerStart>& starts, const std::vector<std::size_t>& run_of_start,
                                 std::size_t chosen) {
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const TrainerStart& start = starts[i];
        FileSelection& file = files_[start.file];
        const bool is_in = run_of_start[i] == chosen;
        (is_in ? file.has_some : file.lacks_some) = true;
        std::vector<bool>& of_rank = file.starts[start.rank];
        const auto slot = static_cast<std::size_t>(start.index + 1);
        if (slot >= of_rank.size()) of_rank.resize(slot + 1);
        of_rank[slot] = is_in;
    }
    for (FileSelection& file : files_)
        if (!file.lacks_some) file.starts = {};
}

bool FileSelection::has(std::int64_t rank, int index) const {
    if (!lacks_some) return true;
    const auto found = starts.find(rank);
    const auto slot = static_cast<std::size_t>(index + 1);
    return found != starts.end() && slot < found->second.size() && found->second[slot];
}

void RunSelection::describe(InputCounts& counts) const {
    counts.run = name_;
    counts.runs_left_out = others_;
    for (std::size_t i = runs_.size(); i > 0 && counts.other_runs.size() < InputCounts::max_other_runs; --i)
        if (runs_[i - 1].name != name_) counts.other_runs.push_back(runs_[i - 1]);
}

void RunSelection::check_reading_again(const InputSet& set) const {
    for (std::size_t i = 0; i < set.files.size(); ++i)
        if (!files_[i].has_none() && !can_be_read_twice(set.files[i]))
            throw UsageError(
                fmt::format("{} has rows of several runs and can be read only once: write it to a file, or "
                            "take all with --run all (the runs: {})",
                            set.files[i].is_standard_input() ? "standard input" : set.files[i].path, list_runs(runs_)));
}

}  // namespace cep::tool
