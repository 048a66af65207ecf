// SPDX-License-Identifier: Apache-2.0
#include "report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
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
std::size_t place_of_quantile(const std::vector<double>& values, double q) {
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
        if (raw_.empty() && !(choice.ranks.empty() && choice.steps.empty()))
            return none("The chosen ranks have no rows with start times in the chosen steps.");
        if (raw_.empty())
            return none(
                "The rows have no start times, so that nothing can be placed on a timeline. (The layout “flat” "
                "leaves them out.)");
        find_origins();
        return std::move(found_);
    }

  private:
    // What spans run on, in the order of their lanes: the host, then streams, then what another clock timed.
    static constexpr std::size_t host = 0;
    static constexpr std::size_t first_stream = 1;
    static constexpr std::size_t other_clock = std::numeric_limits<std::size_t>::max();

    static std::size_t stream_of(tool::Clock clock, const tool::Sample& sample) {
        if (clock == tool::Clock::host) return host;
        return clock == tool::Clock::external ? other_clock : first_stream + sample.stream();
    }

    struct Raw {
        TimelineSpan span;  // its lane is found when all spans of the rank are known
        std::size_t stream = 0;
        std::size_t rank = 0;  // index into found_.ranks
        std::int64_t start_ns = 0;
    };

    static Timeline none(std::string why) {
        Timeline timeline;
        timeline.empty = std::move(why);
        return timeline;
    }

    void choose_steps(const std::vector<std::int64_t>& asked) {
        if (!asked.empty()) {
            for (const std::int64_t step : asked)
                if (found_.steps.size() < most_chosen_steps) found_.steps.push_back({step, 0, 0});
            return;
        }
        if (table_ == nullptr || table_->steps.empty()) {
            found_.steps.push_back({view_.steps.first[view_.steps.size() / 2], 0, 0});
            return;
        }
        const auto add = [&](std::size_t place) {
            if (place >= table_->steps.size() || found_.steps.size() == most_steps) return;
            const std::int64_t step = table_->steps[place];
            if (std::none_of(found_.steps.begin(), found_.steps.end(),
                             [step](const auto& one) { return one.step == step; }))
                found_.steps.push_back({step, 0, 0});
        };
        if (!view_.blamed.empty()) add(slow_step_of(view_.blamed.front()));
        const std::vector<double>& step_ms = table_->median_step_ms;
        const std::size_t longest = place_of_quantile(step_ms, 1);
        if (longest < step_ms.size() && step_ms[longest] > much_longer * tool::median_of(step_ms)) add(longest);
        if (found_.steps.empty()) add(place_of_quantile(step_ms, 0.5));
        if (found_.steps.empty()) found_.steps.push_back({table_->steps.front(), 0, 0});
    }

    /// In which a blamed rank works clearly, but not exceptionally long.
    [[nodiscard]] std::size_t slow_step_of(const Blamed& blamed) const {
        constexpr double q = 0.8;
        std::vector<double> own_ms(table_->steps.size(), NAN);
        for (std::size_t step = 0; step < own_ms.size(); ++step)
            if (table_->steps[step] >= blamed.first_step && table_->steps[step] <= blamed.last_step)
                own_ms[step] = own_ms_.at(blamed.rank, step);
        return place_of_quantile(own_ms, q);
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
            add_rank(place_of_quantile(slowness, 0.5), "median own work", most_ranks);
            add_rank(place_of_quantile(slowness, 0), "least own work", most_ranks);
            if (blamed.empty()) add_rank(place_of_quantile(slowness, 1), "most own work", most_ranks);
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
        add_rank(place_of_quantile(wait_ms, 1), "waits longest", most_ranks);
        add_rank(place_of_quantile(wait_ms, 0.5), "waits, median", most_ranks);
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
        found_.ranks.push_back({rank, std::move(why)});
    }

    void find_clocks() {
        std::vector<std::int64_t> steps;
        for (const TimelineStep& step : found_.steps) steps.push_back(step.step);
        clocks_ = tool::ClockShifts(job_, steps);
        found_.clocks_apart_ms = clocks_.most_ms();
        found_.clock_error_ms = clocks_.error_ms();
    }

    void take_rank(std::size_t place) {
        const auto all_series = job_.ranks.find(view_.ranks[found_.ranks[place].rank]);
        if (all_series == job_.ranks.end()) return;
        std::vector<Raw> of_rank;
        std::map<std::size_t, std::size_t> lanes;  // by Raw::stream
        for (const tool::RunSeries& series : all_series->second)
            for (const tool::PhaseSeries& phase : series.phases) take_phase(place, series, phase, of_rank);
        for (const Raw& raw : of_rank) lanes.try_emplace(raw.stream, 0);
        for (auto& [stream, lane] : lanes) {
            lane = found_.lanes.size();
            found_.lanes.push_back({place, stream == host          ? "host"
                                           : stream == other_clock ? "other clock"
                                                                   : fmt::format("stream {}", stream - first_stream)});
        }
        for (std::size_t step = 0; step < found_.steps.size(); ++step) keep_longest(of_rank, step);
        for (Raw& raw : of_rank) {
            raw.span.lane = lanes.at(raw.stream);
            raw_.push_back(raw);
        }
    }

    void take_phase(std::size_t place, const tool::RunSeries& series, const tool::PhaseSeries& phase,
                    std::vector<Raw>& into) {
        const std::size_t index = view_.phase_of(phase.name);
        if (index == view_.phases.size()) return;
        for (const tool::Sample& sample : phase.samples) {
            if (!sample.has_start()) continue;
            for (std::size_t step = 0; step < found_.steps.size(); ++step) {
                if (series.steps[sample.step_index] != found_.steps[step].step) continue;
                const std::int64_t rank = view_.ranks[found_.ranks[place].rank];
                const std::int64_t ahead_ns = clocks_.ahead_ns(rank, found_.steps[step].step);
                into.push_back({{0, step, index, 0, sample.duration_ms, static_cast<double>(ahead_ns) * 1e-6,
                                 sample.depth(), sample.collective},
                                stream_of(phase.clock, sample),
                                place,
                                sample.start_ns - ahead_ns});
            }
        }
    }

    void keep_longest(std::vector<Raw>& raw, std::size_t step) {
        std::vector<double> durations_ms;
        for (const Raw& one : raw)
            if (one.span.step == step) durations_ms.push_back(one.span.duration_ms);
        if (durations_ms.size() <= Timeline::max_spans_a_step) return;
        const auto limit = durations_ms.begin() + static_cast<std::ptrdiff_t>(Timeline::max_spans_a_step);
        std::nth_element(durations_ms.begin(), limit, durations_ms.end(), std::greater<>());
        const double shortest_ms = *limit;
        found_.left_out += std::erase_if(
            raw, [&](const Raw& one) { return one.span.step == step && one.span.duration_ms <= shortest_ms; });
    }

    void find_origins() {
        constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();
        const std::size_t ranks = found_.ranks.size();
        std::vector<std::int64_t> first_ns(found_.steps.size() * ranks, unknown);
        double longest_ms = 0;
        for (const Raw& raw : raw_) {
            std::int64_t& first = first_ns[raw.span.step * ranks + raw.rank];
            first = std::min(first, raw.start_ns);
            longest_ms = std::max(longest_ms, raw.span.duration_ms);
        }
        for (std::size_t step = 0; step < found_.steps.size(); ++step) {
            std::int64_t least = unknown;
            std::int64_t most = std::numeric_limits<std::int64_t>::min();
            for (std::size_t rank = 0; rank < ranks; ++rank)
                if (const std::int64_t first = first_ns[step * ranks + rank]; first != unknown) {
                    least = std::min(least, first);
                    most = std::max(most, first);
                }
            if (least == unknown) continue;
            found_.steps[step].start_ns = least;
            found_.each_from_zero |= (static_cast<double>(most) - static_cast<double>(least)) * 1e-6 > 2 * longest_ms;
        }
        for (const Raw& raw : raw_) {
            const std::int64_t origin = found_.each_from_zero ? first_ns[raw.span.step * ranks + raw.rank]
                                                              : found_.steps[raw.span.step].start_ns;
            TimelineSpan span = raw.span;
            // No start is before the origin, but the difference may be more than a signed number holds.
            const std::uint64_t after_ns =
                static_cast<std::uint64_t>(raw.start_ns) - static_cast<std::uint64_t>(origin);
            span.start_ms = static_cast<double>(after_ns) * 1e-6;
            TimelineStep& step = found_.steps[span.step];
            step.length_ms = std::max(step.length_ms, span.start_ms + span.duration_ms);
            found_.spans.push_back(span);
        }
    }

    const tool::Job& job_;
    const tool::JobTable* table_;
    const JobView& view_;
    StepMatrix own_ms_;
    tool::ClockShifts clocks_;
    std::set<std::size_t> shown_;  // ranks
    std::vector<Raw> raw_;
    Timeline found_;
};

}  // namespace

Timeline find_timeline(const tool::Job& job, const tool::JobTable* table, const JobView& view,
                       const TimelineChoice& choice) {
    return TimelineFinder(job, table, view).find(choice);
}

}  // namespace cep::report
