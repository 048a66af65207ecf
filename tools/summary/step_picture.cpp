// SPDX-License-Identifier: Apache-2.0
#include "summary/step_picture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "ledger/table_quantiles.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t picture_columns = 240;  // more than a line of a terminal has
constexpr std::size_t most_rank_lines = 16;
constexpr std::size_t most_phase_lines = 6;
constexpr double least_phase_share = 0.01;  // of a step
constexpr double least_whole_step = 0.5;    // of a usual one: what is large beside a step that was cut off is not slow
constexpr double most_marked = 0.5;         // of the columns: more marks say nothing

/// Ranks that share a line: from `first` to before `last`, as the table has them.
struct LineOfRanks {
    std::string label;
    std::size_t first;
    std::size_t last;
};

/// The hosts in the order of their ranks; none where one is not known, or has ranks apart from each other.
std::vector<LineOfRanks> hosts_of(const std::vector<RankRole>& ranks) {
    std::vector<LineOfRanks> hosts;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const bool is_new = i == 0 || ranks[i].host != ranks[i - 1].host;
        if (ranks[i].host.empty() || (is_new && !names.insert(ranks[i].host).second)) return {};
        if (is_new) hosts.push_back({ranks[i].host, i, i});
        hosts.back().last = i + 1;
    }
    return hosts;
}

std::string first_to_last(const std::vector<RankRole>& ranks, std::size_t first, std::size_t last) {
    if (last == first + 1) return fmt::format("{}", ranks[first].rank);
    return fmt::format("{}-{}", ranks[first].rank, ranks[last - 1].rank);
}

std::vector<LineOfRanks> one_line_each(const std::vector<RankRole>& ranks) {
    std::vector<LineOfRanks> lines;
    const bool one_host =
        std::all_of(ranks.begin(), ranks.end(), [&](const RankRole& rank) { return rank.host == ranks.front().host; });
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const bool new_host = !one_host && (i == 0 || ranks[i].host != ranks[i - 1].host);
        lines.push_back(
            {fmt::format("{}{}{}", ranks[i].rank, new_host ? " " : "", new_host ? ranks[i].host : ""), i, i + 1});
    }
    return lines;
}

/// As many ranks each as a power of two, or as hosts have.
std::vector<LineOfRanks> equal_lines(const std::vector<RankRole>& ranks, const std::vector<LineOfRanks>& hosts) {
    const auto lines_of = [](std::size_t count) { return (count + most_rank_lines - 1) / most_rank_lines; };
    std::size_t length = std::bit_ceil(lines_of(ranks.size()));
    if (!hosts.empty()) {
        const std::size_t of_host = hosts.front().last;
        const bool alike = std::all_of(hosts.begin(), hosts.end(), [of_host](const LineOfRanks& host) {
            return host.first % of_host == 0 && host.last - host.first <= of_host;
        });
        if (alike) length = of_host * std::bit_ceil(lines_of(hosts.size()));
    }
    std::vector<LineOfRanks> lines;
    for (std::size_t first = 0; first < ranks.size(); first += length) {
        const std::size_t last = std::min(first + length, ranks.size());
        lines.push_back({first_to_last(ranks, first, last), first, last});
    }
    return lines;
}

std::vector<LineOfRanks> lines_of(const std::vector<RankRole>& ranks) {
    if (ranks.size() <= most_rank_lines) return one_line_each(ranks);
    std::vector<LineOfRanks> hosts = hosts_of(ranks);
    if (hosts.size() < 2 || hosts.size() > most_rank_lines) return equal_lines(ranks, hosts);
    for (LineOfRanks& host : hosts)
        host.label = fmt::format("{} {}", first_to_last(ranks, host.first, host.last), host.label);
    return hosts;
}

