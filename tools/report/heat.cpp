// SPDX-License-Identifier: Apache-2.0
#include "report/heat.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "ledger/table_quantiles.hpp"
#include "verdict/own_work.hpp"
#include "verdict/peers.hpp"

namespace cep::report {
namespace {

constexpr double same = 1e-3;  // own work that differs less is the duration

/// Which column each step is in; steps.size() for none.
std::vector<std::size_t> columns_of(const std::vector<std::int64_t>& some, const Bins& steps) {
    std::vector<std::size_t> columns;
    columns.reserve(some.size());
    for (const std::int64_t step : some) columns.push_back(steps.index_of(step));
    return columns;
}

/// The nearest ranks of each column, and the medians of these where columns share a bin.
Band find_band(std::size_t phase, const StepMatrix& ms) {
    constexpr std::array<double, 3> shares = {0.1, 0.5, 0.9};
    const std::size_t bins = std::min(ms.steps(), HeatMap::band_columns);
    std::vector<std::array<std::vector<double>, 3>> quantiles(bins);  // of each column of a bin
    Band band{phase};
    band.max_ms.assign(bins, NAN);
    band.max_rank.assign(bins, ms.ranks());
    std::vector<double> values;
    for (std::size_t column = 0; column < ms.steps(); ++column) {
        const std::size_t bin = bin_of(column, ms.steps(), bins);
        values.clear();
        for (std::size_t rank = 0; rank < ms.ranks(); ++rank) {
            const double value = ms.at(rank, column);
            if (std::isnan(value)) continue;
            values.push_back(value);
            if (std::isnan(band.max_ms[bin]) || value > band.max_ms[bin]) {
                band.max_ms[bin] = value;
                band.max_rank[bin] = rank;
            }
        }
        for (std::size_t i = 0; i < shares.size(); ++i)
            quantiles[bin][i].push_back(nearest_quantile(values, shares[i]));
    }
    for (auto& [p10, p50, p90] : quantiles) {
        band.p10_ms.push_back(nearest_quantile(p10, 0.5));
        band.p50_ms.push_back(nearest_quantile(p50, 0.5));
        band.p90_ms.push_back(nearest_quantile(p90, 0.5));
    }
    return band;
}

/// Each value less the median over the ranks of its role in the same column, as ranks may have recorded different
/// steps.
StepMatrix excess_over_role(const StepMatrix& ms, const JobView& view) {
    StepMatrix excess(ms.ranks(), ms.steps());
    for (const std::vector<std::size_t>& ranks : view.peers()) {
        const std::vector<double> medians = tool::quantiles_over_ranks(ms, ranks, 0.5);
        for (const std::size_t rank : ranks)
            for (std::size_t column = 0; column < ms.steps(); ++column)
                excess.set(rank, column, ms.at(rank, column) - medians[column]);
    }
    return excess;
}

/// Without the cells of steps whose whole time is not known: of these, some rows may be missing.
StepMatrix where_known(const StepMatrix& step_ms, StepMatrix ms) {
    for (std::size_t rank = 0; rank < ms.ranks(); ++rank)
        for (std::size_t column = 0; column < ms.steps(); ++column)
            if (std::isnan(step_ms.at(rank, column))) ms.set(rank, column, NAN);
    return ms;
}

bool are_same(const StepMatrix& a, const StepMatrix& b) {
    for (std::size_t rank = 0; rank < a.ranks(); ++rank)
        for (std::size_t column = 0; column < a.steps(); ++column)
            if (std::abs(a.at(rank, column) - b.at(rank, column)) > same * b.at(rank, column)) return false;
    return true;
}

/// What is larger than noise has a colour. `whole`: what the values are a part of.
Range scale_of(Measure measure, const StepMatrix& values, double whole, double most) {
    constexpr double noise = 6;  // times the median deviation: four standard deviations
    constexpr double least_share = 0.01;
    constexpr double most_share = 0.1;  // of two or three ranks, differences look like noise
    constexpr double least_range = 10;  // so that noise stays pale
    constexpr double factor = 1.25;     // of the median, up and down
    double low = least_share * whole;
    double high = least_range * low;
    if (measure == Measure::excess) {
        low = std::clamp(noise * typical_size(values), low, most_share * whole);
        high = least_range * low;
    } else if (measure != Measure::wait) {
        const double median = typical_size(values);
        low = median / factor;
        high = median * factor;
    }
    return low > 0 ? Range{low, std::max(high, most)} : Range{0, 1};
}

class Builder {
  public:
    Builder(const tool::Job& job, const tool::JobTable* table, JobView& view) : job_(job), table_(table), view_(view) {}

