// SPDX-License-Identifier: Apache-2.0
#include "report/heat.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "stats/robust.hpp"
#include "verdict/own_work.hpp"
#include "verdict/peers.hpp"
#include "verdict/straggler.hpp"

namespace cep::report {
namespace {

constexpr double scale_factor = 1.25;  // of the median, up and down
constexpr double wait_share = 0.25;    // of the step, where the colours of waiting end
constexpr double same = 1e-3;          // own work that differs less is the duration
constexpr std::size_t small_cells = std::size_t{1} << 16;

/// Which column each step is in; steps.size() for none.
std::vector<std::size_t> columns_of(const std::vector<std::int64_t>& some, const Bins& steps) {
    std::vector<std::size_t> columns;
    columns.reserve(some.size());
    for (const std::int64_t step : some) columns.push_back(steps.index_of(step));
    return columns;
}

/// Matrices with the columns of a view, from a job's samples or its table.
class Matrices {
  public:
    Matrices(const HeatSources& sources, const JobView& view) : sources_(sources), view_(view) {
        if (sources.table != nullptr) table_columns_ = columns_of(sources.table->steps, view.steps);
    }

    [[nodiscard]] StepMatrix durations(std::size_t phase) {
        if (sources_.rows != nullptr) return sources_.rows->of_phase(phase);
        if (is_derived_step(phase)) return of_table(sources_.table->step_ms);
        StepMatrix ms(view_.ranks.size(), view_.steps.size());
        std::size_t index = 0;
        for (const auto& [rank, all_series] : sources_.job->ranks) {
            if (all_series.empty()) continue;
            for (const tool::RunSeries& series : all_series)
                add_series(series, view_.phases[phase].name, ms.of_rank(index));
            ++index;
        }
        return ms;
    }

    /// A matrix of the table with the view's columns.
    [[nodiscard]] StepMatrix of_table(const StepMatrix& of_steps) const {
        StepMatrix ms(view_.ranks.size(), view_.steps.size());
        for (std::size_t rank = 0; rank < of_steps.ranks(); ++rank)
            for (std::size_t step = 0; step < of_steps.steps(); ++step)
                if (table_columns_[step] < view_.steps.size()) {
                    float& most = ms.of_rank(rank)[table_columns_[step]];
                    most = std::fmax(most, of_steps.of_rank(rank)[step]);
                }
        return ms;
    }

    /// nullptr where own work is not known.
    [[nodiscard]] const StepMatrix* own(std::size_t phase) const {
        if (sources_.table == nullptr) return nullptr;
        for (const tool::LocalPhase& local : sources_.table->local)
            if (local.name == view_.phases[phase].name) return &local.own_ms;
        return nullptr;
    }

  private:
    /// The whole step, where no rows say how long it took.
    [[nodiscard]] bool is_derived_step(std::size_t phase) const {
        return phase == 0 && view_.has_step && sources_.table != nullptr && !sources_.table->has_step_spans;
    }

    void add_series(const tool::RunSeries& series, std::string_view name, std::span<float> longest_ms) {
        for (const tool::PhaseSeries& phase : series.phases) {
            if (phase.name != name || phase.samples.empty()) continue;
            const std::vector<std::int64_t>& steps = series.steps.all();
            if (columns_steps_ != &steps && (columns_steps_ == nullptr || *columns_steps_ != steps))
                columns_ = columns_of(steps, view_.steps);
            columns_steps_ = &steps;
            sums_.assign(series.steps.size(), NAN);
            for (const tool::Sample& sample : phase.samples) {
                double& sum = sums_[sample.step_index];
                sum = std::isnan(sum) ? sample.duration_ms : sum + sample.duration_ms;
            }
            for (std::size_t step = 0; step < sums_.size(); ++step)
                if (columns_[step] < longest_ms.size())
                    longest_ms[columns_[step]] = std::fmax(longest_ms[columns_[step]], static_cast<float>(sums_[step]));
        }
    }

