// SPDX-License-Identifier: Apache-2.0
#include "comm/slow_transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/units.hpp"
#include "stats/period.hpp"
#include "stats/robust.hpp"

namespace cep::comm {
namespace {

constexpr double nearly_all = 0.8;
constexpr double hardly_any = 0.1;

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

SlowTransfers describe_slow(std::vector<SlowMark> marks) {
    SlowTransfers found;
    std::stable_sort(marks.begin(), marks.end(), [](const SlowMark& a, const SlowMark& b) { return a.step < b.step; });
    const auto count = std::count_if(marks.begin(), marks.end(), [](const SlowMark& mark) { return mark.is_slow; });
    if (count == 0) return found;
    const auto is_slow = [](const SlowMark& mark) { return mark.is_slow; };
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

}  // namespace cep::comm
