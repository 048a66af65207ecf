// SPDX-License-Identifier: Apache-2.0
#include "report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "model/clock_shifts.hpp"
#include "report/heat.hpp"
#include "stats/robust.hpp"

namespace cep::report {
namespace {

constexpr std::size_t most_ranks = 6;
constexpr std::size_t most_chosen_ranks = 16;
constexpr std::size_t most_steps = 2;
constexpr std::size_t most_chosen_steps = 8;
constexpr double much_longer = 1.3;

/// The index of the value that is at a quantile of those that are known; values.size() for none.
std::size_t index_of_quantile(const std::vector<double>& values, double q) {
    const std::vector<std::size_t> order = order_known(values);
    if (order.empty()) return values.size();
    return order[static_cast<std::size_t>(q * static_cast<double>(order.size() - 1) + 0.5)];
}

class TimelineFinder {
  public:
    TimelineFinder(const tool::Job& job, const tool::JobTable* table, const JobView& view)
        : job_(job), table_(table), view_(view) {}

    Timeline find(const TimelineChoice& choice) {
        if (view_.ranks.empty() || view_.steps.first.empty()) return none("There are no spans.");
        if (table_ != nullptr) own_ms_ = own_work_of(*table_);
        choose_steps(choice.steps);
        choose_ranks(choice.ranks);
        if (found_.steps.empty() || found_.ranks.empty()) return none("None of the chosen ranks and steps has rows.");
        find_clocks();
        for (std::size_t i = 0; i < found_.ranks.size(); ++i) take_rank(i);
        if (found_.spans.empty() && !(choice.ranks.empty() && choice.steps.empty()))
            return none("The chosen ranks have no rows with start times in the chosen steps.");
        if (found_.spans.empty())
            return none(
                "The rows have no start times, so that nothing can be placed on a timeline. (The layout “flat” "
                "leaves them out.)");
        find_origins();
        return std::move(found_);
    }

  private:
    static std::size_t lane_of(tool::Clock clock, const tool::Sample& sample) {
        if (clock == tool::Clock::host) return host_lane;
        return clock == tool::Clock::external ? other_clock : first_stream + sample.stream();
    }

    static Timeline none(std::string why) {
        Timeline timeline;
        timeline.empty = std::move(why);
        return timeline;
    }

    void choose_steps(const std::vector<std::int64_t>& asked) {
        if (!asked.empty()) {
            for (const std::int64_t step : asked)
                if (found_.steps.size() < most_chosen_steps) found_.steps.push_back({step});
            return;
        }
        if (table_ == nullptr || table_->steps.empty()) {
            found_.steps.push_back({view_.steps.first[view_.steps.size() / 2]});
            return;
        }
        const auto add = [&](std::size_t index) {
            if (index >= table_->steps.size() || found_.steps.size() == most_steps) return;
            const std::int64_t step = table_->steps[index];
            if (std::none_of(found_.steps.begin(), found_.steps.end(),
                             [step](const auto& one) { return one.step == step; }))
                found_.steps.push_back({step});
        };
        if (!view_.blamed.empty()) add(slow_step_of(view_.blamed.front()));
        const std::vector<double>& step_ms = table_->median_step_ms;
        const std::size_t longest = index_of_quantile(step_ms, 1);
        if (longest < step_ms.size() && step_ms[longest] > much_longer * tool::median_of(step_ms)) add(longest);
        if (found_.steps.empty()) add(index_of_quantile(step_ms, 0.5));
        if (found_.steps.empty()) found_.steps.push_back({table_->steps.front()});
    }

    /// In which a blamed rank works clearly, but not exceptionally long.
    [[nodiscard]] std::size_t slow_step_of(const Blamed& blamed) const {
        constexpr double q = 0.8;
        std::vector<double> own_ms(table_->steps.size(), NAN);
        for (std::size_t step = 0; step < own_ms.size(); ++step)
            if (table_->steps[step] >= blamed.first_step && table_->steps[step] <= blamed.last_step)
                own_ms[step] = own_ms_.at(blamed.rank, step);
        return index_of_quantile(own_ms, q);
    }