    HeatMap build() {
        heat_.band_steps = merge_bins(view_.steps, HeatMap::band_columns);
        if (!view_.phases.empty()) rank();
        for (std::size_t phase = 0; phase < view_.phases.size(); ++phase) add_phase(phase);
        return std::move(heat_);
    }

  private:
    /// By own work; where it is not known, by the phase that the verdict blames, or the longest in which ranks do not
    /// wait.
    void rank() {
        const bool knows_own = view_.has_step && table_ != nullptr && !table_->local.empty();
        if (!knows_own) first_phase_ = phase_to_rank_by();
        const StepMatrix whole = durations(first_phase_);
        if (knows_own) own_ms_ = where_known(whole, of_table(own_work_of(*table_)));
        const StepMatrix& ms = knows_own ? own_ms_ : whole;
        const StepMatrix excess = excess_over_role(ms, view_);
        const std::vector<float> means = row_means(excess);
        if (knows_own) view_.slowness_ms.assign(means.begin(), means.end());
        choose_rows({means.begin(), means.end()}, scale_of(Measure::excess, excess, typical_size(ms), 0).low);
    }

    [[nodiscard]] std::size_t phase_to_rank_by() const {
        const auto is_work = [](const PhaseView& phase) {
            return phase.kind != schema::Kind::comm && phase.kind != schema::Kind::step;
        };
        const auto longest = std::find_if(view_.phases.begin(), view_.phases.end(), is_work);
        const std::size_t phase = view_.blamed.empty() ? static_cast<std::size_t>(longest - view_.phases.begin())
                                                       : view_.phase_of(view_.first_blame.phase);
        return phase < view_.phases.size() ? phase : 0;
    }

    /// Ranks that are slow, or blamed, have rows of their own.
    void choose_rows(const std::vector<double>& excess_ms, double least_ms) {
        constexpr std::size_t most_slow = 128;
        std::vector<std::size_t>& order = heat_.order;
        order = view_.blamed;
        std::set<std::size_t> known(order.begin(), order.end());
        std::size_t slow = order.size();
        for (const std::size_t rank : order_known(excess_ms, std::greater<>())) {
            if (!known.insert(rank).second) continue;
            order.push_back(rank);
            if (excess_ms[rank] > least_ms) slow = order.size();
        }
        slow = std::min(slow, most_slow);
        for (std::size_t i = slow; i < order.size(); ++i) known.erase(order[i]);
        std::vector<std::size_t> others;
        for (std::size_t rank = 0; rank < view_.ranks.size(); ++rank)
            if (!known.contains(rank)) others.push_back(rank);
        for (std::size_t i = 0; i < slow; ++i) heat_.rows.push_back({order[i]});
        heat_.slow_rows = slow;
        const std::size_t room = std::min(others.size(), HeatMap::max_rows - slow);
        heat_.rows.resize(slow + room);
        for (std::size_t i = 0; i < others.size(); ++i)
            heat_.rows[slow + bin_of(i, others.size(), room)].push_back(others[i]);
    }

    /// From the samples, with the columns of the view.
    [[nodiscard]] StepMatrix durations(std::size_t phase) {
        // The whole step, where no rows say how long it took.
        if (phase == 0 && view_.has_step && table_ != nullptr && !table_->has_step_spans)
            return of_table(table_->step_ms);
        StepMatrix ms(view_.ranks.size(), view_.steps.size());
        for (std::size_t rank = 0; rank < view_.ranks.size(); ++rank)
            for (const tool::RunSeries& series : job_.ranks.at(view_.ranks[rank]))
                add_series(series, view_.phases[phase].name, ms.of_rank(rank));
        return ms;
    }

    void add_series(const tool::RunSeries& series, std::string_view name, std::span<float> longest_ms) {
        for (const tool::PhaseSeries& phase : series.phases) {
            if (phase.name != name || phase.samples.empty()) continue;
            if (steps_ == nullptr || *steps_ != series.steps) columns_ = columns_of(series.steps.all(), view_.steps);
            steps_ = &series.steps;
            sums_.assign(series.steps.size(), NAN);
            for (const tool::Sample& sample : phase.samples) {
                double& sum = sums_[sample.step_index];
                sum = std::isnan(sum) ? sample.duration_ms : sum + sample.duration_ms;
            }
            join_columns(sums_, columns_, longest_ms);
        }
    }

