// SPDX-License-Identifier: Apache-2.0
//
// Timeline: all spans of a few ranks in a few steps.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/units.hpp"
#include "model/clock_shifts.hpp"
#include "report/sections.hpp"
#include "stats/robust.hpp"

namespace cep::report {
namespace {

using tool::format_duration_ms;

/// What a span runs on: the host, then streams from first_stream on, then what another clock timed.
constexpr std::size_t host_lane = 0;
constexpr std::size_t first_stream = 1;
constexpr std::size_t other_clock = std::numeric_limits<std::size_t>::max();

struct TimelineSpan {
    std::size_t rank = 0;  // index into Timeline::ranks
    std::size_t lane = 0;
    std::size_t phase = 0;  // index into JobView::phases
    std::int64_t start_ns = 0;
    double start_ms = 0;  // from the start of the step
    double duration_ms = 0;
    double ahead_ms = 0;  // of its host's clock, which was set right by so much
    unsigned depth = 0;
    std::size_t join = 0;  // the number of its collective; 0: none
};

struct TimelineStep {
    std::int64_t step = 0;
    std::vector<TimelineSpan> spans{};  // rank by rank, without those of whole steps
    double length_ms = 0;               // to the last end, of these too
};

struct TimelineRank {
    std::size_t rank = 0;  // index
    std::string why;       // "slow", "median", …
};

struct Timeline {
    std::string empty;  // why there is none; else ""
    std::vector<TimelineStep> steps{};
    std::vector<TimelineRank> ranks{};
    std::size_t left_out = 0;     // spans, the shortest of steps that have very many
    bool each_from_zero = false;  // clocks of hosts differ by more than a step: each rank begins at 0
    tool::ClockShifts clocks{};   // by which they were set right
};

constexpr std::size_t most_ranks = 6;
constexpr std::size_t most_chosen_ranks = 16;
constexpr std::size_t most_steps = 2;
constexpr std::size_t most_chosen_steps = 8;
constexpr double much_longer = 1.3;
constexpr std::size_t max_spans = 400;  // of one rank in a step

/// The index of the value that is at a quantile of those that are known; values.size() for none.
std::size_t index_of_quantile(const std::vector<double>& values, double q) {
    const std::vector<std::size_t> order = order_known(values);
    if (order.empty()) return values.size();
    return order[static_cast<std::size_t>(q * static_cast<double>(order.size() - 1) + 0.5)];
}

/// The difference may be more than a signed number holds.
double ms_between(std::int64_t begin_ns, std::int64_t end_ns) {
    return static_cast<double>(static_cast<std::uint64_t>(end_ns) - static_cast<std::uint64_t>(begin_ns)) * 1e-6;
}

class TimelineFinder {
  public:
    TimelineFinder(const tool::Job& job, const tool::JobTable* table, const JobView& view)
        : job_(job), table_(table), view_(view) {}

    Timeline find(const TimelineChoice& choice) {
        if (view_.ranks.empty() || view_.steps.first.empty()) return {"There are no spans."};
        choose_steps(choice.steps);
        choose_ranks(choice.ranks);
        if (found_.steps.empty() || found_.ranks.empty()) return {"None of the chosen ranks and steps has rows."};
        found_.clocks = tool::ClockShifts(job_, std::vector(shown_steps_.begin(), shown_steps_.end()));
        for (TimelineStep& step : found_.steps)
            for (std::size_t i = 0; i < found_.ranks.size(); ++i) take_spans(i, step);
        if (!find_origins())
            return {choice.ranks.empty() && choice.steps.empty()
                        ? "The rows have no start times, so that nothing can be placed on a timeline. (The layout "
                          "“flat” leaves them out.)"
                        : "The chosen ranks have no rows with start times in the chosen steps."};
        return std::move(found_);
    }

  private:
    void add_step(std::int64_t step, std::size_t most) {
        if (found_.steps.size() < most && shown_steps_.insert(step).second) found_.steps.push_back({step});
    }

    void choose_steps(const std::vector<std::int64_t>& asked) {
        for (const std::int64_t step : asked) add_step(step, most_chosen_steps);
        if (!asked.empty()) return;
        if (table_ == nullptr || table_->steps.empty())
            return add_step(view_.steps.first[view_.steps.size() / 2], most_steps);
        const auto add = [&](std::size_t index) {
            if (index < table_->steps.size()) add_step(table_->steps[index], most_steps);
        };
        if (!view_.blamed.empty()) add(slow_step());
        const std::vector<double>& step_ms = table_->median_step_ms;
        const std::size_t longest = index_of_quantile(step_ms, 1);
        if (longest < step_ms.size() && step_ms[longest] > much_longer * tool::median_of(step_ms)) add(longest);
        if (found_.steps.empty()) add(index_of_quantile(step_ms, 0.5));
        if (found_.steps.empty()) add(0);
    }

