// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "replay/special_causes.hpp"
#include "stats/robust.hpp"
#include "stats/step_pattern.hpp"

namespace cep::tool {
namespace {

constexpr double least_excess_share = 0.02;  // of a step, as of a straggler

class LoaderSearch {
  public:
    explicit LoaderSearch(const JobReplay& steps)
        : graphs_(steps.graphs()),
          model_(steps.model()),
          threads_(steps.replayer().threads()),
          usual_step_ms_(steps.usual_step_ms()) {
        number_steps();
    }

    std::optional<SpecialCause> find() {
        std::optional<SpecialCause> longest;
        double longest_ms = 0;
        for (std::uint16_t name = 0; name < model_.rows->names().size(); ++name) {
            if (model_.rows->names()[name].kind != schema::Kind::data) continue;
            const std::vector<double> waits_ms = find_waits_ms(name);
            const auto period = find_period(numbers_, waits_ms, least_excess_share * usual_step_ms_);
            if (!period) continue;
            const double wait_ms = (period->larger - period->usual) / static_cast<double>(period->length);
            if (wait_ms <= longest_ms) continue;
            longest_ms = wait_ms;
            Finding cause{.kind = FindingKind::special,
                          .special_name = "loader",
                          .phase = std::string(model_.rows->names()[name].name)};
            cause.usual_ms = period->usual;
            cause.slow_ms = period->larger;
            cause.every_steps = period->length * unit_;
            cause.every_recorded = period->length;
            const DurationFormat duration(period->usual, period->larger);
            cause.text = {
                fmt::format("all ranks wait for {} every {} {}steps, {} instead of {}", cause.phase, period->length,
                            unit_ == 1 ? "" : "recorded ", duration(period->larger), duration(period->usual)),
                "without that", "waiting",
                "give the data loader more workers, let each prefetch more batches, or read from faster "
                "storage: its buffer of batches runs empty"};
            longest = SpecialCause{std::move(cause), without(name, *period, waits_ms)};
        }
        return longest;
    }

  private:
    /// Every step that is recorded at a stride counts.
    void number_steps() {
        const std::vector<std::int64_t>& steps = model_.rows->steps();
        unit_ = 0;
        for (std::size_t i = 1; i < steps.size(); ++i) unit_ = std::gcd(unit_, steps[i] - steps[i - 1]);
        unit_ = std::max<std::int64_t>(1, unit_);
        for (const StepGraph& graph : graphs_) numbers_.push_back((steps[graph.step] - steps.front()) / unit_);
    }

    /// By step, on the median rank.
    [[nodiscard]] std::vector<double> find_waits_ms(std::uint16_t name) const {
        std::vector<double> waits_ms(graphs_.size());
        for_all(graphs_.size(), threads_, [&](std::size_t i) {
            const StepGraph& graph = graphs_[i];
            std::vector<double> of_rank(model_.rows->ranks().size());
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (is_of(model_, graph, node, name))
                    of_rank[graph.ranks[node]] += static_cast<double>(graph.own_ms[node]);
            waits_ms[i] = median_of(of_rank);
        });
        return waits_ms;
    }

    static bool is_of(const JobModel& model, const StepGraph& graph, std::size_t node, std::uint16_t name) {
        const NodeKey& key = model.keys[graph.keys[node]];
        return !key.is_comm && key.name == name && key.segment != PieceKey::max_segment;
    }

    [[nodiscard]] Scenario without(std::uint16_t name, const Period& period,
                                   const std::vector<double>& waits_ms) const {
        auto factors = std::make_shared<std::unordered_map<std::uint32_t, double>>();  // by step
        for (std::size_t i = 0; i < graphs_.size(); ++i)
            if (numbers_[i] % period.length == period.remainder && waits_ms[i] > period.usual)
                factors->emplace(graphs_[i].step, period.usual / waits_ms[i]);
        return with_work([&model = model_, name, factors](const StepGraph& graph, std::size_t node) {
            const auto factor = is_of(model, graph, node, name) ? factors->find(graph.step) : factors->end();
            return factor == factors->end() ? graph.own_ms[node]
                                            : graph.own_ms[node] * static_cast<float>(factor->second);
        });
    }

    std::span<const StepGraph> graphs_;
    const JobModel& model_;
    const std::size_t threads_;
    const double usual_step_ms_;
    std::vector<std::int64_t> numbers_;  // by graph: of its step among those recorded
    std::int64_t unit_ = 1;              // between recorded steps
};

}  // namespace

/// A phase of kind data that is long in every n-th step on all ranks, as its buffer of batches is empty then. Of
/// several phases, the one that waits longest.
std::optional<SpecialCause> find_loader_waits(const JobReplay& steps) {
    return LoaderSearch(steps).find();
}

}  // namespace cep::tool
