// SPDX-License-Identifier: Apache-2.0
#include "comm/slow_transfers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/units.hpp"
#include "stats/block_bootstrap.hpp"
#include "stats/quantiles.hpp"
#include "stats/robust.hpp"
#include "stats/step_pattern.hpp"

namespace cep::comm {
namespace {

constexpr double nearly_all = 0.8;
constexpr double hardly_any = 0.1;

/// A transfer's step, and whether it is slow.
struct SlowMark {
    std::int64_t step = 0;
    bool is_slow = false;
};

/// For each step, the share of its transfers that is slow.
struct StepShares {
    std::vector<std::int64_t> steps;  // ascending
    std::vector<double> shares;
};

StepShares shares_of_steps(const std::vector<SlowMark>& marks) {
    StepShares found;
    for (std::size_t first = 0, next = 0; first < marks.size(); first = next) {
        double slow = 0;
        for (; next < marks.size() && marks[next].step == marks[first].step; ++next) slow += marks[next].is_slow;
        found.steps.push_back(marks[first].step);
        found.shares.push_back(slow / static_cast<double>(next - first));
    }
    return found;
}

/// A range of some steps, in which nearly all is slow and outside of which hardly anything is.
std::optional<tool::Segment> find_window(const StepShares& of, double share) {
    constexpr std::size_t least_steps = 4;
    std::vector<double> scores;
    for (const double one : of.shares) scores.push_back(one - (share + 1) / 2);
    const tool::Segment window = tool::best_segment(scores);
    double inside = 0;
    double all = 0;
    for (std::size_t i = 0; i < of.shares.size(); ++i) {
        all += of.shares[i];
        if (window.contains(i)) inside += of.shares[i];
    }
    const auto length = static_cast<double>(window.length());
    const auto others = static_cast<double>(of.shares.size()) - length;
    if (window.length() < least_steps || others < 1) return std::nullopt;
    const bool is_one = inside >= nearly_all * length && all - inside <= hardly_any * others;
    return is_one ? std::optional(window) : std::nullopt;
}

}  // namespace

std::string SlowTransfers::when() const {
    switch (pattern) {
        case SlowPattern::never:
            return "";
        case SlowPattern::window:
            return lasts ? "from step " + tool::format_integer(first_step) + " on"
                         : "in steps " + tool::format_from_to(first_step, last_step);
        case SlowPattern::periodic:
            return fmt::format("every {} steps", every);
        default:
            return "now and then";
    }
}

SlowTransfers find_slow_transfers(const Transfers& transfers,
                                  const std::unordered_map<std::int64_t, double>& usual_ms) {
    SlowTransfers found;
    std::vector<SlowMark> marks;
    for (const Transfer& one : transfers) marks.push_back({one.step, one.ms > slow_ratio * usual_ms.at(one.bytes)});
    std::stable_sort(marks.begin(), marks.end(), [](const SlowMark& a, const SlowMark& b) { return a.step < b.step; });
    const auto is_slow = [](const SlowMark& mark) { return mark.is_slow; };
    const auto count = std::count_if(marks.begin(), marks.end(), is_slow);
    if (count == 0) return found;
    found.share = static_cast<double>(count) / static_cast<double>(marks.size());
    found.pattern = SlowPattern::now_and_then;
    found.first_step = std::find_if(marks.begin(), marks.end(), is_slow)->step;
    found.last_step = std::find_if(marks.rbegin(), marks.rend(), is_slow)->step;
    const StepShares of = shares_of_steps(marks);
    if (const auto window = find_window(of, found.share)) {
        found.pattern = SlowPattern::window;
        found.first_step = of.steps[window->first];
        found.last_step = of.steps[window->last];
        found.lasts = window->last + 1 == of.steps.size();
    } else if (of.steps.front() >= 0) {
        if (const auto period = tool::find_period(of.steps, of.shares, nearly_all); period && period->usual == 0) {
            found.pattern = SlowPattern::periodic;
            found.every = period->length;
        }
    }
    return found;
}

namespace {

constexpr double least_gap = 0.1;       // relative
constexpr double false_alarms = 0.001;  // chance that groups that are alike are told apart
constexpr std::size_t most_classes = 4;
constexpr std::size_t least_transfers = 4;  // of a group, to tell it apart

/// How long the transfers of one group take, as the logarithm of times what they take elsewhere.
struct Level {
    std::uint32_t group = 0;
    double median = 0;
    double variance = 0;
    double freedom = 1;
};

using TimesOfSize = std::map<std::int64_t, std::vector<double>>;

/// By size.
std::map<std::int64_t, double> typical_times(const Transfers& transfers, std::size_t groups) {
    std::vector<TimesOfSize> of_groups(groups);
    for (const Transfer& one : transfers) of_groups[one.group][one.bytes].push_back(one.ms);
    TimesOfSize medians;
    for (const TimesOfSize& of_group : of_groups)
        for (const auto& [bytes, times] : of_group) medians[bytes].push_back(tool::quantile_of(times, 0.5));
    std::map<std::int64_t, double> typical;
    for (auto& [bytes, times] : medians) {
        std::sort(times.begin(), times.end());
        typical[bytes] = times[(times.size() - 1) / 2];
    }
    return typical;
}

/// The levels of the groups that have enough transfers, ascending.
std::vector<Level> find_levels(const Transfers& transfers, std::size_t groups) {
    const std::map<std::int64_t, double> typical = typical_times(transfers, groups);
    std::vector<std::vector<double>> logs(groups);
    for (const Transfer& one : transfers)
        if (one.ms > 0 && typical.at(one.bytes) > 0)
            logs[one.group].push_back(std::log(one.ms / typical.at(one.bytes)));
    std::vector<Level> levels;
    for (std::uint32_t group = 0; group < groups; ++group) {
        if (logs[group].size() < least_transfers) continue;
        const tool::MeanVariance of_mean = tool::variance_of_mean(logs[group]);
        levels.push_back({group, tool::median_of(logs[group]), of_mean.variance, of_mean.freedom});
    }
    std::sort(levels.begin(), levels.end(), [](const Level& a, const Level& b) { return a.median < b.median; });
    return levels;
}

/// By how much a gap between neighbours exceeds what is chance; 0: not at all.
double excess_of_gap(const Level& below, const Level& above, std::size_t groups) {
    const double chance = false_alarms / static_cast<double>(groups) / 2;
    const double error = std::sqrt(below.variance + above.variance);
    const double limit = error * tool::student_quantile(chance, std::min(below.freedom, above.freedom));
    const double gap = above.median - below.median;
    return gap > std::max(limit, std::log1p(least_gap)) ? gap : 0;
}

/// Where classes begin in `levels`, but for the first one.
std::vector<std::size_t> find_cuts(const std::vector<Level>& levels) {
    std::vector<std::pair<double, std::size_t>> gaps;
    for (std::size_t i = 1; i < levels.size(); ++i)
        if (const double gap = excess_of_gap(levels[i - 1], levels[i], levels.size()); gap > 0)
            gaps.emplace_back(gap, i);
    std::sort(gaps.rbegin(), gaps.rend());
    gaps.resize(std::min(gaps.size(), most_classes - 1));
    std::vector<std::size_t> cuts;
    for (const auto& [gap, at] : gaps) cuts.push_back(at);
    std::sort(cuts.begin(), cuts.end());
    return cuts;
}

}  // namespace

std::vector<GroupClass> find_group_classes(const Transfers& transfers, std::size_t groups) {
    const std::vector<Level> levels = find_levels(transfers, groups);
    std::vector<std::size_t> ends = find_cuts(levels);
    ends.push_back(levels.size());
    std::vector<GroupClass> classes;
    std::vector<double> medians;
    std::vector<bool> has_class(groups);
    for (std::size_t first = 0; const std::size_t end : ends) {
        classes.emplace_back();
        std::vector<double> of_class;
        for (; first < end; ++first) {
            classes.back().groups.push_back(levels[first].group);
            of_class.push_back(levels[first].median);
            has_class[levels[first].group] = true;
        }
        medians.push_back(of_class.empty() ? 0 : tool::median_of(of_class));
    }
    const auto usual =
        std::max_element(classes.begin(), classes.end(),
                         [](const GroupClass& a, const GroupClass& b) { return a.groups.size() < b.groups.size(); }) -
        classes.begin();
    for (std::uint32_t group = 0; group < groups; ++group)
        if (!has_class[group]) classes[static_cast<std::size_t>(usual)].groups.push_back(group);
    for (std::size_t i = 0; i < classes.size(); ++i) {
        std::sort(classes[i].groups.begin(), classes[i].groups.end());
        classes[i].times_usual = std::exp(medians[i] - medians[static_cast<std::size_t>(usual)]);
    }
    return classes;
}

}  // namespace cep::comm
