// SPDX-License-Identifier: Apache-2.0
#include "report/breakdown.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace cep::report {
namespace {

constexpr std::size_t single_phases = 7;  // with a bar of their own

class BreakdownFinder {
  public:
    BreakdownFinder(const JobView& view, const tool::JobTable& table) : view_(view), table_(table) {}

    Breakdown find() {
        order_phases();
        for (std::size_t i = 0; i < std::min(single_phases, order_.size()); ++i) {
            const std::string& name = table_.local[order_[i]].name;
            const std::size_t phase = view_.phase_of(name);
            const int color = phase < view_.phases.size() ? view_.phases[phase].color : colors - 1;
            found_.parts.push_back({name, color, "c" + std::to_string(color)});
        }
        if (order_.size() > single_phases) found_.parts.push_back({"other phases", std::nullopt, "others"});
        found_.parts.push_back({"waiting", std::nullopt, "wait"});
        found_.parts.push_back({"communication", std::nullopt, "comm"});
        found_.parts.push_back({"unattributed", std::nullopt, "rest"});
        const std::vector<std::size_t> ranks = order_known(view_.slowness_ms);
        if (ranks.empty()) return {"No rank has own work in a step whose time is known.", {}, {}};
        std::vector<std::pair<std::string, std::size_t>> chosen = {{"most own work", ranks.back()}};
        if (ranks.size() > 2) chosen.emplace_back("median", ranks[ranks.size() / 2]);
        if (ranks.size() > 1) chosen.emplace_back("least own work", ranks.front());
        find_steps(chosen);
        if (steps_.empty()) return {"The ranks to compare have no step in common whose time is known.", {}, {}};
        for (const auto& [label, rank] : chosen) add(label, rank);
        return std::move(found_);
    }

  private:
    /// Those with the most time first.
    void order_phases() {
        std::vector<double> totals;
        for (const tool::LocalPhase& phase : table_.local) {
            double total = 0;
            for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank)
                for (const float ms : phase.own_ms.of_rank(rank))
                    if (!std::isnan(ms)) total += ms;
            totals.push_back(total);
        }
        order_ = order_known(totals, std::greater<>());
        std::sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(std::min(single_phases, order_.size())));
    }

    /// Those that all of the ranks recorded.
    void find_steps(const std::vector<std::pair<std::string, std::size_t>>& ranks) {
        for (std::size_t step = 0; step < table_.steps.size(); ++step) {
            bool is_known = true;
            for (const auto& [label, rank] : ranks) is_known &= !std::isnan(table_.step_ms.at(rank, step));
            if (is_known) steps_.push_back(step);
        }
    }

    [[nodiscard]] double mean_of(const StepMatrix& ms, std::size_t rank) const {
        double sum = 0;
        for (const std::size_t step : steps_)
            if (const double value = ms.at(rank, step); !std::isnan(value)) sum += value;
        return sum / static_cast<double>(steps_.size());
    }

    void add(std::string label, std::size_t rank) {
        BreakdownBar bar{std::move(label), rank, mean_of(table_.step_ms, rank), {}};
        double others_ms = 0;
        for (std::size_t i = 0; i < order_.size(); ++i) {
            const double ms = mean_of(table_.local[order_[i]].own_ms, rank);
            if (i < single_phases) {
                bar.ms.push_back(ms);
            } else {
                others_ms += ms;
            }
        }
        if (order_.size() > single_phases) bar.ms.push_back(others_ms);
        const double exposed_ms = mean_of(table_.exposed_ms, rank);
        const double wait_ms = std::min(mean_of(table_.wait_ms, rank), exposed_ms);
        bar.ms.push_back(wait_ms);
        bar.ms.push_back(exposed_ms - wait_ms);
        bar.ms.push_back(bar.step_ms - std::accumulate(bar.ms.begin(), bar.ms.end(), 0.0));
        if (std::isfinite(bar.step_ms)) found_.bars.push_back(std::move(bar));
    }

    const JobView& view_;
    const tool::JobTable& table_;
    std::vector<std::size_t> order_;  // indices of local phases
    std::vector<std::size_t> steps_;  // that means are over
    Breakdown found_;
};

}  // namespace

Breakdown find_breakdown(const JobView& view, const tool::JobTable* table, const std::string& why) {
    if (table == nullptr) return {why, {}, {}};
    if (table->local.empty() || !view.has_step)
        return {"No phases of a step are timed besides communication, so a step cannot be taken apart.", {}, {}};
    return BreakdownFinder(view, *table).find();
}

}  // namespace cep::report