    void choose_ranks(const std::vector<std::int64_t>& asked) {
        if (!asked.empty()) {
            for (const std::int64_t rank : asked)
                if (const std::size_t index = view_.index_of(rank); index < view_.ranks.size())
                    add_rank(index, "chosen", most_chosen_ranks);
            return;
        }
        std::vector<std::size_t> blamed = view_.blamed_ranks();
        const std::set<std::int64_t> stages(view_.stage.begin(), view_.stage.end());
        blamed.resize(std::min<std::size_t>(blamed.size(), stages.size() > 1 ? 1 : 2));
        for (const std::size_t rank : blamed) add_rank(rank, "slow", most_ranks);
        if (!blamed.empty()) add_waiting();
        if (stages.size() > 1) {
            add_stages();
        } else {
            const std::vector<double>& slowness = view_.slowness_ms;
            add_rank(index_of_quantile(slowness, 0.5), "median own work", most_ranks);
            add_rank(index_of_quantile(slowness, 0), "least own work", most_ranks);
            if (blamed.empty()) add_rank(index_of_quantile(slowness, 1), "most own work", most_ranks);
        }
        if (found_.ranks.empty()) add_rank(0, "first", most_ranks);
        if (found_.ranks.size() == 1) add_rank(view_.ranks.size() - 1, "last", most_ranks);
    }

    /// Those that wait longest and for a median time in the first step that is shown.
    void add_waiting() {
        if (table_ == nullptr || !table_->has_comm) return;
        const auto step = std::find(table_->steps.begin(), table_->steps.end(), found_.steps.front().step);
        if (step == table_->steps.end()) return;
        std::vector<double> wait_ms;
        for (std::size_t rank = 0; rank < view_.ranks.size(); ++rank) {
            const double ms = table_->wait_ms.at(rank, static_cast<std::size_t>(step - table_->steps.begin()));
            wait_ms.push_back(shown_.contains(rank) ? NAN : ms);
        }
        add_rank(index_of_quantile(wait_ms, 1), "waits longest", most_ranks);
        add_rank(index_of_quantile(wait_ms, 0.5), "waits, median", most_ranks);
    }

    /// The first rank of each pipeline stage that has none yet.
    void add_stages() {
        std::set<std::int64_t> known = {-1};
        for (const TimelineRank& one : found_.ranks) known.insert(view_.stage[one.rank]);
        for (std::size_t rank = 0; rank < view_.ranks.size(); ++rank)
            if (known.insert(view_.stage[rank]).second)
                add_rank(rank, fmt::format("stage {}", view_.stage[rank]), most_ranks);
    }

    void add_rank(std::size_t rank, std::string why, std::size_t most) {
        if (rank >= view_.ranks.size() || found_.ranks.size() == most || !shown_.insert(rank).second) return;
        found_.ranks.push_back({rank, view_.ranks.size() == 1 ? "" : std::move(why)});
    }

    void find_clocks() {
        std::vector<std::int64_t> steps;
        for (const TimelineStep& step : found_.steps) steps.push_back(step.step);
        clocks_ = tool::ClockShifts(job_, steps);
        found_.clocks_apart_ms = clocks_.most_ms();
        found_.clock_error_ms = clocks_.error_ms();
    }

    void take_rank(std::size_t shown_rank) {
        const auto all_series = job_.ranks.find(view_.ranks[found_.ranks[shown_rank].rank]);
        if (all_series == job_.ranks.end()) return;
        std::vector<TimelineSpan> of_rank;
        for (const tool::RunSeries& series : all_series->second)
            for (const tool::PhaseSeries& phase : series.phases) take_phase(shown_rank, series, phase, of_rank);
        for (std::size_t step = 0; step < found_.steps.size(); ++step) keep_longest(of_rank, step);
        found_.spans.insert(found_.spans.end(), of_rank.begin(), of_rank.end());
    }