    /// In which the first blamed rank works clearly, but not exceptionally long.
    [[nodiscard]] std::size_t slow_step() const {
        constexpr double q = 0.8;
        const StepMatrix of_ranks_ms = own_work_of(*table_);
        std::vector<double> own_ms(table_->steps.size(), NAN);
        for (std::size_t step = 0; step < own_ms.size(); ++step)
            if (table_->steps[step] >= view_.first_blame.first_step &&
                table_->steps[step] <= view_.first_blame.last_step)
                own_ms[step] = of_ranks_ms.at(view_.blamed.front(), step);
        return index_of_quantile(own_ms, q);
    }

    void choose_ranks(const std::vector<std::int64_t>& asked) {
        for (const std::int64_t rank : asked) add_rank(view_.index_of(rank), "chosen", most_chosen_ranks);
        if (!asked.empty()) return;
        std::vector<std::size_t> blamed = view_.blamed;
        std::set<std::optional<std::int64_t>> stages;
        for (const tool::RankRole& rank : view_.who) stages.insert(rank.pp);
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
        std::set<std::optional<std::int64_t>> known = {std::nullopt};
        for (const TimelineRank& one : found_.ranks) known.insert(view_.who[one.rank].pp);
        for (std::size_t rank = 0; rank < view_.ranks.size(); ++rank)
            if (const auto& stage = view_.who[rank].pp; known.insert(stage).second)
                add_rank(rank, fmt::format("stage {}", *stage), most_ranks);
    }

    void add_rank(std::size_t rank, std::string why, std::size_t most) {
        if (rank >= view_.ranks.size() || found_.ranks.size() == most || !shown_.insert(rank).second) return;
        found_.ranks.push_back({rank, view_.ranks.size() == 1 ? "" : std::move(why)});
    }

    void take_spans(std::size_t shown_rank, TimelineStep& step) {
        const std::int64_t rank = view_.ranks[found_.ranks[shown_rank].rank];
        const std::int64_t ahead_ns = found_.clocks.ahead_ns(rank, step.step);
        std::vector<TimelineSpan> spans;
        for (const tool::RunSeries& series : job_.ranks.at(rank))
            for (const tool::PhaseSeries& phase : series.phases) {
                const std::size_t index = view_.phase_of(phase.name);
                if (index == view_.phases.size()) continue;
                for (const tool::Sample& sample : phase.samples) {
                    if (!sample.has_start() || series.steps[sample.step_index] != step.step) continue;
                    const std::size_t lane = phase.clock == tool::Clock::host       ? host_lane
                                             : phase.clock == tool::Clock::external ? other_clock
                                                                                    : first_stream + sample.stream();
                    spans.push_back({shown_rank, lane, index, sample.start_ns - ahead_ns, 0, sample.duration_ms,
                                     static_cast<double>(ahead_ns) * 1e-6, sample.depth(), sample.collective});
                }
            }
        keep_longest(spans);
        step.spans.insert(step.spans.end(), spans.begin(), spans.end());
    }

    void keep_longest(std::vector<TimelineSpan>& spans) {
        if (spans.size() <= max_spans) return;
        std::vector<double> durations_ms;
        for (const TimelineSpan& one : spans) durations_ms.push_back(one.duration_ms);
        const auto limit = durations_ms.begin() + static_cast<std::ptrdiff_t>(max_spans);
        std::nth_element(durations_ms.begin(), limit, durations_ms.end(), std::greater<>());
        found_.left_out += std::erase_if(spans, [&](const TimelineSpan& one) { return one.duration_ms <= *limit; });
    }