class StepDrawer {
  public:
    explicit StepDrawer(const Judgement& judgement)
        : table_(judgement.table),
          groups_(judgement.groups),
          columns_(std::min(table_.steps.size(), picture_columns)),
          group_of_(table_.ranks.size()),
          own_ms_(judgement.own_ms),
          usual_own_ms_(medians_of(own_ms_)) {
        for (std::size_t group = 0; group < groups_.size(); ++group)
            for (const std::size_t rank : groups_[group].ranks) group_of_[rank] = group;
        for (const std::vector<double>& usual_ms : usual_own_ms_)
            least_whole_ms_.push_back(least_whole_step * typical_ms(usual_ms));
        for (std::size_t step = 0; step < table_.steps.size(); ++step)
            column_of_.push_back(step * columns_ / table_.steps.size());
    }

    [[nodiscard]] Sparkline draw_time(const NumberRanges& marks, const Findings& changes) const {
        Means means(columns_);
        for (std::size_t step = 0; step < column_of_.size(); ++step)
            means.add(column_of_[step], table_.median_step_ms[step]);
        Sparkline spark;
        spark.line.label = "time";
        for (std::size_t column = 0; column < columns_; ++column) spark.line.values.push_back(means.at(column));
        add_signs(spark, marks, changes);
        double least_ms = std::numeric_limits<double>::infinity();
        double most_ms = 0;
        const double cut_off_ms = least_whole_step * typical_ms(table_.median_step_ms);
        for (const double ms : table_.median_step_ms) {
            if (is_missing(ms)) continue;
            if (ms >= cut_off_ms) least_ms = std::min(least_ms, ms);
            most_ms = std::max(most_ms, ms);
        }
        spark.title = least_ms > most_ms ? "Step time" : describe(least_ms, most_ms, spark.signs);
        return spark;
    }

    [[nodiscard]] HeatStrip draw_ranks() const {
        const std::vector<LineOfRanks> lines = lines_of(table_.ranks);
        HeatStrip strip{"Own work beyond the median rank's", {}};
        if (lines.size() < table_.ranks.size()) strip.title += ", slowest rank of each line";
        for (const LineOfRanks& line : lines)
            strip.lines.push_back({line.label, most_excess(own_ms_, usual_own_ms_, line.first, line.last)});
        return strip;
    }

    /// The named phases and those with the most work.
    [[nodiscard]] HeatStrip draw_phases(const std::vector<std::string>& named) const {
        struct Phase {
            const LocalPhase* phase;
            StepMedians medians_ms;
            double usual_ms;
            bool is_named;
        };
        std::vector<Phase> phases;
        const double least_ms = least_phase_share * typical_ms(table_.median_step_ms);
        for (const LocalPhase& phase : table_.local) {
            StepMedians medians_ms = medians_of(phase.own_ms);
            double usual_ms = 0;
            for (const std::vector<double>& of_group : medians_ms) usual_ms = std::max(usual_ms, typical_ms(of_group));
            const bool is_named = std::find(named.begin(), named.end(), phase.name) != named.end();
            if (is_named || usual_ms > least_ms) phases.push_back({&phase, std::move(medians_ms), usual_ms, is_named});
        }
        const auto sort_by = [&phases](const auto& of_phase) {
            std::stable_sort(phases.begin(), phases.end(),
                             [&](const Phase& a, const Phase& b) { return of_phase(a) > of_phase(b); });
        };
        sort_by([](const Phase& one) { return std::pair(one.is_named, one.usual_ms); });
        if (phases.size() > most_phase_lines) phases.resize(most_phase_lines);
        sort_by([](const Phase& one) { return one.usual_ms; });
        HeatStrip strip{"The same by phase, slowest rank", {}};
        for (const Phase& one : phases)
            strip.lines.push_back(
                {one.phase->name, most_excess(one.phase->own_ms, one.medians_ms, 0, table_.ranks.size())});
        return strip;
    }

  private:
    using StepMedians = std::vector<std::vector<double>>;  // by peer group, then by step

    /// The mean of the values in each column.
    class Means {
      public:
        explicit Means(std::size_t columns) : sums_(columns, 0), counts_(columns, 0) {}
        void add(std::size_t column, double value) {
            if (is_missing(value)) return;
            sums_[column] += value;
            counts_[column] += 1;
        }
        /// NaN where there is no value.
        [[nodiscard]] double at(std::size_t column) const { return sums_[column] / counts_[column]; }

      private:
        std::vector<double> sums_;
        std::vector<double> counts_;
    };