    void take_phase(std::size_t shown_rank, const tool::RunSeries& series, const tool::PhaseSeries& phase,
                    std::vector<TimelineSpan>& into) {
        const std::size_t index = view_.phase_of(phase.name);
        if (index == view_.phases.size()) return;
        for (const tool::Sample& sample : phase.samples) {
            if (!sample.has_start()) continue;
            for (std::size_t step = 0; step < found_.steps.size(); ++step) {
                if (series.steps[sample.step_index] != found_.steps[step].step) continue;
                const std::int64_t rank = view_.ranks[found_.ranks[shown_rank].rank];
                const std::int64_t ahead_ns = clocks_.ahead_ns(rank, found_.steps[step].step);
                into.push_back({shown_rank, lane_of(phase.clock, sample), step, index, sample.start_ns - ahead_ns, 0,
                                sample.duration_ms, static_cast<double>(ahead_ns) * 1e-6, sample.depth(),
                                sample.collective});
            }
        }
    }

    void keep_longest(std::vector<TimelineSpan>& spans, std::size_t step) {
        std::vector<double> durations_ms;
        for (const TimelineSpan& one : spans)
            if (one.step == step) durations_ms.push_back(one.duration_ms);
        if (durations_ms.size() <= Timeline::max_spans_a_step) return;
        const auto limit = durations_ms.begin() + static_cast<std::ptrdiff_t>(Timeline::max_spans_a_step);
        std::nth_element(durations_ms.begin(), limit, durations_ms.end(), std::greater<>());
        const double shortest_ms = *limit;
        found_.left_out += std::erase_if(
            spans, [&](const TimelineSpan& one) { return one.step == step && one.duration_ms <= shortest_ms; });
    }

    /// Each step begins with its first span; where clocks are far apart, for each rank with its own.
    void find_origins() {
        std::map<std::pair<std::size_t, std::size_t>, std::int64_t> first_ns;  // by step and rank
        double longest_ms = 0;
        for (const TimelineSpan& span : found_.spans) {
            std::int64_t& first = first_ns.try_emplace({span.step, span.rank}, span.start_ns).first->second;
            first = std::min(first, span.start_ns);
            longest_ms = std::max(longest_ms, span.duration_ms);
        }
        std::vector<std::int64_t> least(found_.steps.size(), std::numeric_limits<std::int64_t>::max());
        for (const auto& [key, ns] : first_ns) least[key.first] = std::min(least[key.first], ns);
        for (const auto& [key, ns] : first_ns)
            found_.each_from_zero |=
                (static_cast<double>(ns) - static_cast<double>(least[key.first])) * 1e-6 > 2 * longest_ms;
        for (TimelineSpan& span : found_.spans) {
            const std::int64_t origin = found_.each_from_zero ? first_ns.at({span.step, span.rank}) : least[span.step];
            // No start is before the origin, but the difference may be more than a signed number holds.
            const std::uint64_t after_ns =
                static_cast<std::uint64_t>(span.start_ns) - static_cast<std::uint64_t>(origin);
            span.start_ms = static_cast<double>(after_ns) * 1e-6;
            TimelineStep& step = found_.steps[span.step];
            step.length_ms = std::max(step.length_ms, span.start_ms + span.duration_ms);
        }
    }

    const tool::Job& job_;
    const tool::JobTable* table_;
    const JobView& view_;
    StepMatrix own_ms_;
    tool::ClockShifts clocks_;
    std::set<std::size_t> shown_;  // ranks
    Timeline found_;
};

}  // namespace

Timeline find_timeline(const tool::Job& job, const tool::JobTable* table, const JobView& view,
                       const TimelineChoice& choice) {
    return TimelineFinder(job, table, view).find(choice);
}

}  // namespace cep::report