    /// Each step begins with its first span; where clocks are far apart, for each rank with its own. Returns whether
    /// there are spans.
    bool find_origins() {
        std::map<std::pair<std::size_t, std::size_t>, std::int64_t> rank_ns;  // by step and rank
        std::vector<std::int64_t> step_ns(found_.steps.size(), std::numeric_limits<std::int64_t>::max());
        double longest_ms = 0;
        for (std::size_t i = 0; i < found_.steps.size(); ++i)
            for (const TimelineSpan& span : found_.steps[i].spans) {
                std::int64_t& first_ns = rank_ns.try_emplace({i, span.rank}, span.start_ns).first->second;
                first_ns = std::min(first_ns, span.start_ns);
                step_ns[i] = std::min(step_ns[i], span.start_ns);
                longest_ms = std::max(longest_ms, span.duration_ms);
            }
        for (const auto& [key, ns] : rank_ns)
            found_.each_from_zero |= ms_between(step_ns[key.first], ns) > 2 * longest_ms;
        for (std::size_t i = 0; i < found_.steps.size(); ++i) {
            TimelineStep& step = found_.steps[i];
            for (TimelineSpan& span : step.spans) {
                span.start_ms =
                    ms_between(found_.each_from_zero ? rank_ns.at({i, span.rank}) : step_ns[i], span.start_ns);
                step.length_ms = std::max(step.length_ms, span.start_ms + span.duration_ms);
            }
            std::erase_if(step.spans, [this](const TimelineSpan& span) {
                return view_.phases[span.phase].kind == schema::Kind::step;
            });
        }
        return !rank_ns.empty();
    }

    const tool::Job& job_;
    const tool::JobTable* table_;
    const JobView& view_;
    std::set<std::int64_t> shown_steps_;
    std::set<std::size_t> shown_;  // ranks
    Timeline found_;
};

constexpr double first_row = 52;
constexpr double lane_height = 17;
constexpr double names_end = 212;  // where the spans begin
constexpr double ranks_end = names_end - 78;

std::string name_of_lane(std::size_t lane) {
    if (lane == host_lane) return "host";
    return lane == other_clock ? "other clock" : fmt::format("stream {}", lane - first_stream);
}

/// Where the rows of a picture are: one for each rank, lane and depth that has spans.
struct SpanRows {
    std::map<std::tuple<std::size_t, std::size_t, unsigned>, double> y;
    double bottom = first_row;

    explicit SpanRows(const TimelineStep& step) {
        for (const TimelineSpan& span : step.spans) y.try_emplace({span.rank, span.lane, span.depth}, 0);
        std::size_t last_rank = most_chosen_ranks;
        double free_from = 0;  // below the two lines that name a rank
        for (auto& [key, at] : y) {
            if (std::exchange(last_rank, std::get<0>(key)) != std::get<0>(key)) {
                bottom = std::max(bottom, free_from) + 12;
                free_from = bottom + 2 * lane_height;
            }
            at = std::exchange(bottom, bottom + lane_height);
        }
        bottom = std::max(bottom, free_from);
    }

    [[nodiscard]] double y_of(const TimelineSpan& span) const { return y.at({span.rank, span.lane, span.depth}); }