    [[nodiscard]] StepMedians medians_of(const StepMatrix& ms) const {
        StepMedians medians;
        for (const PeerGroup& group : groups_) medians.push_back(quantiles_over_ranks(ms, group.ranks, 0.5));
        return medians;
    }

    /// In each column: the mean over its steps of the rank, of some, that exceeds its peers most there.
    [[nodiscard]] std::vector<double> most_excess(const StepMatrix& ms, const StepMedians& medians_ms,
                                                  std::size_t first, std::size_t last) const {
        std::vector<double> largest(columns_, NAN);
        for (std::size_t rank = first; rank < last; ++rank) {
            Means means(columns_);
            const std::span<const float> of_rank = ms.of_rank(rank);
            const std::span<const float> step_ms = table_.step_ms.of_rank(rank);
            const std::vector<double>& usual_ms = medians_ms[group_of_[rank]];
            const std::vector<double>& whole_ms = usual_own_ms_[group_of_[rank]];
            const double least_ms = least_whole_ms_[group_of_[rank]];
            for (std::size_t step = 0; step < of_rank.size(); ++step)
                if (whole_ms[step] > 0 && !std::isnan(step_ms[step]))
                    means.add(column_of_[step], (of_rank[step] - usual_ms[step]) / std::max(whole_ms[step], least_ms));
            for (std::size_t column = 0; column < columns_; ++column)
                largest[column] = std::fmax(largest[column], means.at(column));
        }
        return largest;
    }

    void add_signs(Sparkline& spark, const NumberRanges& marks, const Findings& changes) const {
        const std::vector<std::int64_t>& steps = table_.steps;
        const auto add = [&](std::int64_t step, char character) {
            const auto found = std::lower_bound(steps.begin(), steps.end(), step);
            if (found == steps.end()) return;
            const std::size_t column = column_of_[static_cast<std::size_t>(found - steps.begin())];
            const Sparkline::Sign sign{column, character};
            if (spark.signs.empty() || spark.signs.back() != sign) spark.signs.push_back(sign);
        };
        for (const auto& [first, last] : marks.ranges()) add(first, 'm');
        if (static_cast<double>(spark.signs.size()) > most_marked * static_cast<double>(columns_)) spark.signs.clear();
        for (const Finding* const change : changes) add(change->first_step, '^');
    }

    static std::string describe(double least_ms, double most_ms, const std::vector<Sparkline::Sign>& signs) {
        const std::string shortest = format_duration_ms(least_ms);
        const std::string longest = format_duration_ms(most_ms);
        std::string text = "Step time on the median rank: " + shortest;
        if (longest != shortest) text += " to " + longest;
        const auto has = [&](char character) {
            return std::any_of(signs.begin(), signs.end(),
                               [character](const Sparkline::Sign& sign) { return sign.character == character; });
        };
        if (has('^')) text += ", ^ lasting change";
        if (has('m')) text += ", m mark";
        return text;
    }

    const JobTable& table_;
    const std::vector<PeerGroup>& groups_;
    const std::size_t columns_;
    std::vector<std::size_t> column_of_;  // by step
    std::vector<std::size_t> group_of_;   // by rank
    const StepMatrix& own_ms_;
    const StepMedians usual_own_ms_;
    std::vector<double> least_whole_ms_;  // by peer group
};

}  // namespace

std::optional<StepPicture> draw_steps(const Job& job, const Judgement& judgement) {
    const JobTable& table = judgement.table;
    const Verdict& verdict = judgement.verdict;
    if (table.steps.empty()) return std::nullopt;
    const StepDrawer drawer(judgement);
    StepPicture picture{
        table.steps.front(), table.steps.back(), drawer.draw_time(marked_steps(job), verdict.changes()), {}};
    if (table.ranks.size() < 2) return picture;
    std::vector<std::string> phases;
    for (const Findings& slow : {verdict.stragglers(), verdict.groups()})
        for (const Finding* const one : slow) phases.push_back(one->phase);
    picture.strips.push_back(drawer.draw_ranks());
    picture.strips.push_back(drawer.draw_phases(phases));
    return picture;
}

}  // namespace cep::tool