    const HeatSources& sources_;
    const JobView& view_;
    std::vector<std::size_t> table_columns_;
    const std::vector<std::int64_t>* columns_steps_ = nullptr;  // that columns_ is of
    std::vector<std::size_t> columns_;
    std::vector<double> sums_;
};

Band find_band(std::size_t phase, const StepMatrix& ms, std::size_t columns) {
    const auto bins = std::min(ms.steps(), columns);
    std::vector<std::array<std::vector<double>, 3>> quantiles(bins);  // of each column of a bin
    Band band{phase, {}, {}, {}, std::vector<double>(bins, NAN), std::vector<std::size_t>(bins, ms.ranks())};
    std::vector<double> values;
    for (std::size_t column = 0; column < ms.steps(); ++column) {
        const std::size_t bin = part_of(column, ms.steps(), columns);
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
        if (values.empty()) continue;
        const std::vector<double> of_column = tool::quantiles_of(values, {0.1, 0.5, 0.9});
        for (std::size_t i = 0; i < of_column.size(); ++i) quantiles[bin][i].push_back(of_column[i]);
    }
    for (const auto& [p10, p50, p90] : quantiles) {
        band.p10_ms.push_back(tool::median_of(p10));
        band.p50_ms.push_back(tool::median_of(p50));
        band.p90_ms.push_back(tool::median_of(p90));
    }
    return band;
}

/// Each value against the median over the ranks of its role in the same column, as ranks may have recorded different
/// steps.
template <typename Compare>
StepMatrix against_role(const StepMatrix& ms, const JobView& view, const Compare& compare) {
    StepMatrix compared(ms.ranks(), ms.steps());
    std::vector<double> values;
    for (const std::vector<std::size_t>& ranks : view.ranks_by_role())
        for (std::size_t column = 0; column < ms.steps(); ++column) {
            values.clear();
            for (const std::size_t rank : ranks) values.push_back(ms.at(rank, column));
            const double median = tool::median_of(values);
            for (const std::size_t rank : ranks) compared.set(rank, column, compare(ms.at(rank, column), median));
        }
    return compared;
}

StepMatrix relative_of(const StepMatrix& ms, const JobView& view) {
    return against_role(ms, view, [](double value, double median) { return median > 0 ? value / median : NAN; });
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

class Builder {
  public:
    Builder(const HeatSources& sources, JobView& view, std::size_t max_bytes)
        : sources_(sources), view_(view), matrices_(sources, view), max_bytes_(max_bytes) {}

    HeatMap build() {
        heat_.rank_bins = merge_bins(index_bins(view_.ranks.size()), HeatMap::max_rows);
        heat_.step_bins = merge_bins(view_.steps, HeatMap::max_columns);
        heat_.band_steps = merge_bins(view_.steps, HeatMap::band_columns);
        heat_.is_whole = view_.ranks.size() <= HeatMap::max_rows && view_.steps.size() <= HeatMap::max_columns;
        if (view_.has_step) add_step();
        for (std::size_t phase = view_.has_step ? 1 : 0; phase < view_.phases.size(); ++phase) add_phase(phase);
        std::stable_partition(heat_.layers.begin(), heat_.layers.end(),
                              [](const Layer& layer) { return layer.measure != Measure::relative; });
        return std::move(heat_);
    }

  private:
    void add_step() {
        const StepMatrix ms = matrices_.durations(0);
        step_ms_ = typical_value(ms);
        const bool knows_own = sources_.table != nullptr && !sources_.table->local.empty();
        StepMatrix own_ms;
        if (knows_own) {
            own_ms = where_known(ms, matrices_.of_table(own_work_of(*sources_.table)));
            find_slowness(own_ms);
            choose_ranks(own_ms);
            add(0, Measure::own, own_ms);
            if (sources_.table->has_comm)
                add(0, Measure::wait, where_known(ms, matrices_.of_table(sources_.table->wait_ms)));
        } else {
            choose_ranks(ms);
        }
        add_duration(0, ms);
        add(0, Measure::relative, relative_of(knows_own ? own_ms : ms, view_));
    }

    void add_phase(std::size_t phase) {
        const StepMatrix ms = matrices_.durations(phase);
        if (heat_.layers.empty()) choose_ranks(ms);
        const StepMatrix* of_table = matrices_.own(phase);
        if (of_table == nullptr) {
            add_duration(phase, ms);
            add(phase, Measure::relative, relative_of(ms, view_));
            return;
        }
        const StepMatrix own_ms = matrices_.of_table(*of_table);
        if (!are_same(own_ms, ms)) add(phase, Measure::own, own_ms);
        add_duration(phase, ms);
        add(phase, Measure::relative, relative_of(own_ms, view_));
    }

    void add_duration(std::size_t phase, const StepMatrix& ms) {
        add(phase, Measure::duration, ms);
        if (!heat_.layers.empty() && heat_.layers.back().phase == phase)
            heat_.bands.push_back(find_band(phase, ms, HeatMap::band_columns));
    }

    void find_slowness(const StepMatrix& own_ms) {
        const std::vector<float> means = row_means(against_role(own_ms, view_, std::minus<>()));
        view_.slowness_ms.assign(means.begin(), means.end());
    }

    /// Blamed ones, the slowest and the fastest, and those on the hosts of the first.
    void choose_ranks(const StepMatrix& ms) {
        constexpr std::size_t most = 96;
        constexpr std::size_t of_hosts = 48;
        constexpr std::size_t slowest = 32;
        constexpr std::size_t fastest = 8;
        if (!has_fine()) return;
        std::vector<double> by_rank = view_.slowness_ms;
        if (std::all_of(by_rank.begin(), by_rank.end(), [](double value) { return std::isnan(value); })) {
            const std::vector<float> means = row_means(ms);
            by_rank.assign(means.begin(), means.end());
        }
        const std::vector<std::size_t> order = order_known(by_rank, std::greater<>());
        std::set<std::size_t> chosen;
        std::vector<std::size_t> blamed = view_.blamed_ranks();
        blamed.resize(std::min(blamed.size(), slowest));
        chosen.insert(blamed.begin(), blamed.end());
        for (const std::size_t one : blamed)
            for (std::size_t rank = 0; rank < view_.ranks.size() && chosen.size() < of_hosts; ++rank)
                if (view_.host[rank] == view_.host[one] && view_.hosts.size() > 1) chosen.insert(rank);
        for (std::size_t i = 0; i < std::min(slowest, order.size()); ++i) chosen.insert(order[i]);
        for (std::size_t i = 0; i < std::min(fastest, order.size()) && chosen.size() < most; ++i)
            chosen.insert(order[order.size() - 1 - i]);
        if (!order.empty()) chosen.insert(order[order.size() / 2]);
        heat_.chosen.assign(chosen.begin(), chosen.end());
    }

    [[nodiscard]] Scale scale_of(Measure measure, const StepMatrix& values) const {
        if (measure == Measure::wait) return {false, 0, wait_share * step_ms_};
        const double median = measure == Measure::relative ? 1 : typical_value(values);
        if (!(median > 0)) return {false, 0, 1};
        return {true, median / scale_factor, median * scale_factor};
    }

    void add(std::size_t phase, Measure measure, const StepMatrix& values) {
        if (std::isnan(typical_value(values))) return;
        Layer layer;
        layer.phase = phase;
        layer.measure = measure;
        layer.scale = scale_of(measure, values);
        layer.overview = reduce(values, HeatMap::max_rows, HeatMap::max_columns);
        layer.by_rank = row_means(values);
        if (has_fine()) add_fine(values, layer);
        heat_.layers.push_back(std::move(layer));
    }

    /// Small heat maps fit as they are.
    [[nodiscard]] bool has_fine() const { return view_.ranks.size() * view_.steps.size() > small_cells; }

    void add_fine(const StepMatrix& values, Layer& layer) {
        if (!heat_.chosen.empty() && chosen_bytes_ < max_bytes_) {
            layer.of_chosen = encode(choose_rows(values, heat_.chosen), 16);
            chosen_bytes_ += layer.of_chosen->data.size();
        }
        if (full_bytes_ + values.ranks() * values.steps() / 2 < max_bytes_) {
            layer.full = encode(values, 8);
            full_bytes_ += layer.full->data.size();
        }
    }

    const HeatSources& sources_;
    JobView& view_;
    Matrices matrices_;
    const std::size_t max_bytes_;
    std::size_t chosen_bytes_ = 0;
    std::size_t full_bytes_ = 0;
    double step_ms_ = NAN;
    HeatMap heat_;
};

}  // namespace

double Scale::place_of(double value) const {
    if (!(high > low) || !std::isfinite(value)) return value > low ? 1 : 0;
    const double place = is_log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return std::clamp(place, 0.0, 1.0);
}

const Layer* HeatMap::find(std::size_t phase, Measure measure) const {
    for (const Layer& layer : layers)
        if (layer.phase == phase && layer.measure == measure) return &layer;
    return nullptr;
}

HeatMap build_heat(const HeatSources& sources, JobView& view, std::size_t max_bytes) {
    return Builder(sources, view, max_bytes).build();
}

// The verdict takes the usual time of the peers for a phase whose row was lost. Of a step of which a rank has no rows,
// or not that of the step, that would be a guess.
StepMatrix own_work_of(const tool::JobTable& table) {
    StepMatrix own_ms = tool::own_work(table, tool::find_peers(table));
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