    /// Names of ranks and lanes, each once.
    void draw_names(Svg& svg, const JobView& view, const Timeline& timeline) const {
        std::size_t last_rank = timeline.ranks.size();
        std::size_t last_lane = 0;
        for (const auto& [key, at] : y) {
            const auto& [rank, lane, depth] = key;
            const bool is_new = std::exchange(last_rank, rank) != rank;
            if (is_new) {
                svg.text("label", {ranks_end, at + 12}, Anchor::end,
                         fmt::format("rank {}", view.ranks[timeline.ranks[rank].rank]));
                svg.text("tick", {ranks_end, at + 26}, Anchor::end, shorten(timeline.ranks[rank].why, 18));
            }
            if (std::exchange(last_lane, lane) != lane || is_new)
                svg.text("tick", {names_end - 8, at + 12}, Anchor::end, shorten(name_of_lane(lane), 9));
        }
    }
};

/// A line from the ends of a collective's parts, which end together, rank by rank.
void draw_joins(Svg& svg, const TimelineStep& step, const SpanRows& rows, const Axis& x) {
    std::map<std::size_t, std::vector<Point>> ends;
    for (const TimelineSpan& span : step.spans)
        if (span.join > 0)
            ends[span.join].emplace_back(x(span.start_ms + span.duration_ms), rows.y_of(span) + lane_height / 2);
    if (ends.size() > 60) return;  // they would hide the spans
    for (auto& [join, points] : ends) {
        std::sort(points.begin(), points.end(), [](Point a, Point b) { return a.second < b.second; });
        svg.path("join", points);
    }
}

/// The colours of the phases that the step has, as far as there is room.
void draw_legend(Svg& svg, const JobView& view, const TimelineStep& step) {
    std::set<std::size_t> phases;
    for (const TimelineSpan& span : step.spans) phases.insert(span.phase);
    double x = names_end;
    for (const std::size_t phase : phases) {
        const std::string name = shorten(view.phases[phase].name, 20);
        const double needed = 30 + 8 * static_cast<double>(name.size());
        if (x + needed > picture_width) return;
        svg.rect("part " + view.phases[phase].color(), x, 25, 12, 12);
        svg.text("tick", {x + 17, 35}, Anchor::start, name);
        x += needed;
    }
}

Figure draw(const JobView& view, const Timeline& timeline, std::size_t index) {
    const TimelineStep& step = timeline.steps[index];
    const SpanRows rows(step);
    const std::string title = fmt::format("Step {}", tool::format_integer(step.step));
    const Plot plot{.left = names_end, .right = picture_width - 16, .top = first_row - 4, .bottom = rows.bottom + 4};
    Svg svg(
        fmt::format("timeline-{}", index), plot, title + " on a few ranks",
        "One row for each stream of each rank, time from left to right. Thin lines join the parts of one collective.");
    const Axis x(0, step.length_ms, plot.left, plot.right);
    svg.text("title", {plot.left, 14}, Anchor::start, title);
    draw_legend(svg, view, step);
    svg.group(fmt::format("ticks-{}", index));
    draw_values_below(svg, plot, x, 7, tick_ms);
    svg.end_group();
    svg.group(fmt::format("spans-{}", index), plot, step.length_ms);
    for (const TimelineSpan& span : step.spans) {
        const PhaseView& phase = view.phases[span.phase];
        const double from = x(span.start_ms);
        const double length = x(span.start_ms + span.duration_ms) - from;
        const std::string its_clock =
            fmt::format(" ({} by the clock of its host)", format_duration_ms(span.start_ms + span.ahead_ms));
        svg.rect("part " + phase.color(), from, rows.y_of(span), std::max(length, 1.0), lane_height - 3,
                 fmt::format("{}: {}, from {} on{}", phase.name, format_duration_ms(span.duration_ms),
                             format_duration_ms(span.start_ms), span.ahead_ms == 0 ? "" : its_clock));
        if (const auto room = static_cast<std::size_t>(length / 7.5); room >= 4)
            svg.text("on " + phase.color(), {from + 4, rows.y_of(span) + 11}, Anchor::start,
                     shorten(phase.name, room > phase.name.size() ? room : room - 1));
    }
    if (!timeline.each_from_zero) draw_joins(svg, step, rows, x);
    svg.end_group();
    rows.draw_names(svg, view, timeline);
    return {svg.html()};
}

}  // namespace

Section timeline_section(const Page& page) {
    const auto& [inputs, view, heat] = page;
    Section section{"timeline", "Inside a step", "All spans of a step."};
    const Timeline timeline = TimelineFinder(inputs.job, inputs.table, view).find(inputs.timeline);
    if (!timeline.empty.empty()) return section.without(timeline.empty);
    bool any_joins = false;
    for (std::size_t i = 0; i < timeline.steps.size(); ++i) {
        const TimelineStep& step = timeline.steps[i];
        if (step.length_ms > 0) section.figures.push_back(draw(view, timeline, i));
        any_joins |=
            std::any_of(step.spans.begin(), step.spans.end(), [](const TimelineSpan& span) { return span.join > 0; });
    }
    if (section.figures.empty()) return section.without("None of the chosen steps has rows.");
    if (any_joins && !timeline.each_from_zero)
        section.look =
            "What is joined is one collective: its parts end together, and the rank whose part is shortest came last.";
    std::string& caption = section.figures.back().caption;
    if (timeline.each_from_zero)
        caption =
            "The clocks of the hosts differ by more than a step, so that each rank begins at 0 and nothing is joined. ";
    else if (timeline.clocks.most_ms() > 0)
        caption = fmt::format(
            "The clocks of the hosts are up to {} apart. They are set right by the ends of the collectives that hosts "
            "share, to within {} in 9 of 10. ",
            format_duration_ms(timeline.clocks.most_ms()), format_duration_ms(timeline.clocks.error_ms()));
    if (timeline.left_out > 0)
        caption += fmt::format("{} are left out, the shortest.", tool::format_plural(timeline.left_out, "span"));
    return section;
}

}  // namespace cep::report