    /// A matrix of the table, with the columns of the view.
    [[nodiscard]] StepMatrix of_table(const StepMatrix& of_steps) const {
        StepMatrix ms(view_.ranks.size(), view_.steps.size());
        const std::vector<std::size_t> columns = columns_of(table_->steps, view_.steps);
        for (std::size_t rank = 0; rank < of_steps.ranks(); ++rank)
            join_columns(of_steps.of_rank(rank), columns, ms.of_rank(rank));
        return ms;
    }

    /// Empty where it is not known.
    [[nodiscard]] StepMatrix own_work(std::size_t phase) const {
        if (phase == 0 && view_.has_step) return own_ms_;
        if (table_ != nullptr)
            for (const tool::LocalPhase& local : table_->local)
                if (local.name == view_.phases[phase].name) return of_table(local.own_ms);
        return {};
    }

    void add_phase(std::size_t phase) {
        const StepMatrix ms = durations(phase);
        const double typical_ms = typical_size(ms);
        if (std::isnan(typical_ms)) return;
        heat_.bands.push_back(find_band(phase, ms));
        const StepMatrix own_ms = own_work(phase);
        const bool knows_own = own_ms.ranks() > 0;
        if (has_excess(phase))
            add(phase, Measure::excess, excess_over_role(knows_own ? own_ms : ms, view_), typical_ms);
        if (knows_own && !are_same(own_ms, ms)) add(phase, Measure::own, own_ms, typical_ms);
        if (phase == 0 && view_.has_step && table_ != nullptr && table_->has_comm)
            add(phase, Measure::wait, where_known(ms, of_table(table_->wait_ms)), typical_ms);
        add(phase, Measure::duration, ms, typical_ms);
    }

    void add(std::size_t phase, Measure measure, const StepMatrix& values, double whole) {
        const StepMatrix shown = reduce(values, heat_.rows, max_columns);
        Range known;
        for (std::size_t row = 0; row < shown.ranks(); ++row)
            for (const float value : shown.of_rank(row)) known.add(value);
        if (known.high < known.low) return;
        const Range scale = scale_of(measure, values, whole, known.high);
        const bool is_first =
            phase == first_phase_ && measure == (has_excess(phase) ? Measure::excess : Measure::duration);
        heat_.layers.insert(is_first ? heat_.layers.begin() : heat_.layers.end(),
                            {phase, measure, scale,
                             encode(shown, known, measure == Measure::excess ? scale.low / 10 : 0), row_means(values)});
        if (is_first) heat_.png = heat_png(reduce(values, heat_.rows, HeatMap::picture_columns), scale);
    }

    /// Who is longer in communication waits for others.
    [[nodiscard]] bool has_excess(std::size_t phase) const { return view_.phases[phase].kind != schema::Kind::comm; }

    const tool::Job& job_;
    const tool::JobTable* table_;
    JobView& view_;
    const tool::StepNumbers* steps_ = nullptr;  // that columns_ is of
    std::vector<std::size_t> columns_;
    std::vector<double> sums_;  // by step of a series
    std::size_t first_phase_ = 0;
    StepMatrix own_ms_;  // of the whole step
    HeatMap heat_;
};

}  // namespace

const Layer* HeatMap::find(std::size_t phase, Measure measure) const {
    for (const Layer& layer : layers)
        if (layer.phase == phase && layer.measure == measure) return &layer;
    return nullptr;
}

HeatMap build_heat(const tool::Job& job, const tool::JobTable* table, JobView& view) {
    return Builder(job, table, view).build();
}

// The verdict takes the usual time of the peers for a phase whose row was lost. Of a step of which a rank has no rows,
// or not that of the step, that would be a guess.
StepMatrix own_work_of(const tool::JobTable& table) {
    StepMatrix own_ms = tool::own_work(table, tool::AbsentRows(table), tool::find_peers(table));
    for (std::size_t rank = 0; rank < own_ms.ranks(); ++rank)
        for (std::size_t step = 0; step < own_ms.steps(); ++step) {
            const bool has_rows = std::any_of(table.local.begin(), table.local.end(), [&](const auto& phase) {
                return !std::isnan(phase.own_ms.at(rank, step));
            });
            if (!has_rows || std::isnan(table.step_ms.at(rank, step))) own_ms.set(rank, step, NAN);
        }
    return own_ms;
}

}  // namespace cep::report
